/**
 * Logs what happens to each payment, with its id on every line: one payment can be followed through the logs of all
 * processes. A refund's lines have the id of the refunded payment, and its own as `refundId`.
 */
import type { Logger } from "pino";
import type { TurnpikeError } from "turnpike/protocol";
import type { Store } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import type { KnownForm } from "../db/tables/relayer";
import type { PaymentRequest } from "./payment-request";
import type { RefundRecords } from "./refund-records";

export interface PaymentStagesOptions {
  readonly log: Logger;
}

/** The ids on a payment's log lines. */
interface Ids {
  readonly paymentId: string;
  readonly refundId?: string;
}

const UNAVAILABLE = 503;

export class PaymentStages {
  readonly #log: Logger;

  constructor({ log }: PaymentStagesOptions) {
    this.#log = log;
  }

  /** The payment is accepted: its row is committed. */
  admitted(request: PaymentRequest): void {
    const { channel } = request;
    this.#log.info({ ...idsOfRequest(request), channel }, "payment admitted");
  }

  /** The request is refused. An outage refuses thousands, and is logged by the kind of refusal instead. */
  refused(request: PaymentRequest, { code, reason, status }: TurnpikeError): void {
    const line = { ...idsOfRequest(request), code, reason };
    if (status === UNAVAILABLE) this.#log.debug(line, "payment refused");
    else this.#log.info(line, "payment refused");
  }

  /** A transaction with these payments is sent for the first time. */
  broadcast(payments: readonly BroadcastPayment[], transaction: string): void {
    for (const { payment_id: id, refunded_id: refunded } of payments)
      this.#log.info({ ...idsOf(id, refunded), transaction }, "payment broadcast");
  }

  /** A block has decided these payments. */
  decided(rows: readonly PaymentRow[], refunds: RefundRecords): void {
    for (const row of rows) {
      const { payment_id: id, state, fail_reason: reason, tx_hash: transaction, block_number: block } = row;
      if (state !== "settled" && state !== "failed") continue;
      const line = { ...idsOf(id, refunds.of(id)?.refunded_id), block, ...(transaction && { transaction }) };
      if (state === "settled") this.#log.info(line, "payment mined");
      else this.#log.info({ ...line, reason }, "payment failed");
    }
  }

  /** The payment's block is deep enough to count, and a request has waited for it. */
  confirmed(request: PaymentRequest, { block_number: block }: PaymentRow): void {
    this.#log.info({ ...idsOfRequest(request), block }, "payment confirmed");
  }

  /** The block of these payments was reorganised away: they are pending again. */
  reversed(rows: readonly PaymentRow[], refunds: RefundRecords): void {
    for (const { payment_id: id, tx_hash: transaction } of rows)
      this.#log.warn({ ...idsOf(id, refunds.of(id)?.refunded_id), transaction }, "payment reversed");
  }
}

const idsOf = (id: string, refundedId: string | null | undefined): Ids =>
  refundedId ? { paymentId: refundedId, refundId: id } : { paymentId: id };

const idsOfRequest = ({ paymentId, refund }: PaymentRequest): Ids => idsOf(paymentId, refund?.refunded.id);

export interface BroadcastPayment {
  readonly payment_id: string;
  /** of a refund */
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
    .select(["p.payment_id", "r.refunded_id"])
    .where("p.chain_id", "=", chainId)
    .where("p.transaction_id", "=", id)
    .where("p.state", "=", "sent")
    .execute();
}
