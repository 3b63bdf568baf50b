/**
 * Lists every movement of a provider's money: payments, what subscriptions were charged, and refunds, each at the time of
 * its block. A refund is a movement of its own: the sums of a month are those of its movements.
 */
import { type RawBuilder, sql } from "kysely";
import type { LedgerWire, MOVEMENT_KINDS } from "turnpike/facilitator";
import { type Address, type Hex, InvalidRequest } from "turnpike/protocol";
import { findToken } from "../config";
import type { Db } from "../db/open";
import { CHARGE_TYPES, CHARGES } from "./charges";
import { ofRoute } from "./lists";
import { type AnalyticsOptions, createRanges, cursorAfter, placeOf } from "./ranges";
import { REFUNDS } from "./rollups";

export interface LedgerFilter {
  /** `2026-11`; undefined: all times */
  readonly month?: string | undefined;
  readonly zone: string;
  /** instead of a month */
  readonly range?: Range | undefined;
  readonly token?: Address | undefined;
  readonly kind?: (typeof MOVEMENT_KINDS)[number] | undefined;
  readonly planId?: Hex | undefined;
  readonly route?: string | undefined;
  readonly payer?: Address | undefined;
  readonly sort: "newest" | "oldest" | "largest" | "smallest";
}

/** unix seconds; `to` is exclusive */
interface Range {
  readonly from: number;
  readonly to: number;
}

