/**
 * Processes one request to its outcome, through either channel: admits it, waits for the chain, and judges again what
 * did not move. Idempotent: the same request gets the same answer and moves money once.
 */
import { isTurnpikeError, type TurnpikeError } from "turnpike/protocol";
import type { Store, StoreTopic } from "../db/open";
import { isDatabaseOutage } from "../db/outage";
import type { PaymentRow } from "../db/tables/payments";
import type { Admitted, PaymentAdmission } from "./admission";
import type { PaymentProjection } from "./block-projection";
import type { Intake } from "./intake";
import { isSignedByPayer, type JudgeContext } from "./judge";
import { requeuePayment } from "./ledger";
import { conflictWith, failureOf, hasSignature, otherPaymentsNeedIt, type PaymentOutcome } from "./outcome";
import { type PaymentRequest, refusal } from "./payment-request";
import type { Sender } from "./sender";
import type { SettlementDepth } from "./settlement-depth";
import type { PaymentStages } from "./stages";
import { MAX_ATTEMPTS } from "./unmoved";

export interface PaymentProcessorOptions {
  readonly store: Store;
  readonly projection: Pick<PaymentProjection, "writes" | "settledInLastBlock">;
  readonly sender: Pick<Sender, "reconcile">;
  readonly intake: Pick<Intake, "find" | "isNew">;
  readonly admission: PaymentAdmission;
  readonly depth: SettlementDepth;
  readonly context: JudgeContext;
  readonly stages: PaymentStages;
  readonly monotonicMs: () => number;
}

/** A request that does not wait still has this long to get an outcome that is already known. */
const MIN_ANSWER_MS = 1_000;

/** How often the row is read without a notification: the notification of another process may be lost. */
const REREAD_MS = 5_000;

/** How often the row is read while its outcome cannot be: a commit may have happened, so this lasts until the time is up. */
const OUTAGE_REREAD_MS = 500;

export class PaymentProcessor {
  readonly #options: PaymentProcessorOptions;

  constructor(options: PaymentProcessorOptions) {
    this.#options = options;
  }

  /**
   * Processes a request until it has an outcome or the time is up. Returns in time, whatever the work waits for. The
   * work continues, and a later request finds its outcome.
   * @throws Unavailable when the chain cannot be read and nothing is known yet
   */
  process(request: PaymentRequest, { waitMs }: { readonly waitMs: number }): Promise<PaymentOutcome> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve({ kind: "pending" }), Math.max(waitMs, MIN_ANSWER_MS));
      const run = new RequestRun(this.#options, request, waitMs);
      run
        .toOutcome()
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }
}

/** One call for a request: what it has found out, and how it goes on from there. */
class RequestRun {
  readonly #options: PaymentProcessorOptions;
  readonly #request: PaymentRequest;
  readonly #startedMs: number;
  readonly #untilMs: number;
  #isProven = false;
  /** whether a row exists, or a commit that would write one was sent */
  #isBound = false;
  /** whether such a commit was not answered, so that the row may or may not exist */
  #isUnanswered = false;
  #rejudged = 0;
  /** since when this call waits for the chain; undefined while it has not */
  #waitingSinceMs: number | undefined;
  #settledMs: number | undefined;
  /** `writes` of the projection at the last read of the row */
  #readAtWrites = Number.POSITIVE_INFINITY;

  constructor(options: PaymentProcessorOptions, request: PaymentRequest, waitMs: number) {
    this.#options = options;
    this.#request = request;
    this.#startedMs = options.monotonicMs();
    this.#untilMs = this.#startedMs + waitMs;
  }

