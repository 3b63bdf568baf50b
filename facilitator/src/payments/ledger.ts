/** Changes rows of payments: binds, queues, parks, adopts. Each update names the state that it expects. */
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import type { Db, Store, Tx } from "../db/open";
import { bytes, databaseNowMs, idList } from "../db/sql";
import type { PaymentRow } from "../db/tables/payments";
import { chainEventId, type EventDraft } from "../events/event";
import type { EventFeed } from "../events/feed";
import { balanceKey, balanceOf, lockBalances } from "./balance-locks";
import { acceptedBlock, askedRows, isShort, minedLater } from "./committed";
import type { Evidence, Place } from "./evidence";
import { HOLD_MS } from "./holds";
import { insertPayment } from "./intake";
import type { Acceptance, Binding } from "./payment-request";
import { takeFromCap } from "./refund-cap";
import { RefundRecords } from "./refund-records";
import { addRefund, type NewRefund } from "./refunds";
import { transferColumns } from "./transfer";
import { type TransferOutcome, transferEvent, typesOf } from "./transfer-events";

/**
 * Replaces an authorization that can never move money with a new one.
 * @returns "known" when another request was faster; "granted" when the failed payment bought something before its block
 * was reverted
 */
export function rebindPayment(store: Store, acceptance: Acceptance): Promise<Binding> {
  return store.transaction(async (tx) => {
    await lockBalances(store, tx, [balanceOf(acceptance)]);
    return rebind(tx, acceptance);
  });
}

async function rebind(tx: Tx, acceptance: Acceptance): Promise<Binding> {
  if (acceptance.state === "queued" && (await lacksMoney(tx, acceptance))) return "short";
  if (await isGrantedElsewhere(tx, acceptance)) return "granted";
  if (!(await replaceFailed(tx, acceptance))) return "known";
  await holdAgain(tx, acceptance);
  return "bound";
}

/**
 * Binds a refund together with its share of what was paid; without the one there is not the other.
 * @throws RefundExceedsPayment, PayloadConflict, PaymentNotAllowed, RateLimited: see {@link addRefund} and {@link takeFromCap}
 */
export async function bindRefund(
  store: Store,
  acceptance: Acceptance,
  { refund, isRebinding, isDead }: Pick<NewRefund, "refund" | "isDead"> & { readonly isRebinding: boolean },
): Promise<Binding> {
  const { chainId, request } = acceptance;
  const binding = await store.transaction(async (tx) => {
    await lockBalances(store, tx, [balanceOf(acceptance)]);
    const made = isRebinding ? await rebind(tx, acceptance) : await insertPayment(tx, acceptance);
    const { paymentId, authorization } = request;
    if (made === "bound") {
      const { from: account, value: amount } = authorization;
      await addRefund(tx, { chainId, paymentId, amount, refund, isDead });
      if (refund.isAutomatic) {
        const { id: refundedId, provider, token } = refund.refunded;
        const hasMoved = acceptance.state === "parked";
        await takeFromCap(tx, { chainId, refundedId, provider, token, account, amount, hasMoved });
      }
    }
    return made;
  });
  if (binding === "bound") store.notifier.notify("payments");
  return binding;
}

/**
 * Returns whether the payment bought something else before its block was reverted. It cannot pay for another purchase.
 */
async function isGrantedElsewhere(tx: Tx, { chainId, request }: Acceptance): Promise<boolean> {
  const row = await tx
    .selectFrom("payment_grants")
    .select("grant_id")
    .where("chain_id", "=", chainId)
    .where("payment_id", "=", bytes(request.paymentId))
    .where("granted_at_ms", "is not", null)
    .executeTakeFirst();
  return row !== undefined && row.grant_id !== request.purchase?.grantId;
}

/** Reserves the payment for the purchase of the new authorization. */
async function holdAgain(tx: Tx, { chainId, request }: Acceptance): Promise<void> {
  const { purchase, paymentId } = request;
  if (!purchase) return;
  const { grantId, isGate } = purchase;
  await sql`
    insert into payment_grants as g (chain_id, payment_id, grant_id, is_gate, held_until_ms)
    values (${chainId}::bigint, ${bytes(paymentId)}, ${bytes(grantId)}, ${isGate},
      ${isGate ? null : sql`${databaseNowMs} + ${HOLD_MS}::bigint`})
    on conflict (chain_id, payment_id) do update
      set grant_id = excluded.grant_id, is_gate = excluded.is_gate, held_until_ms = excluded.held_until_ms
      where g.granted_at_ms is null`.execute(tx);
}

