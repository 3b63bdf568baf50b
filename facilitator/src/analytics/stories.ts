/** Reads all that is known of one payment or charge of a provider: rows of the service and of the chain's events. */
import { sql } from "kysely";
import type { ChargeStoryWire, PaymentStoryWire } from "turnpike/facilitator";
import { type Address, type Hex, refundedIdOf, TurnpikeError } from "turnpike/protocol";
import { bytes } from "../db/sql";
import type { EventRow } from "../db/tables/events";
import type { PaymentRow } from "../db/tables/payments";
import { refundsOf, type SettledRefund } from "../payments/refunds";
import { CHARGES, chargeOf, targetOf } from "./charges";
import type { AnalyticsOptions } from "./ranges";
import { statusOf } from "./record-lists";

type WithEvents<T> = {
  readonly story: Omit<T, "deliveries">;
  /** its own events and those of its refunds, oldest first */
  readonly events: readonly Pick<EventRow, "id" | "type">[];
};

export interface Stories {
  /** @throws UnknownObject, also for another provider's */
  paymentStory(provider: Address, id: Hex): Promise<WithEvents<PaymentStoryWire>>;
  /** @throws UnknownObject, also for another provider's */
  chargeStory(provider: Address, id: Hex): Promise<WithEvents<ChargeStoryWire>>;
}

export function createStories({ db, config }: AnalyticsOptions): Stories {
  const { chainId } = config;

  async function eventsOf(provider: Address, objects: readonly string[]): Promise<EventRow[]> {
    return db
      .selectFrom("events")
      .selectAll()
      .where("chain_id", "=", chainId)
      .where("object_id", "in", objects)
      .where("provider", "=", provider)
      .orderBy("seq")
      .execute();
  }

  async function refundsInStory(id: Hex) {
    const rows = await refundsOf(db, chainId, [id]);
    const settled = rows.filter(({ row }) => row.state === "settled");
    return {
      refunded: settled.reduce((sum, { row }) => sum + BigInt(row.amount), 0n).toString(),
      refunds: rows.map(refundToStory),
    };
  }

  return {
    async paymentStory(provider, id) {
      const row = await db
        .selectFrom("payments")
        .selectAll()
        .where("chain_id", "=", chainId)
        .where("payment_id", "=", id)
        .where("pay_to", "=", provider)
        .where(sql<boolean>`door <> 'refund'`)
        .executeTakeFirst();
      if (!row) throw new TurnpikeError("UnknownObject", `no payment ${id} to this provider`);
      const money = await refundsInStory(id);
      const [events, grant, sent] = await Promise.all([
        eventsOf(provider, [id, ...money.refunds.map(({ refundId }) => refundId)]),
        db
          .selectFrom("payment_grants")
          .select("granted_at_ms")
          .where("chain_id", "=", chainId)
          .where("payment_id", "=", bytes(id))
          .executeTakeFirst(),
        row.tx_hash === null && row.transaction_id !== null ? newestHash(row.transaction_id) : undefined,
      ]);
      return { story: { ...paymentToStory(row, sent, grant?.granted_at_ms), ...money }, events };
    },

    async chargeStory(provider, id) {
      const row = await db
        .selectFrom("events")
        .selectAll()
        .where("chain_id", "=", chainId)
        .where("id", "=", id)
        .where("provider", "=", provider)
        .where(
          "type",
          "in",
          CHARGES.map(([type]) => type),
        )
        .executeTakeFirst();
      const charge = row && chargeOf(row);
      if (!charge) throw new TurnpikeError("UnknownObject", `no charge ${id} of this provider`);
      const target = targetOf(charge);
      const refundedId = refundedIdOf(config, target);
      const money = await refundsInStory(refundedId);
      const refundIds = money.refunds.map(({ refundId }) => refundId);
      const events = refundIds.length === 0 ? [row] : [row, ...(await eventsOf(provider, refundIds))];
      return {
        story: {
          id,
          scheme: charge.scheme,
          at: row.block_time,
          token: String(row.payload.token),
          payer: String(row.payer),
          amount: charge.amount,
          planId: String(row.payload.planId),
          idHash: row.object_id,
          reverted: row.reverted,
          ...(row.transaction && { transaction: row.transaction }),
          ...(row.block_number !== null && { blockNumber: row.block_number }),
          target,
          ...money,
        },
        events,
      };
    },
  };

  async function newestHash(transactionId: string): Promise<string | undefined> {
    const { rows } = await sql<{ hash: string }>`select hash from transaction_hashes
      where transaction_id = ${transactionId} order by signed_at_ms desc limit 1`.execute(db);
    return rows[0]?.hash;
  }
}

const secondsOf = (ms: number): number => Math.floor(ms / 1_000);

/** @param sent the transaction that was signed for it, while none is mined */
function paymentToStory(row: PaymentRow, sent: string | undefined, grantedAtMs: number | null | undefined) {
  const transaction = row.tx_hash ?? sent;
  return {
    id: row.payment_id,
    token: row.token,
    payer: row.payer,
    payTo: row.pay_to,
    amount: row.amount,
    status: statusOf(row),
    stage: row.state,
    door: row.door === "settle" ? ("settle" as const) : ("authorize" as const),
    method: row.method,
    ...(row.permitted !== null && { permitted: row.permitted }),
    resource: row.resource_shown,
    ...(row.memo && { memo: row.memo }),
    nonce: row.nonce,
    validAfter: row.valid_after,
    validBefore: row.valid_before,
    acceptedAt: secondsOf(row.accepted_at_ms),
    attempts: row.attempts,
    ...(transaction && { transaction }),
    ...(row.block_number !== null && { blockNumber: row.block_number }),
    ...(row.state === "settled" && row.block_time !== null && { settledAt: row.block_time }),
    ...(grantedAtMs && { grantedAt: secondsOf(grantedAtMs) }),
    ...(row.fail_code && { reason: row.fail_code }),
    ...(row.fail_reason && { detail: row.fail_reason }),
  };
}

function refundToStory({ refund_index: index, row }: SettledRefund) {
  return {
    refundId: row.payment_id,
    index,
    account: row.payer,
    amount: row.amount,
    status: statusOf(row),
    acceptedAt: secondsOf(row.accepted_at_ms),
    ...(row.state === "settled" && row.block_time !== null && { settledAt: row.block_time }),
    ...(row.tx_hash && { transaction: row.tx_hash }),
    ...(row.fail_code && { reason: row.fail_code }),
  };
}