  /** While the database or the chain is away, a request that may be bound is pending; any other gets the error. */
  async toOutcome(): Promise<PaymentOutcome> {
    for (;;) {
      try {
        const outcome = await this.#step();
        if (outcome) return this.#reported(outcome);
      } catch (error) {
        if (!this.#mayStillSettle(error)) {
          if (isTurnpikeError(error)) this.#options.stages.refused(this.#request, error);
          throw error;
        }
        if (this.#isTimeUp()) return { kind: "pending" };
        await this.#options.store.notifier.wait(this.#topic, OUTAGE_REREAD_MS);
      }
    }
  }

  /** An error that ends by itself decides nothing about a payment that has a row or may have one. */
  #mayStillSettle(error: unknown): boolean {
    if (isDatabaseOutage(error)) return this.#isBound;
    return this.#isProven && isTurnpikeError(error) && error.code === "Unavailable";
  }

  #reported(outcome: PaymentOutcome): PaymentOutcome {
    const { stages, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    if (outcome.kind === "refused") stages.refused(this.#request, outcome.error);
    else if (outcome.kind === "settled" && this.#waitingSinceMs !== undefined)
      stages.confirmed(this.#request, outcome.row, nowMs - (this.#settledMs ?? nowMs));
    return outcome;
  }

  get #topic(): StoreTopic {
    return `payment:${this.#request.paymentId}`;
  }

  #isTimeUp(): boolean {
    return this.#options.monotonicMs() >= this.#untilMs;
  }

  /** Reads or admits the payment, and waits when the chain has not decided. @returns undefined to read it again */
  async #step(): Promise<PaymentOutcome | undefined> {
    const { store, intake, projection, admission, monotonicMs } = this.#options;
    const { paymentId } = this.#request;
    const leftMs = Math.max(0, this.#untilMs - monotonicMs());
    const restMs = Math.min(leftMs, REREAD_MS);
    const woken = store.notifier.wait(this.#topic, restMs);
    // Nearly every payment is requested once, so an unknown id is judged first and read afterwards.
    const isNew = !this.#isBound && intake.isNew(paymentId);
    // Another process may have reverted a payment that settled before the last read. Then only the row counts.
    const settled = projection.settledInLastBlock(paymentId, this.#readAtWrites);
    let row = settled ?? (isNew ? undefined : await this.#readRow());
    if (!row) {
      // Another process may have admitted the request, even if this one cannot judge it now.
      const outcome = await admission
        .admit(this.#request)
        .catch((error: unknown) => ({ kind: "thrown" as const, error }));
      this.#readAtWrites = projection.writes();
      if (outcome === "deploying") return this.#afterNextBlock(restMs);
      if (isAdmitted(outcome)) return this.#afterAdmission(outcome, woken);
      row = isNew ? await this.#readRow() : undefined;
      if (!row) {
        if (outcome.kind === "thrown") throw outcome.error;
        // A row may still appear for the unanswered commit, so a refusal now is not the outcome of that payment.
        return this.#isUnanswered && outcome.kind === "refused" ? { kind: "pending" } : outcome;
      }
    }
    return (await this.#refuseStranger(row)) ?? this.#decide(row, woken, restMs);
  }

  async #afterNextBlock(restMs: number): Promise<PaymentOutcome | undefined> {
    if (this.#isTimeUp()) return { kind: "pending" };
    await this.#options.store.notifier.wait("block", restMs);
    return undefined;
  }

  async #readRow(): Promise<PaymentRow | undefined> {
    const { intake, projection } = this.#options;
    const row = await intake.find(this.#request.paymentId);
    this.#readAtWrites = projection.writes();
    return row;
  }

  async #afterAdmission(
    admitted: Exclude<Admitted, "deploying">,
    woken: Promise<unknown>,
  ): Promise<PaymentOutcome | undefined> {
    if (admitted === "bound") this.#countAdmitted();
    this.#isProven = true;
    this.#isBound = true;
    this.#waitingSinceMs ??= this.#options.monotonicMs();
    this.#isUnanswered ||= admitted === "unanswered";
    if (admitted === "exists") return undefined;
    if (this.#isTimeUp()) return { kind: "pending" };
    if (admitted === "bound") await woken;
    return undefined;
  }

  #countAdmitted(): void {
    const { stages, monotonicMs } = this.#options;
    stages.admitted(this.#request, monotonicMs() - this.#startedMs);
  }

  /** Refuses a request that the row is not for, or whose signature is not the payer's. */
  async #refuseStranger(row: PaymentRow): Promise<PaymentOutcome | undefined> {
    const request = this.#request;
    const conflict = conflictWith(row, request);
    if (conflict) return { kind: "refused", error: conflict, liveUntilSec: row.valid_before };
    // Payment ids are computable by anyone, so only the payer's signature gives access to the row.
    this.#isBound = true;
    this.#isProven ||= hasSignature(row, request) || (await isSignedByPayer(this.#options.context, request));
    if (this.#isProven) return undefined;
    return { kind: "refused", error: refusal("InvalidSignature", "signature", "the signature is not the payer's") };
  }

  /** Returns the outcome that the row proves; otherwise waits for the chain. */
  async #decide(row: PaymentRow, woken: Promise<unknown>, restMs: number): Promise<PaymentOutcome | undefined> {
    const { sender, depth } = this.#options;
    if (row.state === "waived") return { kind: "settled", row };
    if (row.state === "settled") {
      this.#noteSettled(row);
      if (depth.isDeepEnough(row)) return { kind: "settled", row };
    } else if (row.state === "failed" && depth.isFinalFailure(row)) {
      return this.#afterFailure(row, restMs);
    } else if (row.state === "parked" && !(await sender.reconcile(row))) {
      const refused = await this.#rejudge(row);
      if (refused) return refused;
    }
    this.#waitingSinceMs ??= this.#options.monotonicMs();
    if (row.state === "settled" || row.state === "failed") return this.#afterNextBlock(restMs);
    if (this.#isTimeUp()) return { kind: "pending" };
    await woken;
    return undefined;
  }

  #noteSettled(row: PaymentRow): void {
    if (this.#settledMs !== undefined) return;
    const { stages, monotonicMs } = this.#options;
    this.#settledMs = monotonicMs();
    if (this.#waitingSinceMs !== undefined) stages.mined(this.#request, row, this.#settledMs - this.#waitingSinceMs);
  }

  async #afterFailure(row: PaymentRow, restMs: number): Promise<PaymentOutcome | undefined> {
    // Another authorization with the same nonce is judged separately: it may be the one that used the nonce.
    if (hasSignature(row, this.#request)) return { kind: "failed", error: failureOf(row) };
    const outcome = await this.#options.admission.readmit(this.#request);
    if (outcome === "deploying") return this.#afterNextBlock(restMs);
    if (outcome === "bound") this.#countAdmitted();
    return isAdmitted(outcome) ? undefined : outcome;
  }

  /** Judges a sent payment that did not move: refuses it with the reason, or queues it once more. */
  async #rejudge(row: PaymentRow): Promise<PaymentOutcome | undefined> {
    const { store, admission } = this.#options;
    const isRepeated = this.#rejudged++ > 0;
    const refused = (error: TurnpikeError): PaymentOutcome => ({
      kind: "refused",
      error,
      liveUntilSec: row.valid_before,
    });
    const judgement = await admission.judgeUnlimited(this.#request);
    if (judgement.kind === "bad") return refused(judgement.error);
    // A reorganisation has removed the payer's wallet; the lane sends the same deployment again.
    if (judgement.kind === "used" || judgement.deployment) return undefined;
    if (isRepeated || row.attempts > MAX_ATTEMPTS * 2)
      return refused(refusal("TransferFailed", "not_moved", "the token did not move the money and gave no reason"));
    const lost = admission.whyLost(this.#request);
    if (lost) return refused(lost);
    if ((await requeuePayment(store, row, judgement)) === "short") return refused(otherPaymentsNeedIt());
    store.notifier.notify("payments");
    return undefined;
  }
}

function isAdmitted(result: PaymentOutcome | Admitted | { readonly kind: "thrown" }): result is Admitted {
  return typeof result === "string";
}
