/**
 * SQL that decides whether a payer's balance and reservations allow a payment. A statement that accepts or reserves
 * payments evaluates it for the rows `a` of its table `asked`, while it holds the locks of their payers.
 */
import { type RawBuilder, sql } from "kysely";
import { bytesOf } from "../db/sql";
import type { Acceptance } from "./payment-request";

/** Time of the newest applied block: the clock by which reservations end, the same for all processes. */
export const chainNowSec = (chainId: number): RawBuilder<number> =>
  sql`coalesce((select b.timestamp from blocks b where b.chain_id = ${chainId}::bigint order by b.number desc limit 1), 0)`;

/**
 * The block that a payment is accepted after: another process may have reverted blocks that this one still counts as
 * applied.
 */
export const acceptedBlock = (chainId: number, atBlock: RawBuilder<unknown>): RawBuilder<number> =>
  sql`least(${atBlock}, (select max(b.number) from blocks b where b.chain_id = ${chainId}::bigint))`;

/** Rows of `asked` with the columns that the expressions of this file read. */
export function askedRows(acceptances: readonly Acceptance[]): RawBuilder<unknown> {
  const asked = acceptances.map(({ request, balance, atBlock }) => ({
    payment_id: request.paymentId,
    grant_id: request.purchase?.grantId,
    payer: request.authorization.from,
    token: request.token.address,
    pay_to: request.authorization.to,
    method: request.transfer.method,
    amount: request.authorization.value.toString(),
    resource_hash: request.resourceHash,
    valid_before: request.authorization.validBefore.toString(),
    balance: balance.toString(),
    accepted_block: atBlock,
  }));
  return sql`select * from json_to_recordset(${JSON.stringify(asked)}::json) as a(payment_id text, grant_id text,
    payer text, token text, pay_to text, method text, amount numeric, resource_hash text, valid_before bigint, balance numeric,
    accepted_block bigint)`;
}

/**
 * Tables that {@link isShort} reads: what the payers of `asked` paid in blocks after their balances were read. They are
 * read once for all rows, since such a block can hold as many payments as there are rows.
 */
export const minedLater = (chainId: number): RawBuilder<unknown> => sql`
  later as materialized (
    select p.token, p.payer, p.amount, p.block_number from payments p
    where p.chain_id = ${chainId}::bigint and p.state = 'settled' and p.block_hash = any(array(
      select ${bytesOf("b.hash")} from blocks b
      where b.chain_id = ${chainId}::bigint and b.number > (select min(a.accepted_block) from asked a)))),
  mined_later as materialized (
    select a.payment_id, sum(l.amount) as amount from asked a
    join later l on l.payer = a.payer and l.token = a.token and l.block_number > a.accepted_block group by a.payment_id)`;

/**
 * Whether the payer's balance is too small for the payment of the row `a`. Its other payments take from the balance: those
 * in flight, those that were mined after the balance was read, and live reservations.
 */
export function isShort(chainId: number): RawBuilder<boolean> {
  const id = sql`${chainId}::bigint`;
  return sql`(a.amount > a.balance
    - (select coalesce(sum(p.amount), 0) from payments p
      where p.chain_id = ${id} and p.token = a.token and p.payer = a.payer and p.state in ('queued', 'sent'))
    - (select coalesce(sum(m.amount), 0) from mined_later m where m.payment_id = a.payment_id)
    - (select coalesce(sum(r.amount), 0) from payment_reservations r
      where r.chain_id = ${id} and r.token = a.token and r.payer = a.payer and r.payment_id <> a.payment_id
        and r.expires_at > ${chainNowSec(chainId)}))`;
}

/**
 * Whether the payment of the row `a` is reserved for another purchase, or with another payee, amount or resource. An
 * `upto` payment is reserved at its maximum and settled at less.
 */
export const isReservedElsewhere = (chainId: number): RawBuilder<boolean> => sql`exists (
  select 1 from payment_reservations r
  where r.chain_id = ${chainId}::bigint and r.payment_id = a.payment_id and r.expires_at > ${chainNowSec(chainId)}
    and not (r.grant_id is not distinct from a.grant_id and r.resource_hash = a.resource_hash and r.pay_to = a.pay_to
      and (r.amount = a.amount or (a.method = 'upto' and r.amount > a.amount))))`;
