/**
 * Reserves payers' money for gates that run their handler before they settle. A reservation takes its amount from the
 * payer's balance until the payment is accepted, released, or can no longer move money. It is a row, written under the
 * payer's lock, so that one balance backs one run in all processes.
 */
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import type { Db, Store } from "../db/open";
import { coalesce } from "../lib/coalesce";
import { balanceOf, bindInTurn, lockBalances } from "./balance-locks";
import { askedRows, chainNowSec, isReservedElsewhere, isShort, minedLater } from "./committed";
import type { Acceptance, Binding } from "./payment-request";

export interface Reservations {
  /**
   * Reserves a payment's amount. Idempotent for the same purchase.
   * @returns `bound` when it is reserved; `granted` when another purchase has it; `known` when it was accepted already;
   * `crowded` when the payer has too many reservations
   */
  reserve(acceptance: Acceptance): Promise<Reserved>;
  /** Returns why a payment would not be accepted now, without reserving it; `bound` when it would be. */
  check(acceptance: Acceptance): Promise<Exclude<Binding, "known">>;
  /** Ends the reservation of a payment that was not accepted. @returns whether this purchase had one */
  release(paymentId: Hex, grantId: Hex): Promise<boolean>;
  /** Deletes rows that ended long ago, at most once a minute. */
  deleteEnded(): Promise<void>;
}

export type Reserved = Binding | "crowded";

export interface ReservationsOptions {
  readonly store: Store;
  readonly chainId: number;
  readonly monotonicMs: () => number;
}

const MAX_RESERVED_TOGETHER = 250;

/** Of one payer in one token. Reservations cost no gas, and each is summed with all others of its payer. */
export const MAX_LIVE_RESERVATIONS = 1_000;

/** Rows stay for as long as a reverted block may set the chain's clock back. */
const KEPT_SEC = 3_600;

const DELETE_EVERY_MS = 60_000;

export function createReservations({ store, chainId, monotonicMs }: ReservationsOptions): Reservations {
  let deletedAtMs = Number.NEGATIVE_INFINITY;
  return {
    reserve: coalesce<Acceptance, Reserved>({
      maxItems: MAX_RESERVED_TOGETHER,
      maxParallel: store.kind === "postgres" ? 2 : 1,
      async run(acceptances) {
        const distinct = new Map(acceptances.map((acceptance) => [contentsOf(acceptance), acceptance]));
        const bindings = await store.transaction(async (tx) => {
          await lockBalances(store, tx, acceptances.map(balanceOf));
          return bindInTurn([...distinct.values()], (some) => reserveDistinct(tx, chainId, some));
        });
        const byContents = new Map([...distinct.keys()].map((contents, place) => [contents, bindings[place]]));
        return acceptances.map((acceptance) => byContents.get(contentsOf(acceptance)) as Reserved);
      },
    }),
    async check(acceptance) {
      const { rows } = await sql<{ is_reserved: boolean; is_short: boolean }>`
        with asked as (${askedRows([acceptance])}), ${minedLater(chainId)}
        select ${isReservedElsewhere(chainId)} as is_reserved, ${isShort(chainId)} as is_short from asked a`.execute(
        store.db,
      );
      const [row] = rows;
      if (row?.is_reserved) return "granted";
      return row?.is_short ? "short" : "bound";
    },
    async release(paymentId, grantId) {
      const { numDeletedRows } = await store.db
        .deleteFrom("payment_reservations")
        .where("chain_id", "=", chainId)
        .where("payment_id", "=", paymentId)
        .where("grant_id", "=", grantId)
        .executeTakeFirst();
      return numDeletedRows > 0n;
    },
    async deleteEnded() {
      if (monotonicMs() - deletedAtMs < DELETE_EVERY_MS) return;
      deletedAtMs = monotonicMs();
      await sql`
        delete from payment_reservations r where r.chain_id = ${chainId}::bigint and r.payment_id in (
          select e.payment_id from payment_reservations e
          where e.chain_id = ${chainId}::bigint and e.expires_at <= ${chainNowSec(chainId)} - ${KEPT_SEC}::bigint
          for update skip locked)`.execute(store.db);
    },
  };
}

/** Identifies what a request asks for: equal requests of one group are answered by one row. */
const contentsOf = ({ request: { paymentId, purchase, resourceHash, signature } }: Acceptance): string =>
  `${paymentId}/${purchase?.grantId}/${resourceHash}/${signature}`;

/** Reserves payments of different payers in one statement. */
async function reserveDistinct(db: Db, chainId: number, acceptances: readonly Acceptance[]): Promise<Reserved[]> {
  const { rows } = await sql<{ payment_id: string; is_reserved: boolean; is_known: boolean; is_crowded: boolean }>`
    with asked as (${askedRows(acceptances)}), ${minedLater(chainId)},
    judged as (
      select a.*, ${isReservedElsewhere(chainId)} as is_reserved, ${isShort(chainId)} as is_short,
        exists (select 1 from payments p where p.chain_id = ${chainId}::bigint and p.payment_id = a.payment_id) as is_known,
        ${isCrowded(chainId)} as is_crowded
      from asked a),
    reserved as (
      insert into payment_reservations as r
        (chain_id, payment_id, grant_id, payer, token, pay_to, amount, resource_hash, expires_at)
      select ${chainId}::bigint, j.payment_id, j.grant_id, j.payer, j.token, j.pay_to, j.amount, j.resource_hash,
        j.valid_before
      from judged j where not j.is_reserved and not j.is_known and not j.is_short and not j.is_crowded
      on conflict (chain_id, payment_id) do update set grant_id = excluded.grant_id, pay_to = excluded.pay_to,
        amount = excluded.amount, resource_hash = excluded.resource_hash,
        expires_at = greatest(r.expires_at, excluded.expires_at)
      returning payment_id)
    select j.payment_id, j.is_reserved, j.is_known, j.is_crowded from judged j
    where not exists (select 1 from reserved x where x.payment_id = j.payment_id)`.execute(db);
  const refused = new Map(rows.map((row) => [row.payment_id, row]));
  return acceptances.map(({ request }) => {
    const row = refused.get(request.paymentId);
    if (!row) return "bound";
    if (row.is_known) return "known";
    if (row.is_reserved) return "granted";
    return row.is_crowded ? "crowded" : "short";
  });
}

/** Whether the payer of the row `a` has as many other reservations as it may have. */
const isCrowded = (chainId: number) => sql<boolean>`(
  select count(*) from payment_reservations r
  where r.chain_id = ${chainId}::bigint and r.token = a.token and r.payer = a.payer and r.payment_id <> a.payment_id
    and r.expires_at > ${chainNowSec(chainId)}) >= ${MAX_LIVE_RESERVATIONS}`;

/** Returns which of the payments are reserved for another purchase. */
export async function idsReservedElsewhere(
  db: Db,
  chainId: number,
  acceptances: readonly Acceptance[],
): Promise<ReadonlySet<string>> {
  if (acceptances.length === 0) return new Set();
  const { rows } = await sql<{ payment_id: string }>`
    with a as (${askedRows(acceptances)})
    select a.payment_id from a where ${isReservedElsewhere(chainId)}`.execute(db);
  return new Set(rows.map((row) => row.payment_id));
}
