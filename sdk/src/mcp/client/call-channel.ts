/**
 * Sends one tool call, presents its payment in `_meta`, and reads each result. Knows neither quotes nor budgets. What
 * the server writes as text is never read.
 */
import type { Effects } from "../../agent/core/effects";
import type { PaymentEntry } from "../../agent/ledger/ledger-store";
import type { Answer, Channel, Reading } from "../../agent/payments/channel";
import { codeIn } from "../../agent/payments/quote";
import { recordReceipt } from "../../agent/payments/receipt";
import { signedReceiptIn } from "../../agent/payments/signed-statements";
import { readReport } from "../../agent/payments/standard";
import { ERRORS, isErrorCode, type JsonObject, PaymentPending } from "../../protocol";
import { type CallResult, isInputRequired, MCP_META, type Meta, objectOf, receiptIn } from "../wire";
import { paymentMetaOf } from "./carrier";
import { readAsk } from "./read-ask";

/** Sends the call once. @param meta what it bears besides the caller's own `_meta` */
export type SendCall<R> = (meta: Meta) => Promise<R>;

/** Ends a call with its agent: its answer may then still arrive, and nobody waits for it. */
export async function untilClosed<R>(
  { closing, onClose }: Pick<Effects, "closing" | "onClose">,
  signal: AbortSignal | undefined,
  send: (signal: AbortSignal) => Promise<R>,
): Promise<R> {
  closing.throwIfAborted();
  const stop = new AbortController();
  const forget = onClose(() => stop.abort(closing.reason));
  try {
    return await send(signal ? AbortSignal.any([signal, stop.signal]) : stop.signal);
  } catch (error) {
    closing.throwIfAborted();
    throw error;
  } finally {
    forget();
  }
}

/** Returns the channel on which a call is paid for. */
export function callChannel<R extends CallResult>(send: SendCall<R>): Channel<R> {
  return {
    async present(entry) {
      try {
        const result = await send(paymentMetaOf(entry));
        return answerOf(result, { reading: readResult(result, entry), result: async () => result });
      } catch (error) {
        if (isTimeout(error)) throw timedOut(entry, error);
        if (!isServerError(error)) throw error;
        const rejects = () => Promise.reject<R>(error);
        return answerOf(undefined, { reading: { kind: "unserved" }, result: rejects });
      }
    },
  };
}

function answerOf<R extends CallResult>(
  result: R | undefined,
  { reading, result: read }: { readonly reading: Reading; readonly result: () => Promise<R> },
): Answer<R> {
  const report = receiptIn(result?._meta);
  return {
    reading,
    report: readReport(report),
    signedReceipt: signedReceiptIn(report),
    waitMs: (fallbackMs) => fallbackMs,
    discard: async () => {},
    async result(receipt) {
      const answer = await read();
      recordReceipt(answer, receipt);
      return answer;
    },
    isSuccess: (answer) => answer.isError !== true && !isInputRequired(answer),
  };
}

function readResult(result: CallResult, { proof, dialect }: PaymentEntry): Reading {
  const ask = readAsk(result);
  if (ask) {
    const { error, reason } = ask.quote ?? ask.required;
    return { kind: "rejected", error: codeIn(error), reason: codeIn(reason) };
  }
  // It has settled and is refunded, and buys nothing more. Of another payment it says nothing that the agent can know.
  if (proof && objectOf(result._meta?.[MCP_META.refund])) return { kind: "served" };
  const refusal = refusalIn(result);
  const code = refusal?.error;
  // What this project's tools say in place of an ask to clients that would pay again.
  if (dialect !== "turnpike" && code === "PayloadConflict") {
    return { kind: "rejected", error: code, reason: codeIn(refusal?.reason) };
  }
  if (code === "ProofInFlight") return { kind: "in_flight" };
  if (TRY_LATER.has(isErrorCode(code) ? ERRORS[code].status : 0)) return { kind: "later" };
  // Also where the server reports that a failed call's payment has settled: presented again, it cannot be paid twice.
  return { kind: result.isError === true || isInputRequired(result) ? "unserved" : "served" };
}

const TRY_LATER: ReadonlySet<number> = new Set([429, 502, 503, 504]);

const refusalIn = (result: CallResult | undefined): JsonObject | undefined =>
  objectOf(result?._meta?.[MCP_META.refusal]);

/** By the error's name, the code by which each release of the MCP SDK reports a time-out. */
const TIMEOUT_CODES: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["McpError", -32_001],
  ["SdkError", "REQUEST_TIMEOUT"],
]);

/** Of an `McpError`: no server has answered. */
const CONNECTION_CLOSED = -32_000;

/** Of an `SdkError`: the server has answered, and the client could not go on. */
const ANSWERED: readonly unknown[] = ["INPUT_REQUIRED_ROUNDS_EXCEEDED", "UNSUPPORTED_RESULT_TYPE"];

const codeOf = (error: Error): unknown => (error as { readonly code?: unknown }).code;

const isTimeout = (error: unknown): boolean =>
  error instanceof Error && TIMEOUT_CODES.has(error.name) && codeOf(error) === TIMEOUT_CODES.get(error.name);

/** Returns whether the server has answered, with an error of the protocol. */
function isServerError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === "McpError") return codeOf(error) !== CONNECTION_CLOSED;
  return error.name === "ProtocolError" || (error.name === "SdkError" && ANSWERED.includes(codeOf(error)));
}

function timedOut({ id }: PaymentEntry, cause: unknown): PaymentPending {
  return new PaymentPending(
    `The tool call timed out after payment ${id} was presented, and may still use it. Repeat the call with the same arguments: it presents this payment and signs no other. A longer \`timeout\` waits longer.`,
    { reason: "timeout", details: { paymentId: id }, cause },
  );
}