async function lacksMoney(tx: Tx, acceptance: Acceptance): Promise<boolean> {
  const { rows } = await sql<{ is_short: boolean }>`
    with asked as (${askedRows([acceptance])}), ${minedLater(acceptance.chainId)}
    select ${isShort(acceptance.chainId)} as is_short from asked a`.execute(tx);
  return rows[0]?.is_short !== false;
}

async function replaceFailed(tx: Tx, acceptance: Acceptance): Promise<boolean> {
  const { chainId, request } = acceptance;
  const { authorization } = request;
  const result = await tx
    .updateTable("payments")
    .set({
      door: request.channel,
      resource_hash: bytes(request.resourceHash),
      resource_shown: request.resourceShown,
      memo: request.memo ?? null,
      pay_to: authorization.to,
      amount: authorization.value.toString(),
      valid_after: Number(authorization.validAfter),
      valid_before: Number(authorization.validBefore),
      signature: bytes(request.signature),
      ...transferColumns(request.transfer),
      has_code: acceptance.hasCode,
      state: acceptance.state,
      fail_code: null,
      fail_reason: null,
      attempts: 0,
      accepted_at_ms: databaseNowMs,
      accepted_block: acceptedBlock(chainId, sql`${acceptance.atBlock}::bigint`),
      traceparent: acceptance.traceparent ?? null,
      transaction_id: null,
      tx_hash: null,
      block_number: null,
      block_hash: null,
      block_time: null,
      log_index: null,
    })
    .where("chain_id", "=", chainId)
    .where("payment_id", "=", request.paymentId)
    .where("state", "=", "failed")
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}

/** Returns the newest transaction that carries a payment; undefined while none is signed. */
export async function transactionOf(db: Db, chainId: number, paymentId: Hex): Promise<Hex | undefined> {
  const { rows } = await sql<{ hash: Hex }>`
    select coalesce('0x' || encode(p.tx_hash, 'hex'), h.hash) as hash from payments p
    left join transaction_hashes h on h.transaction_id = p.transaction_id
    where p.chain_id = ${chainId}::bigint and p.payment_id = ${paymentId} and (p.tx_hash is not null or h.hash is not null)
    order by h.signed_at_ms desc limit 1`.execute(db);
  return rows[0]?.hash;
}

/**
 * Queues a payment that did not move once more, unless the payer's other payments need the money.
 * @returns "short" when they do
 */
export function requeuePayment(
  store: Store,
  { chain_id, payment_id, ...row }: PaymentRow,
  { balance, atBlock }: Pick<Acceptance, "balance" | "atBlock">,
): Promise<"queued" | "short"> {
  return store.transaction(async (tx) => {
    await lockBalances(store, tx, [balanceKey(row.token, row.payer)]);
    const { rows } = await sql<{ is_short: boolean }>`
      with asked as (
        select p.payment_id, p.token, p.payer, p.amount, ${balance.toString()}::numeric as balance,
          ${atBlock}::bigint as accepted_block
        from payments p
        where p.chain_id = ${chain_id}::bigint and p.payment_id = ${payment_id} and p.state = 'parked'),
      ${minedLater(chain_id)},
      judged as (select a.payment_id, ${isShort(chain_id)} as is_short from asked a),
      queued as (
        update payments p set state = 'queued', transaction_id = null, accepted_at_ms = ${databaseNowMs} from judged j
        where p.chain_id = ${chain_id}::bigint and p.payment_id = j.payment_id and p.state = 'parked' and not j.is_short)
      select is_short from judged`.execute(tx);
    return rows[0]?.is_short ? "short" : "queued";
  });
}

/**
 * Parks payments whose transaction is mined in an applied block but did not move them. Queues payments again whose
 * transaction can never be mined.
 */
export async function parkUnmoved(db: Db, chainId: number, applied: number): Promise<PaymentRow[]> {
  await sql`
    update payments p set state = 'queued', transaction_id = null from transactions t
    where t.id = p.transaction_id and p.chain_id = ${chainId}::bigint and p.state = 'sent' and t.status = 'displaced'`.execute(
    db,
  );
  const { rows } = await sql<PaymentRow>`
    update payments p set state = 'parked' from transactions t, blocks b
    where t.id = p.transaction_id and p.chain_id = ${chainId}::bigint and p.state = 'sent' and t.status = 'mined'
      and b.chain_id = p.chain_id and b.number = t.block_number and b.hash = t.block_hash
      and t.block_number <= ${applied}::bigint
    returning p.*`.execute(db);
  return rows;
}

