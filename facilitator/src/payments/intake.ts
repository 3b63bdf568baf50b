/**
 * Reads and binds payments in groups: one query for all that are requested at the same time, one insert for all that
 * are bound. Binds a payer's payments one after another, each against the balance that the earlier ones left.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { Db, Store, Tx } from "../db/open";
import { bytesOf, databaseNowMs, idList } from "../db/sql";
import { createStatistics } from "../db/statistics";
import type { PaymentRow } from "../db/tables/payments";
import { coalesce } from "../lib/coalesce";
import { balanceOf, bindInTurn, lockBalances } from "./balance-locks";
import type { BatchBuilder, OpenBatch } from "./batch-builder";
import { acceptedBlock, isReservedElsewhere, isShort, minedLater } from "./committed";
import { HOLD_MS } from "./holds";
import type { Acceptance, Binding } from "./payment-request";
import { areOfRefunds } from "./refunds";
import { idsReservedElsewhere } from "./reservations";
import { transferColumns } from "./transfer";

export interface Intake {
  /** Returns true when no payment of this id was found or bound here recently: most likely it has no row. */
  isNew(paymentId: Hex): boolean;
  find(paymentId: Hex): Promise<PaymentRow | undefined>;
  /** Returns whether a refund was accepted with this nonce, from any account. */
  isOfRefund(nonce: Hex): Promise<boolean>;
  /** Binds a payment and queues it. */
  bind(acceptance: Acceptance): Promise<Binding>;
}

const MAX_FOUND_TOGETHER = 250;

const MAX_REMEMBERED = 50_000;

export interface IntakeOptions {
  readonly store: Store;
  readonly chainId: number;
  readonly log: Logger;
  readonly batches: BatchBuilder;
}

/** Tables that every payment adds rows to. */
const FILLED = ["payments", "events", "transactions", "transaction_hashes"] as const;

export function createIntake({ store, chainId, log, batches }: IntakeOptions): Intake {
  const statistics = createStatistics({ store, log, tables: FILLED });
  const recent = new Set<string>();
  const remember = (paymentId: string): void => {
    recent.add(paymentId);
    const oldest = recent.size > MAX_REMEMBERED ? recent.values().next().value : undefined;
    if (oldest !== undefined) recent.delete(oldest);
  };

  async function insertAll(acceptances: readonly Acceptance[], hasSlot: boolean): Promise<Binding[]> {
    const isEmbedded = store.kind === "pglite";
    const isEach = isEmbedded && new Set(acceptances.map(balanceOf)).size === acceptances.length;
    if (isEach && !hasSlot) {
      const bindings = await insertDistinct(store.db, chainId, acceptances, undefined);
      store.notifier.notify("payments");
      return bindings;
    }
    let batched = 0;
    let send: (() => void) | undefined;
    const bindings = await store.transaction(async (tx) => {
      await lockBalances(store, tx, acceptances.map(balanceOf));
      const batch = hasSlot ? batches.open(tx, acceptances) : undefined;
      const made = await insertInTurn(tx, chainId, acceptances, batch);
      batched = batch?.payments.size ?? 0;
      send = await batch?.commit(acceptances.filter((_, place) => made[place] === "bound"));
      return made;
    });
    if (send) batches.onSubmitted(send);
    if (batched < acceptances.length) store.notifier.notify("payments");
    return bindings;
  }

  return {
    isNew: (paymentId) => !recent.has(paymentId),
    find: coalesce<Hex, PaymentRow | undefined>({
      maxItems: MAX_FOUND_TOGETHER,
      maxParallel: 2,
      async run(ids) {
        const rows = await store.db
          .selectFrom("payments")
          .selectAll()
          .where("chain_id", "=", chainId)
          .where(sql<boolean>`payment_id = any(${idList(ids)})`)
          .execute();
        for (const row of rows) remember(row.payment_id);
        const byId = new Map(rows.map((row) => [row.payment_id, row]));
        return ids.map((id) => byId.get(id));
      },
    }),
    isOfRefund: coalesce<Hex, boolean>({
      maxItems: MAX_FOUND_TOGETHER,
      maxParallel: 2,
      run: (nonces) => areOfRefunds(store.db, chainId, nonces),
    }),
    bind: coalesce<Acceptance, Binding>({
      maxItems: batches.capacity,
      gatherMs: batches.paceMs,
      // On a single connection one group runs at a time; payments that arrive meanwhile join the next group.
      maxParallel: store.kind === "postgres" ? 2 : 1,
      ready: async (first) => batches.canSendNow(first) && batches.waitForSlot(),
      run(acceptances, hasSlot) {
        statistics.grew(acceptances.length);
        for (const { request } of acceptances) remember(request.paymentId);
        return insertAll(acceptances, hasSlot);
      },
    }),
  };
}

/** Inserts payments in sequence where they share a payer. Only the first of a payment's duplicates is inserted. */
async function insertInTurn(
  db: Db,
  chainId: number,
  acceptances: readonly Acceptance[],
  batch: OpenBatch | undefined,
): Promise<Binding[]> {
  const firstOf = new Map<Hex, Acceptance>();
  for (const acceptance of acceptances) {
    const { paymentId } = acceptance.request;
    if (!firstOf.has(paymentId)) firstOf.set(paymentId, acceptance);
  }
  const firsts = [...firstOf.values()];
  const bound = await bindInTurn(firsts, (distinct) => insertDistinct(db, chainId, distinct, batch));
  const bindings = new Map(firsts.map(({ request }, place) => [request.paymentId, bound[place] as Binding]));
  return acceptances.map((acceptance) => {
    const { paymentId } = acceptance.request;
    const first = bindings.get(paymentId) as Binding;
    return firstOf.get(paymentId) === acceptance || first === "short" ? first : "known";
  });
}

