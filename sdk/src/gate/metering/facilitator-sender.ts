/**
 * Debits through a Facilitator's `POST /debits`, for providers that made its relayer their plan's operator. The
 * Facilitator is idempotent by idHash and index; the trust this needs is that it tells the truth about them.
 */
import { z } from "zod";
import type { DebitItem, DebitOutcome, DebitResult, DebitSender } from "../../chain/debit-sender";
import { isErrorCode, Unavailable } from "../../protocol/errors";

export interface FacilitatorSenderOptions {
  readonly url: string;
  /** the provider's; goes into one header and nowhere else */
  readonly apiKey: string;
  readonly fetch?: typeof fetch;
  /** default 30,000 */
  readonly timeoutMs?: number;
}

/** What the Facilitator answers about each item, in the order asked. */
const debitsAnswerSchema = z.object({
  debits: z.array(
    z.discriminatedUnion("status", [
      z.object({ status: z.literal("settled") }),
      z.object({ status: z.literal("failed"), code: z.string().max(64) }),
      z.object({ status: z.literal("pending") }),
    ]),
  ),
});

export function createFacilitatorSender(options: FacilitatorSenderOptions): DebitSender {
  const { url, apiKey, fetch: send = fetch, timeoutMs = 30_000 } = options;
  const endpoint = `${url.replace(/\/+$/, "")}/debits`;

  async function post(payload: string) {
    let response: Response;
    try {
      response = await send(endpoint, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${apiKey}` },
        body: payload,
        redirect: "error",
        signal: AbortSignal.timeout(timeoutMs),
      });
    } catch (cause) {
      throw new Unavailable("The Facilitator cannot be reached.", { cause, retryAfterSec: 5 });
    }
    const body: unknown = await response.json().catch(() => undefined);
    const parsed = debitsAnswerSchema.safeParse(body);
    if ((response.status !== 200 && response.status !== 202) || !parsed.success) {
      throw new Unavailable(`The Facilitator did not take the debits (status ${response.status}).`, {
        retryAfterSec: 5,
      });
    }
    return parsed.data.debits;
  }

  async function outcome(items: readonly DebitItem[], payloads: readonly string[]): Promise<DebitOutcome> {
    const payload = payloads[0];
    if (payload === undefined) return { kind: "final", results: items.map(() => ({ kind: "void" })) };
    const answers = await post(payload);
    const results: DebitResult[] = [];
    for (const answer of answers) {
      if (answer.status === "pending") return { kind: "pending" };
      if (answer.status === "settled") results.push({ kind: "settled" });
      else results.push({ kind: "failed", reason: isErrorCode(answer.code) ? answer.code : "Internal" });
    }
    return results.length === items.length ? { kind: "final", results } : { kind: "pending" };
  }

  return {
    // The Facilitator simulates before it sends; an item that would fail comes back failed, at no cost.
    prepare: async (items) => ({ items, refused: [], payload: items.length === 0 ? undefined : encode(items) }),
    async submit(payloads) {
      if (payloads[0] !== undefined) await post(payloads[0]);
    },
    outcome,
    replace: async () => undefined,
  };
}

function encode(items: readonly DebitItem[]): string {
  const debits = items.map(({ idHash, amount, index }) => ({ idHash, amount: amount.toString(), index }));
  return JSON.stringify({ debits });
}
