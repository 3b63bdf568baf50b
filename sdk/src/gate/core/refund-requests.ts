/**
 * Has payments refunded whose handler failed after they had settled: asks the Facilitator until the outcome is known. The
 * payment is the idempotency key, so that asking again never pays twice. Signs nothing and holds no money.
 */
import type { RefundOutcome } from "../../facilitator/client";
import { caip2Of, type ErrorCode, encodeJsonHeader, HEADER, type Hex, isTurnpikeError } from "../../protocol";
import { atMost } from "../../protocol/exchange";
import type { OneTimePayment } from "./payment";
import type { Settings } from "./settings";

/** `refused`: for good. Whatever is unknown or may change is `pending`. */
export type RefundState = "settled" | "pending" | "refused";

export interface RefundRequests {
  /** Asks for the refund of a payment whose purchase is closed. @returns what is known after a bounded time */
  ask(paymentId: Hex): Promise<RefundState>;
  /** Ends the repetitions: the payer's next request begins them again. */
  close(): void;
}

/** What a request needs whose payment is refunded if its handler fails. */
export interface RefundOnFailure {
  readonly paymentId: Hex;
  /** of the failed answer */
  readonly headers: Readonly<Record<string, string>>;
  /** Called once the purchase is closed: it is never served again. */
  begin(): void;
}

/** A refund settles with a block; the payer finds it later by the payment's id. */
const ANSWER_WAIT_MS = 1_000;

const FIRST_RETRY_MS = 1_000;

const LAST_RETRY_MS = 300_000;

/** More are not repeated by themselves, but when their payers ask. */
const MAX_REPEATED = 10_000;

/** The Facilitator will never refund it automatically. */
const FINAL: ReadonlySet<ErrorCode> = new Set(["UnknownObject", "RefundExceedsPayment", "PayloadConflict"]);

/** @param refundPayment throws Unavailable when the outcome is unknown */
export function createRefundRequests(refundPayment: (paymentId: Hex) => Promise<RefundOutcome>): RefundRequests {
  const running = new Map<Hex, Promise<RefundState>>();
  const timers = new Map<Hex, NodeJS.Timeout>();
  const warned = new Set<string>();
  let isClosed = false;

  function warn(code: string, message: string): void {
    if (warned.has(code)) return;
    warned.add(code);
    process.emitWarning(`A payment of a failed request is not refunded (${code}): ${message}`);
  }

  async function once(paymentId: Hex): Promise<RefundState> {
    try {
      const outcome = await refundPayment(paymentId);
      if (outcome.kind !== "refused") return outcome.kind;
      const { code, message } = outcome.error;
      warn(code, message);
      return FINAL.has(code) ? "refused" : "pending";
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      warn(error.code, error.message);
      return "pending";
    }
  }

  function attempt(paymentId: Hex, delayMs: number): Promise<RefundState> {
    const asking = once(paymentId).finally(() => running.delete(paymentId));
    running.set(paymentId, asking);
    clearTimeout(timers.get(paymentId));
    timers.delete(paymentId);
    asking.then(
      (state) => {
        if (state === "pending") repeat(paymentId, delayMs);
      },
      (error: unknown) => warn("Internal", String(error)),
    );
    return asking;
  }

  function repeat(paymentId: Hex, delayMs: number): void {
    if (isClosed || timers.size >= MAX_REPEATED) return;
    const next = (): unknown => attempt(paymentId, Math.min(2 * delayMs, LAST_RETRY_MS)).catch(() => undefined);
    timers.set(paymentId, setTimeout(next, delayMs).unref());
  }

  return {
    ask: (paymentId) =>
      atMost(ANSWER_WAIT_MS, running.get(paymentId) ?? attempt(paymentId, FIRST_RETRY_MS), () => "pending" as const),
    close() {
      isClosed = true;
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
    },
  };
}

/** What `payment` needs so that a failure of its handler is refunded. */
export function refundOnFailureOf(
  { refunds, settings }: { readonly refunds: RefundRequests; readonly settings: Settings },
  { paymentId, amount, payer }: OneTimePayment,
): RefundOnFailure {
  const refund = {
    status: "pending",
    network: caip2Of(settings.network.chainId),
    paymentId,
    payer,
    amount: `${amount}`,
  };
  return {
    paymentId,
    headers: { [HEADER.paymentRefund]: encodeJsonHeader(refund) },
    begin: () => void refunds.ask(paymentId).catch(() => undefined),
  };
}
