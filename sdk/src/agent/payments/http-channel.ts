/** Presents a payment over HTTP, in the header that pays, and reads each response. Knows neither quotes nor budgets. */
import {
  decodeJsonHeader,
  encodeJsonHeader,
  HEADER,
  MAX_CREDENTIAL_BYTES,
  parsePaymentProof,
  parseStrictJson,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { Effects } from "../core/effects";
import {
  bodyHashOf,
  followWithoutCredential,
  isPrivateChannel,
  isRedirect,
  originAndPath,
  type RequestTemplate,
  readBounded,
  retryAfterMs,
  sendOnce,
} from "../core/request";
import type { PaymentEntry } from "../ledger/ledger-store";
import { ALLOWANCE_REQUIRED, type Answer, type Channel, type PurchaseTarget, type Reading } from "./channel";
import { codeIn } from "./quote";
import { type PaidResponse, withReceipt } from "./receipt";
import { readReport } from "./standard";

/** Returns what a request buys, and the channel on which it is paid for. @param headers what every attempt bears */
export function overHttp(
  { effects }: AgentContext,
  template: RequestTemplate,
  headers: Readonly<Record<string, string>>,
): { readonly target: PurchaseTarget; readonly channel: Channel<PaidResponse> } {
  const { url, method, signal } = template;
  const bodyHash = bodyHashOf(template);
  return {
    target: { method, resource: url, place: originAndPath(url), bodyHash, isPrivate: isPrivateChannel(url), signal },
    channel: {
      async present(entry) {
        const paying = { ...headers, ...paymentHeader(entry) };
        const response = await sendOnce(effects, template, { headers: paying, redirect: "manual" });
        return answerOf(effects, template, { response, reading: await readResponse(effects, response, entry) });
      },
    },
  };
}

function answerOf(
  effects: Effects,
  template: RequestTemplate,
  { response, reading }: { readonly response: Response; readonly reading: Reading },
): Answer<PaidResponse> {
  return {
    reading,
    report: reportOf(response),
    waitMs: (fallbackMs) => retryAfterMs(response, Date.now(), fallbackMs),
    discard: async () => response.body?.cancel(),
    async result(receipt) {
      const isFollowed = reading.kind === "served" && isRedirect(response);
      const final = isFollowed ? await followWithoutCredential(effects, template, response) : response;
      return withReceipt(final, receipt);
    },
  };
}

function reportOf({ headers }: Response) {
  const value = headers.get(HEADER.paymentResponse) ?? headers.get(HEADER.paymentResponseV2);
  return readReport(value === null ? undefined : decodeJsonHeader(value));
}

const TRY_LATER: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);

/** The header that pays, the same bytes every time. */
function paymentHeader(entry: PaymentEntry): Record<string, string> {
  if (entry.header) return { [entry.header.name]: entry.header.value };
  const value = encodeJsonHeader(entry.proof);
  parsePaymentProof(value);
  return { [HEADER.payment]: value };
}

async function readResponse(effects: Effects, response: Response, entry: PaymentEntry): Promise<Reading> {
  const { status } = response;
  if (entry.permit2 && (status === 402 || status === 412) && errorInHeader(response) === ALLOWANCE_REQUIRED) {
    await response.body?.cancel();
    return { kind: "rejected", error: ALLOWANCE_REQUIRED, reason: undefined };
  }
  if (status === 402) {
    const { error, reason } = codesOf(await readBounded(effects, response));
    return { kind: "rejected", error, reason };
  }
  if (status === 409) {
    // A handler may answer 409 for its own reasons; the gate names the code.
    const { error } = codesOf(await readBounded(effects, response.clone()));
    return { kind: error === "ProofInFlight" ? "in_flight" : "served" };
  }
  // Whatever the status is, the payment is spent on it: it is refunded, and buys nothing more.
  if (response.headers.has(HEADER.paymentRefund)) return { kind: "served" };
  if (TRY_LATER.has(status)) return { kind: "later" };
  if (status >= 500 || status === 400) return { kind: "unserved" };
  // Stock servers settle only behind an answer below 400.
  if (entry.dialect !== "turnpike" && status >= 400) return { kind: "unserved" };
  return { kind: "served" };
}

const errorInHeader = (response: Response): unknown =>
  decodeJsonHeader(response.headers.get(HEADER.paymentRequiredV2) ?? "", 2 * MAX_CREDENTIAL_BYTES)?.error;

function codesOf(text: string | undefined): {
  readonly error: string | undefined;
  readonly reason: string | undefined;
} {
  const body = text === undefined ? undefined : parseStrictJson(text);
  return { error: codeIn(body?.error), reason: codeIn(body?.reason) };
}
