/**
 * Creates the errors of aborted calls: whether anything was signed, whether money may still move, and what to do.
 * `name` is `AbortError`, as with fetch, and `cause` is the signal's own reason.
 */
import { AbortError, type Hex, isTurnpikeError } from "../../protocol";
import type { PaymentEntry } from "../ledger/ledger-store";
import type { RequestInput } from "./request";

/** The signal of a request, as fetch finds it. */
export function signalOf(input: RequestInput, init: RequestInit | undefined): AbortSignal | undefined {
  return init?.signal ?? (input instanceof Request ? input.signal : undefined);
}

/** Returns whether `error` is due to the caller's abort. An exchange that is cut off looks like an outage. */
function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true && (!isTurnpikeError(error) || error.code === "Unavailable");
}

/** Runs a call; its abort becomes an error that says that nothing was signed, unless a payment has said otherwise. */
export async function orNothingSigned<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isAbort(error, signal) ? nothingSigned(signal?.reason) : error;
  }
}

interface Signed {
  readonly signal: AbortSignal | undefined;
  /** aborts when the agent is closed */
  readonly closing: AbortSignal;
  /** reads what the ledger holds of the payment */
  readonly now: () => PaymentEntry;
}

/** Runs the part of a call that follows a signature; its abort becomes an error with the payment's state. */
export async function orHeld<T>({ signal, closing, now }: Signed, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isAbort(error, signal)) throw afterSigning(now(), signal?.reason);
    throw closing.aborted && error === closing.reason ? afterSigning(now(), error) : error;
  }
}

function nothingSigned(cause: unknown): AbortError {
  return new AbortError("The call was aborted. Nothing was signed, and nothing was paid.", {
    reason: "nothing_signed",
    details: { signed: false },
    cause,
  });
}

function afterSigning(entry: PaymentEntry, cause: unknown): AbortError {
  const { id, amount, payTo, validBeforeSec, state } = entry;
  const transaction = (entry.proof?.transaction ?? entry.transaction) as Hex | undefined;
  const details = { signed: true, paymentId: id, amount, payTo, validBefore: validBeforeSec };
  const facts = { details: { ...details, ...(transaction ? { transaction } : {}) }, cause };
  if (state === "released") return nothingSigned(cause);
  const payment = `Payment ${id} of ${amount} base units to ${payTo}`;
  if (state === "served") {
    return new AbortError(`${payment} was served, and the call was aborted while its response was read.`, {
      ...facts,
      reason: "served",
    });
  }
  const again = "Repeat the call with the same request: it presents this payment and signs no other.";
  return state === "settled"
    ? new AbortError(`${payment} was paid, and the call was aborted before the provider served it. ${again}`, {
        ...facts,
        reason: "paid",
      })
    : new AbortError(
        `${payment} was signed, and the call was aborted: it may still settle until ${validBeforeSec} (unix seconds). ${again} agent.settleHeld() asks for its outcome.`,
        { ...facts, reason: "signed" },
      );
}
