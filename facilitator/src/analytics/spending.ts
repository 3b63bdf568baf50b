/** Lists what one payer was charged, by every provider: its payments, its subscriptions, and sums by provider and day. */
import { sql } from "kysely";
import type { ChargedListWire, PaidListWire, SpendWire } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { Db } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import { DAY_SEC } from "../lib/durations";
import { refundedSums } from "../payments/refunds";
import { CHARGES } from "./charges";
import { type ListQuery, listCharges, type Page } from "./lists";
import { namedCharges } from "./payer-figures";
import { type AnalyticsOptions, createRanges, type FiguresQuery, positionOf, type Range, sequenceOf } from "./ranges";

export interface Spending {
  paid(payer: Address, query: ListQuery): Promise<PaidListWire>;
  charged(payer: Address, query: ListQuery): Promise<ChargedListWire>;
  spend(payer: Address, query: FiguresQuery): Promise<SpendWire>;
}

interface OfPayer {
  readonly chainId: number;
  readonly payer: string;
}

export function createSpending({ db, config, clock }: AnalyticsOptions): Spending {
  const { chainId } = config;
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async paid(payer, { cursor, limit }) {
      const rows = await listPaid(db, { chainId, payer }, { after: positionOf(cursor), limit });
      const refunded = await refundedSums(
        db,
        chainId,
        rows.map(({ payment_id }) => payment_id),
      );
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return {
        payments: rows.map((row) => ({
          id: row.payment_id,
          at: row.block_time ?? Math.floor(row.accepted_at_ms / 1_000),
          provider: row.pay_to,
          token: row.token,
          amount: row.amount,
          resource: row.resource_shown,
          ...(row.tx_hash && { transaction: row.tx_hash }),
          ...(refunded.has(row.payment_id) && { refunded: String(refunded.get(row.payment_id)) }),
        })),
        ...(last && { next: `${last.accepted_at_ms}.${last.payment_id}` }),
      };
    },

    async charged(payer, { cursor, limit }) {
      const rows = await listCharges(db, { chainId, payer }, { afterSeq: sequenceOf(cursor), limit });
      const named = await namedCharges({ db, config }, rows);
      return {
        charges: named.map(({ row, refunded }) => ({
          at: row.block_time,
          scheme: row.scheme,
          provider: row.provider,
          token: row.token,
          amount: row.amount,
          idHash: row.object_id,
          planId: row.plan_id,
          ...(row.transaction && { transaction: row.transaction }),
          ...(refunded !== undefined && { refunded }),
        })),
        ...(rows.length === limit && { next: String(rows.at(-1)?.seq) }),
      };
    },

    async spend(payer, query) {
      const { unit } = scopeOf("everyone", query.token);
      const range = rangeOf(query, DAY_SEC);
      const days = await sumsOf(db, { chainId, payer, token: unit.token }, range);
      return { ...unit, from: range.fromSec, to: range.toSec, days };
    },
  };
}

/** Whom the payer has paid once: the index of payments has a hash of both accounts. */
const payees = ({ chainId, payer }: OfPayer) => sql`payees as materialized (
  select distinct provider, hashtextextended(provider || ${payer}::text, 0) as parties from rollup_payers
  where chain_id = ${chainId} and payer = ${payer})`;

const settledOf = ({ chainId, payer }: OfPayer) => sql`payments p
  where p.chain_id = ${chainId} and p.pay_to = m.provider and p.payer = ${payer} and p.door <> 'refund'
    and hashtextextended(p.pay_to || p.payer, 0) = m.parties
    and p.state in ('settled', 'failed') and p.state = 'settled'`;

async function listPaid(db: Db, of: OfPayer, { after, limit }: Page): Promise<PaymentRow[]> {
  const { rows } = await sql<PaymentRow>`with ${payees(of)}
    select newest.* from payees m cross join lateral (select p.* from ${settledOf(of)}
      ${after ? sql`and (p.accepted_at_ms, p.payment_id) < (${after.time}, ${after.id})` : sql``}
      order by p.accepted_at_ms desc, p.payment_id desc limit ${limit}) newest
    order by newest.accepted_at_ms desc, newest.payment_id desc limit ${limit}`.execute(db);
  return rows;
}

async function sumsOf(
  db: Db,
  of: OfPayer & { readonly token: string },
  { fromSec, toSec }: Range,
): Promise<SpendWire["days"]> {
  const fields = sql.join(CHARGES.map(([type, , field]) => sql`(${type}, ${field})`));
  const { rows } = await sql<{ at: number; provider: string; count: number; amount: string }>`with ${payees(of)},
    moved as (
      select p.block_time, p.pay_to as provider, p.amount from payees m cross join lateral (select p.* from ${settledOf(of)}
        and p.token = ${of.token} and p.block_time >= ${fromSec} and p.block_time < ${toSec}) p
      union all
      select e.block_time, e.provider, (e.payload->>c.field)::numeric from subscriptions s
      join events e on e.chain_id = s.chain_id and e.object_id = s.id_hash
      join (values ${fields}) c (type, field) on c.type = e.type
      where s.chain_id = ${of.chainId} and s.subscriber = ${of.payer} and not e.reverted
        and e.block_time >= ${fromSec} and e.block_time < ${toSec} and e.payload->>'token' = ${of.token}
        and coalesce((e.payload->>c.field)::numeric, 0) > 0)
    select block_time / ${DAY_SEC} * ${DAY_SEC} as at, provider, count(*)::int as count, sum(amount)::text as amount
    from moved group by 1, 2 order by at desc, provider`.execute(db);
  return rows;
}