export interface MovementPage {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export type Movement = LedgerWire["movements"][number];

export interface Ledger {
  movements(
    provider: Address,
    filter: LedgerFilter,
    page: MovementPage,
  ): Promise<Pick<LedgerWire, "movements" | "next">>;
  /** Returns the same movements' range, and their totals by token and kind. */
  movementTotals(provider: Address, filter: LedgerFilter): Promise<Pick<LedgerWire, "from" | "to" | "totals">>;
}

/** Later than any block. */
const NEVER_SEC = 2 ** 40;

export function createLedger({ db, config, clock }: AnalyticsOptions): Ledger {
  const { chainId } = config;
  const { scopeOf } = createRanges({ config, clock });

  /** Amounts of two tokens have no order. */
  const ordered = (provider: Address, filter: LedgerFilter): LedgerFilter =>
    isByAmount(filter) ? { ...filter, token: scopeOf(provider, filter.token).unit.token } : filter;

  return {
    async movements(provider, given, { cursor, limit }) {
      const filter = ordered(provider, given);
      const [sort, form] = isByAmount(filter) ? (["amount", AMOUNT_PLACE] as const) : (["at", TIME_PLACE] as const);
      const key = sql.raw(sort);
      const isDown = filter.sort === "largest" || filter.sort === "newest";
      const by = { sort, order: isDown ? "desc" : "asc", cursor, limit } as const;
      const order = sql.raw(by.order);
      const after = placeOf(by, form);
      const isBehind = isDown ? sql`<` : sql`>`;
      const behind = after && sql`and (${key}, id) ${isBehind} (${after.figure}::numeric, ${after.id})`;
      const span = isByAmount(filter) ? {} : isDown ? { untilSec: after?.figure } : { sinceSec: after?.figure };
      const parts = partsOf({ chainId, provider }, filter, span).map(
        (part) =>
          sql`(select * from (${part}) m where true ${behind ?? sql``} order by ${key} ${order}, id ${order} limit ${limit})`,
      );
      if (parts.length === 0) return { movements: [] };
      const page = sql<MovementRow>`select * from (${sql.join(parts, sql` union all `)}) m
        order by ${key} ${order}, id ${order} limit ${limit}`;
      const { rows } = await (isByAmount(filter) ? page.execute(db) : inIndexOrder(db, page));
      const places = rows.map((row) => ({ figure: String(row[sort]), id: row.id }));
      return { movements: rows.map(toWire), ...cursorAfter(by, places) };
    },

    async movementTotals(provider, given) {
      const filter = ordered(provider, given);
      const parts = partsOf({ chainId, provider }, filter, {});
      const { from, to } = rangeOf(filter);
      if (parts.length === 0) return { from, to, totals: [] };
      const { rows } = await sql<{ token: string; kind: Movement["kind"]; count: number; amount: string }>`
        select token, kind, count(*)::int8 as count, sum(amount) as amount
        from (${sql.join(parts, sql` union all `)}) m group by token, kind order by token, kind`.execute(db);
      const totals = rows.map(({ token, kind, count, amount }) => {
        const decimals = findToken(config, token as Address)?.decimals;
        return { token, ...(decimals !== undefined && { decimals }), kind, count, ...amountsOf(kind, amount) };
      });
      return { from, to, totals };
    },
  };
}

/**
 * Reads each part in the order of its index, and no further than the page. PostgreSQL cannot estimate how many movements
 * a filter leaves: it would sort all of the range for each page.
 */
function inIndexOrder<T>(db: Db, page: RawBuilder<T>) {
  return db.transaction().execute(async (tx) => {
    for (const way of ["sort", "bitmapscan", "hashjoin", "mergejoin"]) {
      await sql`set local ${sql.raw(`enable_${way}`)} = off`.execute(tx);
    }
    return page.execute(tx);
  });
}

const isByAmount = ({ sort }: LedgerFilter): boolean => sort === "largest" || sort === "smallest";

interface MovementRow {
  readonly at: number;
  readonly id: string;
  readonly kind: Movement["kind"];
  readonly token: string;
  readonly amount: string;
  readonly payer: string;
  readonly plan_id: string | null;
  readonly route: string | null;
  readonly memo: string | null;
  readonly transaction: string | null;
  readonly subject: string | null;
}

const amountsOf = (kind: Movement["kind"], amount: string) =>
  kind === REFUNDS
    ? { gross: "0", refunded: amount, net: amount === "0" ? "0" : `-${amount}` }
    : { gross: amount, refunded: "0", net: amount };

function toWire({ kind, amount, plan_id: planId, route, memo, transaction, subject, ...row }: MovementRow): Movement {
  return {
    ...row,
    kind,
    ...amountsOf(kind, amount),
    ...(planId && { planId }),
    ...(route && { route }),
    ...(memo && { memo }),
    ...(transaction && { transaction }),
    ...(subject && { subject }),
  };
}

interface Whose {
  readonly chainId: number;
  readonly provider: Address;
}

/** What a page needs of the range: its rows begin or end with the last one of the page before. */
interface Span {
  readonly sinceSec?: number | string | undefined;
  readonly untilSec?: number | string | undefined;
}

/** Returns one statement for each source of movements that the filter leaves. */
function partsOf({ chainId, provider }: Whose, filter: LedgerFilter, span: Span): RawBuilder<unknown>[] {
  const { token, kind, planId, route, payer } = filter;
  const { from, to } = rangeOf(filter);
  const within = (column: RawBuilder<unknown>) => sql`${column} >= ${span.sinceSec ?? from}::bigint
    and ${column} < ${to}::bigint ${span.untilSec === undefined ? sql`` : sql`and ${column} <= ${span.untilSec}::bigint`}`;
  const where = (column: RawBuilder<unknown>, value: string | undefined) =>
    value === undefined ? sql`` : sql`and ${column} = ${value}`;
  const payments = sql`
    select block_time as at, payment_id as id, 'one-time' as kind, token, amount, payer, null::text as plan_id,
      resource_shown as route, memo, '0x' || encode(tx_hash, 'hex') as transaction, null::text as subject
    from payments where chain_id = ${chainId}::bigint and pay_to = ${provider} and state = 'settled' and door <> 'refund' and amount > 0
      and ${within(sql`block_time`)} ${where(sql`token`, token)} ${ofRoute(sql`resource_shown`, route)}
      ${payer === undefined ? sql`` : sql`and payer = ${payer} and hashtextextended(pay_to || payer, 0) = hashtextextended(${provider}::text || ${payer}::text, 0)`}`;
  const scheme = caseOfType(([, name]) => sql`${name}::text`);
  const charged = caseOfType(([, , field]) => sql`e.payload->>${sql.lit(field)}`);
  const charges = sql`
    select e.block_time as at, e.id, ${scheme} as kind, e.payload->>'token' as token, (${charged})::numeric as amount, e.payer,
      e.payload->>'planId' as plan_id, null::text as route, null::text as memo, e.transaction, e.object_id as subject
    from events e where e.chain_id = ${chainId}::bigint and e.provider = ${provider} and not e.reverted
      and e.type in (${CHARGE_TYPES}) and ${within(sql`e.block_time`)} and (${charged})::numeric > 0
      and e.payload->>'token' is not null ${where(scheme, kind)} ${where(sql`e.payload->>'token'`, token)}
      ${where(sql`e.payload->>'planId'`, planId)} ${where(sql`e.payer`, payer)}`;
  const refunds = sql`
    select p.block_time as at, p.payment_id as id, ${REFUNDS}::text as kind, p.token, p.amount, d.payer, d.plan_id,
      o.resource_shown as route, o.memo, '0x' || encode(p.tx_hash, 'hex') as transaction, d.refunded_id as subject
    from payments p join refunds r on r.chain_id = p.chain_id and r.payment_id = p.payment_id
    join refunded d on d.chain_id = r.chain_id and d.refunded_id = r.refunded_id and d.provider = ${provider}
    left join payments o on o.chain_id = d.chain_id and o.payment_id = d.refunded_id
    where p.chain_id = ${chainId}::bigint and p.door = 'refund' and p.state = 'settled' and ${within(sql`p.block_time`)}
      ${where(sql`p.token`, token)} ${where(sql`d.payer`, payer)} ${where(sql`d.plan_id`, planId)}
      ${ofRoute(sql`o.resource_shown`, route)}`;
  return [
    ...(planId === undefined && (kind === undefined || kind === "one-time") ? [payments] : []),
    ...(route === undefined && kind !== "one-time" && kind !== REFUNDS ? [charges] : []),
    ...(kind === undefined || kind === REFUNDS ? [refunds] : []),
  ];
}

const caseOfType = (partOf: (charge: (typeof CHARGES)[number]) => RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`case e.type ${sql.join(
    CHARGES.map((charge) => sql`when ${sql.lit(charge[0])} then ${partOf(charge)}`),
    sql` `,
  )} end`;

/** What a cursor has: an amount or a time, and a movement. */
const AMOUNT_PLACE = /^\d{1,78} 0x[0-9a-f]{64}$/;

const TIME_PLACE = /^\d{1,12} 0x[0-9a-f]{64}$/;

/** Returns the range of a calendar month in its zone, unix seconds. @throws InvalidRequest for an unknown zone */
function rangeOf({ month, zone, range }: LedgerFilter): Range {
  if (range) return range;
  const local = localTimeIn(zone);
  if (month === undefined) return { from: 0, to: NEVER_SEC };
  const [year = 0, number = 0] = month.split("-").map(Number);
  return { from: startOf(Date.UTC(year, number - 1), local), to: startOf(Date.UTC(year, number), local) };
}

/** Returns the instant at which a zone's clocks show a time, which is given as if they showed UTC. */
function startOf(shownMs: number, local: LocalTime): number {
  // The offset at the instant that the first guess finds; once more where clocks change in between.
  let atMs = shownMs;
  for (let round = 0; round < 2; round++) atMs = shownMs - (local(atMs) - atMs);
  return Math.floor(atMs / 1_000);
}

/** Returns what a zone's clocks show at an instant, as if they showed UTC; milliseconds. */
type LocalTime = (atMs: number) => number;

/** @throws InvalidRequest for an unknown zone */
export function localTimeIn(zone: string): LocalTime {
  const format = formatIn(zone);
  return (atMs) => {
    const part = Object.fromEntries(format.formatToParts(atMs).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
    return Date.UTC(year, month - 1, day, hour, minute, second);
  };
}

function formatIn(timeZone: string): Intl.DateTimeFormat {
  const numeric = "numeric";
  const fields = {
    year: numeric,
    month: numeric,
    day: numeric,
    hour: numeric,
    minute: numeric,
    second: numeric,
  } as const;
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone, hourCycle: "h23", ...fields });
  } catch {
    throw new InvalidRequest("zone: must be the IANA name of a time zone, such as Europe/Berlin", {
      details: { field: "zone", in: "query" },
    });
  }
}
