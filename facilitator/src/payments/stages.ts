/**
 * Logs, counts and traces what happens to each payment. Every line has the payment's id: one payment can be followed through
 * the logs of all processes. A refund's lines have the id of the refunded payment, and its own as `refundId`.
 */
import type { Logger } from "pino";
import type { TurnpikeError } from "turnpike/protocol";
import type { Store } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import type { KnownForm } from "../db/tables/relayer";
import type { PaymentMetrics } from "../telemetry/metrics";
import type { TracedStage, Tracing } from "../telemetry/tracing";
import type { PaymentRequest } from "./payment-request";
import type { RefundRecords } from "./refund-records";

export interface PaymentStagesOptions {
  readonly log: Logger;
  /** absent: nothing is counted */
  readonly metrics?: PaymentMetrics | undefined;
  readonly tracing?: Tracing | undefined;
  /** unix milliseconds by the database's clock; absent: settlements are not timed */
  readonly nowMs?: (() => number) | undefined;
}

interface Ids {
  readonly paymentId: string;
  readonly refundId?: string;
}

const UNAVAILABLE = 503;

interface TimedStage {
  readonly name: "judge" | "bind";
  readonly request: PaymentRequest;
  readonly monotonicMs: () => number;
}

export class PaymentStages {
  readonly #log: Logger;
  readonly #metrics: PaymentMetrics | undefined;
  readonly #tracing: Tracing | undefined;
  readonly #nowMs: (() => number) | undefined;

  constructor({ log, metrics, tracing, nowMs }: PaymentStagesOptions) {
    this.#log = log;
    this.#metrics = metrics;
    this.#tracing = tracing;
    this.#nowMs = nowMs;
  }

  /**
   * Does the work of a stage, and measures it unless it fails: checks the request's payment, or writes it.
   * @param monotonicMs its clock
   */
  async during<T>({ name, request, monotonicMs }: TimedStage, work: () => Promise<T>): Promise<T> {
    const startedMs = monotonicMs();
    const result = await (this.#tracing ? this.#tracing.within(idsOfRequest(request).paymentId, name, work) : work());
    this.#metrics?.stageTook(name, monotonicMs() - startedMs);
    return result;
  }

  /** Names the request, for the process that sends its payment; undefined when its trace is not kept. */
  traceparentOf(request: PaymentRequest): string | undefined {
    return this.#tracing?.traceparentOf(idsOfRequest(request).paymentId);
  }

  /** The payment is accepted: its row is committed. @param tookMs since the request */
  admitted(request: PaymentRequest, tookMs: number): void {
    const { channel } = request;
    this.#metrics?.admitted.inc({ channel });
    this.#metrics?.stageTook("intake", tookMs);
    this.#log.info({ ...idsOfRequest(request), channel }, "payment admitted");
  }

  /** The request is refused. An outage refuses thousands, and is logged by the kind of refusal instead. */
  refused(request: PaymentRequest, { code, reason, status }: TurnpikeError): void {
    this.#metrics?.refusals.inc({ code, reason: reason ?? "" });
    const line = { ...idsOfRequest(request), code, reason };
    if (status === UNAVAILABLE) this.#log.debug(line, "payment refused");
    else this.#log.info(line, "payment refused");
  }

  /** A transaction with these payments is sent for the first time. */
  broadcast(payments: readonly BroadcastPayment[], { hash: transaction, signed_at_ms: signedMs }: KnownForm): void {
    const nowMs = this.#nowMs?.();
    for (const { payment_id: id, refunded_id: refunded, accepted_at_ms: acceptedMs, traceparent } of payments) {
      const ids = idsOf(id, refunded);
      const queuedMs = signedMs - acceptedMs;
      this.#metrics?.stageTook("queue", queuedMs);
      this.#log.info({ ...ids, transaction }, "payment broadcast");
      const endedAgoMs = (nowMs ?? signedMs) - signedMs;
      this.#tracing?.stage(ids.paymentId, { name: "queue", tookMs: queuedMs, endedAgoMs, transaction, traceparent });
    }
  }

  /** A node has answered that transaction. @param tookMs since it was sent */
  submitted(payments: readonly BroadcastPayment[], { hash: transaction }: KnownForm, tookMs: number): void {
    for (const { payment_id: id, refunded_id: refunded, traceparent } of payments) {
      const { paymentId } = idsOf(id, refunded);
      this.#tracing?.stage(paymentId, { name: "submit", tookMs, transaction, traceparent });
    }
  }

  /** A block has decided these payments. */
  decided(rows: readonly PaymentRow[], refunds: RefundRecords): void {
    for (const row of rows) {
      const { payment_id: id, state, fail_reason: reason, tx_hash: transaction, block_number: block } = row;
      if (state !== "settled" && state !== "failed") continue;
      const line = { ...idsOf(id, refunds.of(id)?.refunded_id), block, ...(transaction && { transaction }) };
      if (state === "settled") this.#settled(row, line);
      else {
        this.#metrics?.failed.inc({ reason: reason ?? "unknown" });
        this.#log.info({ ...line, reason }, "payment failed");
      }
    }
  }

  #settled({ accepted_at_ms: acceptedMs, block_time: blockSec, traceparent, ...row }: PaymentRow, line: Ids): void {
    this.#metrics?.settled.inc();
    const nowMs = this.#nowMs?.();
    if (nowMs !== undefined) {
      this.#metrics?.settleSeconds.observe(Math.max(0, nowMs - acceptedMs) / 1_000);
      const tookMs = nowMs - (blockSec ?? 0) * 1_000;
      const { tx_hash: transaction, block_number: block } = row;
      if (traceparent) this.#tracing?.stage(line.paymentId, { name: "index", tookMs, transaction, block, traceparent });
    }
    this.#log.info(line, "payment mined");
  }

