/** Presents a payment over HTTP, in the header that pays, and reads each response. Knows neither quotes nor budgets. */
import { encodeJsonHeader, HEADER, parsePaymentProof, parseStrictJson } from "../../protocol";
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
import type { Answer, Channel, PurchaseTarget, Reading } from "./channel";
import { isReported, objectIn, reportIn } from "./dialects";
import { methodOfEntry } from "./methods";
import { codeIn } from "./quote";
import { type PaidResponse, withReceipt } from "./receipt";
import { signedReceiptIn } from "./signed-statements";
import { readReport } from "./standard";

/** Returns what a request buys, and the channel on which it is paid for. @param headers what every attempt bears */
export function overHttp(
  { effects }: AgentContext,
  template: RequestTemplate,
  headers: Readonly<Record<string, string>>,
): { readonly target: PurchaseTarget; readonly channel: Channel<PaidResponse> } {
  const { url, method, signal } = template;
  const place = originAndPath(url);
  const facts = { place, bodyHash: bodyHashOf(template), isPrivate: isPrivateChannel(url) };
  return {
    // Stock servers may leave the query out.
    target: { method, resource: url, names: [url, place], signal, ...facts },
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
  const { headers } = response;
  return {
    reading,
    report: readReport(reportIn(headers)),
    signedReceipt:
      signedReceiptIn(objectIn(headers, HEADER.paymentResponseV2)) ??
      signedReceiptIn(objectIn(headers, HEADER.paymentResponse)),
    waitMs: (fallbackMs) => retryAfterMs(response, Date.now(), fallbackMs),
    discard: async () => response.body?.cancel(),
    async result(receipt) {
      const isFollowed = reading.kind === "served" && isRedirect(response);
      const final = isFollowed ? await followWithoutCredential(effects, template, response) : response;
      return withReceipt(final, receipt);
    },
    // Of what was paid for, whatever a redirect led to.
    isSuccess: () => response.status < 400,
  };
}

const TRY_LATER: ReadonlySet<number> = new Set([408, 425, 429, 502, 503, 504]);

function paymentHeader(entry: PaymentEntry): Record<string, string> {
  if (entry.header) return { [entry.header.name]: entry.header.value };
  const value = encodeJsonHeader(entry.proof);
  parsePaymentProof(value);
  return { [HEADER.payment]: value };
}

async function readResponse(effects: Effects, response: Response, entry: PaymentEntry): Promise<Reading> {
  const { status } = response;
  const unapproved = methodOfEntry(entry).approved?.refusal;
  if (unapproved && (status === 402 || status === 412) && errorInHeader(response.headers) === unapproved) {
    await response.body?.cancel();
    return { kind: "rejected", error: unapproved, reason: undefined };
  }
  if (status === 402) {
    const { error, reason } = codesOf(await readBounded(effects, response));
    // Stock servers of version 2 say why in the header alone.
    return { kind: "rejected", error: error ?? codeIn(errorInHeader(response.headers)), reason };
  }
  if (status === 409) {
    // A handler may answer 409 for its own reasons; the gate names the code.
    const { error, reason } = codesOf(await readBounded(effects, response.clone()));
    // What a gate says in place of a 402 to clients that would pay again.
    if (entry.dialect !== "turnpike" && error === "PayloadConflict") return { kind: "rejected", error, reason };
    return { kind: error === "ProofInFlight" ? "in_flight" : "served" };
  }
  // Whatever the status is, what has settled is spent on it: it is refunded, and buys nothing more. Of another payment the
  // header says nothing that the agent can know.
  if (entry.proof && response.headers.has(HEADER.paymentRefund)) return { kind: "served" };
  if (TRY_LATER.has(status)) return { kind: "later" };
  // Sold as it is, and counted: the same payment buys nothing else there.
  if (status >= 400 && status < 500 && reportIn(response.headers)?.success === true) return { kind: "served" };
  // Nothing new: a gate leaves the payment unused, and a server that has charged for it says so.
  if (status === 304 && (entry.dialect === "turnpike" || !isReported(response.headers))) return { kind: "unserved" };
  if (status >= 500 || status === 400) return { kind: "unserved" };
  // Stock servers settle only behind an answer below 400.
  if (entry.dialect !== "turnpike" && status >= 400) return { kind: "unserved" };
  return { kind: "served" };
}

const errorInHeader = (headers: Headers): unknown => objectIn(headers, HEADER.paymentRequiredV2)?.error;

function codesOf(text: string | undefined): {
  readonly error: string | undefined;
  readonly reason: string | undefined;
} {
  const body = text === undefined ? undefined : parseStrictJson(text);
  return { error: codeIn(body?.error), reason: codeIn(body?.reason) };
}
