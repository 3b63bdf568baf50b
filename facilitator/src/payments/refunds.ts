/** What is refunded, as the database has it; the rows of refunds, and their sum for each id. */
import { sql } from "kysely";
import { MAX_REFUNDS } from "turnpike/facilitator";
import { type Address, type Hex, type RefundTarget, TurnpikeError } from "turnpike/protocol";
import type { Db, Tx } from "../db/open";
import { bytesList, idList } from "../db/sql";
import type { PaymentRow, RefundedTable } from "../db/tables/payments";

export interface Refunded {
  readonly id: Hex;
  readonly kind: RefundedTable["kind"];
  /** the payee of a payment, the plan's present provider */
  readonly provider: Address;
  readonly payer: Address;
  readonly token: Address;
  readonly amount: bigint;
  readonly planId?: Hex | undefined;
  /** A debit or charge has the subscription's name when it was collected. */
  readonly idHash?: Hex | undefined;
}

/** As the indexed chain has it. */
export interface Refundable extends Refunded {
  readonly blockNumber: number;
  readonly accounts: readonly Address[];
}

/** Finds debits and charges of subscriptions. */
export interface CollectionReader {
  /** @returns undefined when the indexed chain has no such debit or charge */
  find(target: Exclude<RefundTarget, { readonly type: "payment" }>): Promise<Refundable | undefined>;
}

export interface RefundOf {
  readonly refunded: Refunded;
  readonly index: number;
  /** The account that the provider has named pays, within its daily cap. */
  readonly isAutomatic?: boolean;
}

/** Returns what an accepted refund is for, as it was accepted. */
export async function acceptedRefund(db: Db, chainId: number, paymentId: Hex): Promise<Refunded | undefined> {
  const row = await db
    .selectFrom("refunds as r")
    .innerJoin("refunded as d", (join) =>
      join.onRef("d.chain_id", "=", "r.chain_id").onRef("d.refunded_id", "=", "r.refunded_id"),
    )
    .select(["d.refunded_id", "d.kind", "d.provider", "d.payer", "d.token", "d.amount", "d.plan_id", "d.id_hash"])
    .where("r.chain_id", "=", chainId)
    .where("r.payment_id", "=", paymentId)
    .executeTakeFirst();
  if (!row) return undefined;
  return {
    id: row.refunded_id as Hex,
    kind: row.kind,
    provider: row.provider as Address,
    payer: row.payer as Address,
    token: row.token as Address,
    amount: BigInt(row.amount),
    planId: (row.plan_id as Hex | null) ?? undefined,
    idHash: (row.id_hash as Hex | null) ?? undefined,
  };
}

/** Returns of each nonce whether a refund was accepted with it. */
export async function areOfRefunds(db: Db, chainId: number, nonces: readonly Hex[]): Promise<boolean[]> {
  const { rows } = await sql<{ nonce: Hex }>`
    select '0x' || encode(nonce, 'hex') as nonce from payments
    where chain_id = ${chainId}::bigint and door = 'refund' and nonce = any(${bytesList(nonces)})`.execute(db);
  const found = new Set(rows.map(({ nonce }) => nonce));
  return nonces.map((nonce) => found.has(nonce.toLowerCase() as Hex));
}

type Sibling = PaymentRow & { readonly refund_index: number };

export interface NewRefund {
  readonly chainId: number;
  readonly paymentId: Hex;
  readonly amount: bigint;
  readonly refund: RefundOf;
  /** returns whether a failed refund can never move money */
  readonly isDead: (failed: PaymentRow) => boolean;
}

/**
 * Locks the id's row until the transaction ends, and accepts one more refund for it.
 * @throws RefundExceedsPayment when the id's refunds would be more than was paid
 * @throws PayloadConflict when another account has refunded the id under this index; an automatic refund takes the index
 * of one that has expired
 */