/** Returns those of the transactions whose payments have no outcome yet. */
export async function transactionsAwaited(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx
    .selectFrom("payments")
    .select("transaction_id")
    .where("state", "=", "sent")
    .where(sql<boolean>`transaction_id = any(${idList(ids)})`)
    .execute();
  return rows.flatMap(({ transaction_id: id }) => (id === null ? [] : [id]));
}

/** What a change needs to write a payment and its event together. */
interface Ledger {
  readonly store: Store;
  readonly feed: EventFeed;
}

/**
 * Settles a payment from evidence that the indexer did not apply, because the block was applied before the row existed.
 * @returns false when the evidence's block is not applied any more: then it shows nothing
 */
export async function adoptEvidence(
  { store, feed }: Ledger,
  row: PaymentRow,
  evidence: Extract<Evidence, { kind: "transfer" }>,
): Promise<boolean> {
  const settled = {
    state: "settled" as const,
    is_reversed: false,
    fail_code: null,
    fail_reason: null,
    tx_hash: evidence.transaction,
    block_number: evidence.blockNumber,
    block_hash: evidence.blockHash,
    block_time: evidence.blockTimeSec,
    log_index: evidence.logIndex,
  };
  const isDecided = await store.transaction(async (tx) => {
    // Same lock order as the block writer: first the feed, then rows. No block is written or reverted meanwhile.
    await feed.lock(tx);
    if (!(await isApplied(tx, row.chain_id, evidence))) return false;
    const result = await tx
      .updateTable("payments")
      .set({ ...settled, ...hashesOf(evidence), settled_at_ms: databaseNowMs })
      .where("chain_id", "=", row.chain_id)
      .where("payment_id", "=", row.payment_id)
      .where("state", "!=", "settled")
      .executeTakeFirst();
    if (result.numUpdatedRows > 0n)
      await feed.append(tx, [await eventOf(tx, { ...row, ...settled }, "settled", evidence)]);
    return true;
  });
  store.notifier.notify(`payment:${row.payment_id}`);
  store.notifier.notify("events");
  return isDecided;
}

/**
 * Fails a payment whose nonce was used by something else.
 * @returns false when the block of that is not applied any more: then it shows nothing
 */
export async function failSpent(
  { store, feed }: Ledger,
  row: PaymentRow,
  reason: string,
  place: Place,
): Promise<boolean> {
  const failed = {
    state: "failed" as const,
    is_reversed: false,
    fail_code: "PaymentNotAllowed",
    fail_reason: reason,
    tx_hash: place.transaction,
    block_number: place.blockNumber,
    block_hash: place.blockHash,
    block_time: place.blockTimeSec,
    log_index: place.logIndex,
  };
  const isDecided = await store.transaction(async (tx) => {
    await feed.lock(tx);
    if (!(await isApplied(tx, row.chain_id, place))) return false;
    const result = await tx
      .updateTable("payments")
      .set({ ...failed, ...hashesOf(place) })
      .where("chain_id", "=", row.chain_id)
      .where("payment_id", "=", row.payment_id)
      .where("state", "in", ["queued", "parked"])
      .executeTakeFirst();
    if (result.numUpdatedRows > 0n) await feed.append(tx, [await eventOf(tx, { ...row, ...failed }, "failed", place)]);
    return true;
  });
  store.notifier.notify(`payment:${row.payment_id}`);
  store.notifier.notify("events");
  return isDecided;
}

/** Returns whether a block is applied: another process may have reverted it since the chain was asked. */
async function isApplied(tx: Tx, chainId: number, { blockNumber, blockHash }: Place): Promise<boolean> {
  const lowest = await tx
    .selectFrom("blocks")
    .select(["number", "hash"])
    .where("chain_id", "=", chainId)
    .where("number", ">=", blockNumber)
    .orderBy("number")
    .limit(1)
    .executeTakeFirst();
  // A later block alone: this one is older than the stored headers, or none was stored of it.
  return lowest !== undefined && (lowest.number > blockNumber || lowest.hash === blockHash);
}

const hashesOf = ({ transaction, blockHash }: Place) => ({ tx_hash: bytes(transaction), block_hash: bytes(blockHash) });

async function eventOf(tx: Tx, row: PaymentRow, outcome: TransferOutcome, place: Place): Promise<EventDraft> {
  const refunds = await RefundRecords.load(tx, row.chain_id, [row]);
  return {
    id: chainEventId(row.chain_id, place.blockHash, place.logIndex, typesOf(row)[outcome]),
    chainId: row.chain_id,
    ...transferEvent(row, outcome, refunds),
    blockTime: place.blockTimeSec,
    blockNumber: place.blockNumber,
    blockHash: place.blockHash,
    logIndex: place.logIndex,
    transaction: place.transaction,
  };
}
