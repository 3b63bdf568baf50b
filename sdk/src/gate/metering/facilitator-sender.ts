/**
 * Debits through a Facilitator's `POST /debits`, for providers that made its relayer their plan's operator. The
 * Facilitator is idempotent by idHash and index; the trust this needs is that it tells the truth about them.
 */
import type { DebitItem, DebitOutcome, DebitResult, DebitSender } from "../../chain/debit-sender";
import { createFacilitatorClient, type DebitRequestWire } from "../../facilitator";
import type { FetchLike } from "../../facilitator/transport";
import { type ErrorCode, isErrorCode, Unavailable } from "../../protocol/errors";

export interface FacilitatorSenderOptions {
  readonly url: string;
  /** the provider's; goes into one header and nowhere else */
  readonly apiKey: string;
  readonly fetch?: FetchLike;
  /** default 30,000 */
  readonly timeoutMs?: number;
  /** told when the Facilitator refuses the API key itself */
  readonly onRefused?: (reason: ErrorCode) => void;
}

const TIMEOUT_MS = 30_000;

export function createFacilitatorSender({
  timeoutMs = TIMEOUT_MS,
  onRefused,
  ...options
}: FacilitatorSenderOptions): DebitSender {
  const client = createFacilitatorClient({ ...options, timeoutMs });

  /** @throws Unavailable whenever the outcome is not known; a key that is refused decides nothing about the debits */
  async function post(payload: string) {
    const outcome = await client.debits(JSON.parse(payload) as DebitRequestWire[]);
    if (outcome.kind === "answered") return outcome.results;
    onRefused?.(outcome.error.code);
    throw new Unavailable(`The Facilitator did not take the debits: ${outcome.error.message}`, {
      cause: outcome.error,
      retryAfterSec: 5,
    });
  }

  async function outcome(items: readonly DebitItem[], payloads: readonly string[]): Promise<DebitOutcome> {
    const payload = payloads[0];
    if (payload === undefined) return { kind: "final", results: items.map(() => ({ kind: "void" })) };
    const results: DebitResult[] = [];
    for (const answer of await post(payload)) {
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
  const debits: DebitRequestWire[] = items.map(({ idHash, amount, index }) => ({
    idHash,
    amount: amount.toString(),
    index,
  }));
  return JSON.stringify(debits);
}