export async function addRefund(
  tx: Tx,
  { chainId, paymentId, amount, refund: { refunded, index, isAutomatic }, isDead }: NewRefund,
): Promise<void> {
  const { id, kind, provider, payer, token, planId = null, idHash = null } = refunded;
  const row = { kind, provider, payer, token, amount: refunded.amount.toString(), plan_id: planId, id_hash: idHash };
  await tx
    .insertInto("refunded")
    .values({ chain_id: chainId, refunded_id: id, ...row })
    .onConflict((conflict) => conflict.columns(["chain_id", "refunded_id"]).doNothing())
    .execute();
  await tx
    .selectFrom("refunded")
    .select("refunded_id")
    .where("chain_id", "=", chainId)
    .where("refunded_id", "=", id)
    .forUpdate()
    .execute();
  const siblings = await siblingsOf(tx, chainId, id);
  const taken = siblings.find((sibling) => sibling.refund_index === index);
  const isOwn = taken?.payment_id === paymentId;
  // The key of the account was replaced, or the payee's own refund came to nothing.
  const isLeft = isAutomatic && taken?.state === "failed" && taken.fail_reason === "expired";
  if (taken && !isOwn && !isLeft) {
    throw new TurnpikeError(
      "PayloadConflict",
      isAutomatic
        ? `${id} was refunded from another account: nothing is refunded automatically`
        : `refund ${index} of ${id} was accepted from another account; use another index`,
      { reason: "refund_index" },
    );
  }
  const others = siblings.filter(
    (sibling) => sibling.payment_id !== paymentId && !(sibling.state === "failed" && isDead(sibling)),
  );
  const left = refunded.amount - others.reduce((sum, sibling) => sum + BigInt(sibling.amount), 0n);
  if (amount > left) {
    throw new TurnpikeError(
      "RefundExceedsPayment",
      `the refund is ${amount} base units, and ${left > 0n ? left : 0n} of ${refunded.amount} are left to refund`,
      { details: { paid: refunded.amount.toString(), refundable: (left > 0n ? left : 0n).toString() } },
    );
  }
  if (isOwn) return;
  const behind = Math.max(MAX_REFUNDS, ...siblings.map((sibling) => sibling.refund_index + 1));
  if (taken) await moveRefund(tx, { chainId, paymentId: taken.payment_id, index: behind });
  if (siblings.some((sibling) => sibling.payment_id === paymentId))
    return moveRefund(tx, { chainId, paymentId, index });
  await tx
    .insertInto("refunds")
    .values({ chain_id: chainId, refunded_id: id, refund_index: index, payment_id: paymentId })
    .onConflict((conflict) => conflict.columns(["chain_id", "refunded_id", "refund_index"]).doNothing())
    .execute();
}

/** Gives a refund another index: an expired one keeps its row, past the indexes that can be asked for. */
async function moveRefund(
  tx: Tx,
  { chainId, paymentId, index }: { readonly chainId: number; readonly paymentId: string; readonly index: number },
): Promise<void> {
  await tx
    .updateTable("refunds")
    .set({ refund_index: index })
    .where("chain_id", "=", chainId)
    .where("payment_id", "=", paymentId)
    .execute();
}

async function siblingsOf(tx: Tx, chainId: number, id: Hex): Promise<Sibling[]> {
  return tx
    .selectFrom("refunds as r")
    .innerJoin("payments as p", (join) =>
      join.onRef("p.chain_id", "=", "r.chain_id").onRef("p.payment_id", "=", "r.payment_id"),
    )
    .selectAll("p")
    .select("r.refund_index")
    .where("r.chain_id", "=", chainId)
    .where("r.refunded_id", "=", id)
    .execute();
}

/** Returns whether the refunds of an id that have moved or may still move money are all that was paid. */
export async function isWhollyRefunded(db: Db, chainId: number, id: Hex): Promise<boolean> {
  const { rows } = await sql`
    select d.refunded_id from refunded d
    join refunds r on r.chain_id = d.chain_id and r.refunded_id = d.refunded_id
    join payments p on p.chain_id = r.chain_id and p.payment_id = r.payment_id
    where d.chain_id = ${chainId}::bigint and d.refunded_id = ${id} and p.state <> 'failed'
    group by d.refunded_id, d.amount having sum(p.amount) >= d.amount`.execute(db);
  return rows.length > 0;
}

/** Returns what is refunded of each of these ids, base units; an id without a settled refund is absent. */
export async function refundedSums(db: Db, chainId: number, ids: Iterable<string>): Promise<Map<string, bigint>> {
  const sums = new Map<string, bigint>();
  for (const { refunded_id: id, row } of await settledRefunds(db, chainId, ids))
    sums.set(id, (sums.get(id) ?? 0n) + BigInt(row.amount));
  return sums;
}

export interface SettledRefund {
  readonly refunded_id: string;
  readonly refund_index: number;
  readonly row: PaymentRow;
}

export async function settledRefunds(db: Db, chainId: number, ids: Iterable<string>): Promise<SettledRefund[]> {
  return (await refundsOf(db, chainId, ids)).filter(({ row }) => row.state === "settled");
}

/** Returns the refunds of each of these ids, in any state. */
export async function refundsOf(db: Db, chainId: number, ids: Iterable<string>): Promise<SettledRefund[]> {
  const { rows } = await sql<PaymentRow & Omit<SettledRefund, "row">>`
    select r.refunded_id, r.refund_index, p.* from refunds r
    join payments p on p.chain_id = r.chain_id and p.payment_id = r.payment_id
    where r.chain_id = ${chainId}::bigint and r.refunded_id = any(${idList(ids)})
    order by r.refunded_id, r.refund_index`.execute(db);
  return rows.map(({ refunded_id, refund_index, ...row }) => ({ refunded_id, refund_index, row }));
}