  /** A request that has waited reads the payment as settled. @param tookMs since it waits */
  mined(request: PaymentRequest, { tx_hash: transaction, block_number: block }: PaymentRow, tookMs: number): void {
    this.#trace(request, { name: "mine", tookMs, transaction, block });
  }

  /** The payment's block is deep enough to count, and a request has waited for it. @param tookMs since that block */
  confirmed(request: PaymentRequest, { block_number: block }: PaymentRow, tookMs: number): void {
    this.#metrics?.stageTook("confirm", tookMs);
    this.#trace(request, { name: "confirm", tookMs, block });
    this.#log.info({ ...idsOfRequest(request), block }, "payment confirmed");
  }

  /** The payment is granted to a purchase: the database has answered. */
  granted(paymentId: string, tookMs: number): void {
    this.#tracing?.stage(paymentId, { name: "grant", tookMs });
  }

  #trace(request: PaymentRequest, stage: TracedStage): void {
    this.#tracing?.stage(idsOfRequest(request).paymentId, stage);
  }

  /** The block of these payments was reorganised away: they are pending again. */
  reversed(rows: readonly PaymentRow[], refunds: RefundRecords): void {
    for (const { payment_id: id, tx_hash: transaction, state } of rows) {
      if (state === "settled") this.#metrics?.reversed.inc();
      this.#log.warn({ ...idsOf(id, refunds.of(id)?.refunded_id), transaction }, "payment reversed");
    }
  }
}

const idsOf = (id: string, refundedId: string | null | undefined): Ids =>
  refundedId ? { paymentId: refundedId, refundId: id } : { paymentId: id };

const idsOfRequest = ({ paymentId, refund }: PaymentRequest): Ids => idsOf(paymentId, refund?.refunded.id);

export interface BroadcastPayment extends Pick<PaymentRow, "accepted_at_ms" | "traceparent"> {
  readonly payment_id: string;
  readonly refunded_id: string | null;
}

/** Reads the payments that a transaction carries, until its block is applied. */
export async function paymentsOfTransaction(
  { db }: Store,
  chainId: number,
  { transaction_id: id }: Pick<KnownForm, "transaction_id">,
): Promise<BroadcastPayment[]> {
  return db
    .selectFrom("payments as p")
    .leftJoin("refunds as r", (join) =>
      join.onRef("r.chain_id", "=", "p.chain_id").onRef("r.payment_id", "=", "p.payment_id"),
    )
    .select(["p.payment_id", "p.accepted_at_ms", "p.traceparent", "r.refunded_id"])
    .where("p.chain_id", "=", chainId)
    .where("p.transaction_id", "=", id)
    .where("p.state", "=", "sent")
    .execute();
}