/** Inserts one payment, in the state of its acceptance. @param tx holds the payer's lock */
export async function insertPayment(tx: Tx, acceptance: Acceptance): Promise<Binding> {
  const [binding = "known"] = await insertDistinct(tx, acceptance.chainId, [acceptance], undefined);
  return binding;
}

/**
 * Inserts payments of different payers in one statement, which also ends their reservations: an amount is either reserved
 * or in flight.
 */
async function insertDistinct(
  db: Db,
  chainId: number,
  acceptances: readonly Acceptance[],
  batch: OpenBatch | undefined,
): Promise<Binding[]> {
  const asked = acceptances.map((acceptance) => {
    const { request, hasCode, balance, atBlock, state } = acceptance;
    const isInBatch = batch?.payments.has(acceptance) ?? false;
    return {
      payment_id: request.paymentId,
      door: request.channel,
      resource_hash: request.resourceHash,
      resource_shown: request.resourceShown,
      memo: request.memo,
      token: request.token.address,
      payer: request.authorization.from,
      pay_to: request.authorization.to,
      amount: request.authorization.value.toString(),
      nonce: request.authorization.nonce,
      valid_after: request.authorization.validAfter.toString(),
      valid_before: request.authorization.validBefore.toString(),
      signature: request.signature,
      ...transferColumns(request.transfer),
      has_code: hasCode,
      state: isInBatch ? "sent" : state,
      attempts: isInBatch ? 1 : 0,
      transaction_id: isInBatch ? batch?.transactionId : undefined,
      accepted_block: atBlock,
      balance: balance.toString(),
      traceparent: acceptance.traceparent,
      grant_id: request.purchase?.grantId,
      is_gate: request.purchase?.isGate,
    };
  });
  // The hold is written with the payment: as soon as another request can see the authorization, it is reserved.
  const isHolding = acceptances.some(({ request }) => request.purchase !== undefined);
  const hold = sql`, held as (
    insert into payment_grants (chain_id, payment_id, grant_id, is_gate, held_until_ms)
    select ${chainId}::bigint, ${bytesOf("a.payment_id")}, ${bytesOf("a.grant_id")}, a.is_gate,
      case when a.is_gate then null else ${databaseNowMs} + ${HOLD_MS}::bigint end
    from asked a join bound b on b.payment_id = a.payment_id where a.grant_id is not null
    on conflict (chain_id, payment_id) do nothing)`;
  const { rows } = await sql<{ payment_id: string }>`
    with asked as (select * from json_to_recordset(${JSON.stringify(asked)}::json) as a(payment_id text, door text,
      resource_hash text, resource_shown text, memo text, token text, payer text, pay_to text, amount numeric, nonce text,
      valid_after bigint, valid_before bigint, signature text, method text, permitted text, sender text,
      token_permit text, has_code boolean, state text, attempts int,
      transaction_id text, accepted_block bigint, balance numeric, traceparent text, grant_id text,
      is_gate boolean)),
    ${minedLater(chainId)},
    bound as (insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, memo, token, payer, pay_to, amount, nonce,
      valid_after, valid_before, signature, method, permitted, sender, token_permit, has_code, state, attempts,
      transaction_id, accepted_at_ms, accepted_block, traceparent)
    select ${chainId}::bigint, a.payment_id, a.door, ${bytesOf("a.resource_hash")}, a.resource_shown, a.memo, a.token, a.payer, a.pay_to,
      a.amount, ${bytesOf("a.nonce")}, a.valid_after, a.valid_before, ${bytesOf("a.signature")}, a.method, a.permitted, a.sender,
      a.token_permit, a.has_code,
      a.state, a.attempts, a.transaction_id,
      ${databaseNowMs}, ${acceptedBlock(chainId, sql`a.accepted_block`)},
      a.traceparent
    from asked a
    where (a.state in ('parked', 'waived') or not ${isShort(chainId)})
      and not ${isReservedElsewhere(chainId)}
    on conflict (chain_id, payment_id) do nothing
    returning payment_id)${isHolding ? hold : sql``},
    accepted as (delete from payment_reservations r using bound b
      where r.chain_id = ${chainId}::bigint and r.payment_id = b.payment_id)
    select payment_id from bound`.execute(db);
  const bound = new Set(rows.map((row) => row.payment_id));
  const unbound = asked.filter(({ payment_id }) => !bound.has(payment_id)).map(({ payment_id }) => payment_id);
  const known = unbound.length === 0 ? new Set<string>() : await existingIds(db, chainId, unbound);
  const shortOrReserved = acceptances.filter(({ request: { paymentId: id } }) => !bound.has(id) && !known.has(id));
  const reserved = await idsReservedElsewhere(db, chainId, shortOrReserved);
  return asked.map(({ payment_id: id }) => {
    if (bound.has(id)) return "bound";
    return known.has(id) ? "known" : reserved.has(id) ? "granted" : "short";
  });
}

async function existingIds(db: Db, chainId: number, ids: readonly string[]): Promise<Set<string>> {
  const rows = await db
    .selectFrom("payments")
    .select("payment_id")
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`payment_id = any(${idList(ids)})`)
    .execute();
  return new Set(rows.map((row) => row.payment_id));
}
