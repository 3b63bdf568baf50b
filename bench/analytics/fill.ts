/**
 * Fills a database with a synthetic year: providers, plans, payers and amounts by Zipf. Writes the rows in time order,
 * as a live service does, then their sums.
 */
import { sql } from "kysely";
import { compactRollups } from "../../facilitator/src/analytics/compact-rollups";
import { hoursKeptSince } from "../../facilitator/src/analytics/ranges";
import { deleteOld } from "../../facilitator/src/analytics/retention";
import { bucketOf } from "../../facilitator/src/analytics/rollups";
import { createEventFeed } from "../../facilitator/src/app/projections";
import { standing as STANDING } from "../../facilitator/src/db/migrations/405-standing";
import { endings as ENDINGS } from "../../facilitator/src/db/migrations/670-endings";
import type { Db, Store } from "../../facilitator/src/db/open";
import { FOUR_WEEKS_SEC, HOUR_SEC } from "../../facilitator/src/lib/durations";
import { dropIndexes } from "./indexes";

export const CHAIN_ID = 31_337;
export const TOKEN = "0x0000000000000000000000000000000000000777";
export const PROVIDERS = 500;
export const PLANS = 2_000;
export const DAY_SEC = 86_400;
/** midnight UTC; the year ends at `END_SEC` */
export const END_SEC = 1_800_000_000 - (1_800_000_000 % DAY_SEC);
export const START_SEC = END_SEC - 365 * DAY_SEC;
/** Digits only, so that the address has the same checksummed form. */
export const addressOf = (number: number): string => `0x${String(number).padStart(40, "0")}`;
/** The one with the most payments. */
export const LARGEST_PROVIDER = addressOf(1);

export interface Scale {
  readonly payments: number;
  readonly payers: number;
}

/** Shares of all payments: the rest are one-time. */
const DEBIT_SHARE = 0.1;
const SUBSCRIPTIONS_PER_PAYMENT = 0.05;
const PERIOD_SHARE = 0.3;
/** Share of all periods that were not charged at the first attempt. */
const FAILED_SHARE = 0.02;
const WEEK_SEC = 7 * DAY_SEC;
/** Synthetic data needs no log for recovery. */
const UNLOGGED = [
  ...["payments", "events", "subscriptions", "allowances", "rollup_totals", "rollup_plans", "rollup_payers"],
  ...[
    "rollup_providers",
    "rollup_funnel",
    "rollup_costs",
    "rollup_standing",
    "rollup_plan_standing",
    "failed_periods",
    "endings",
  ],
];

const u = (number: string, seed: number) =>
  `((hashint8extended(${number}, ${seed}) & 9007199254740991)::float8 / 9007199254740992)`;
/** Draws from 1: the n-th has a probability of about 1 in n. */
const zipf = (count: number, number: string, seed: number) => `floor(power(${count}, ${u(number, seed)}))::bigint`;
const address = (number: string) => `('0x' || lpad((${number})::text, 40, '0'))`;
const hash = (kind: string, number: string) =>
  `('0x' || md5('${kind}' || (${number})) || md5((${number}) || '${kind}'))`;

const asBytes = (hex: string): string => `decode(substr(${hex}, 3), 'hex')`;

/** @param report reports the progress, in weeks of the year */
export async function fill(store: Store, scale: Scale, report: (done: string) => void): Promise<void> {
  const { db } = store;
  const run = async (text: string) => void (await sql.raw(text).execute(db));
  for (const table of UNLOGGED) await run(`alter table ${table} set unlogged`);
  const indexes = await dropIndexes(db);
  const subscriptions = Math.round(scale.payments * SUBSCRIPTIONS_PER_PAYMENT);

  report("plans and subscriptions");
  await run(`insert into plans (chain_id, plan_id, plan_index, provider, token, amount, interval_sec, grace_sec, pay_to, salt,
      metadata, deprecated, successor, block_number, created_at)
    select ${CHAIN_ID}, ${hash("plan", "p")}, p, ${address(zipf(PROVIDERS, "p", 1))}, '${TOKEN}', (1 + p % 20) * 1000000,
      ${30 * DAY_SEC}, ${3 * DAY_SEC}, ${address(zipf(PROVIDERS, "p", 1))}, ${hash("salt", "p")}, '{"name":"Plan ' || p || '"}',
      p % 50 = 0, null, 1, ${START_SEC - 200 * DAY_SEC} from generate_series(1::bigint, ${PLANS}) p`);
  // A temporary table of when each subscription began and until when it was paid.
  await run(`create table bench_subscriptions as
    select s, plan, plan_id, provider, payer, amount, started, stopped,
      started + ceil((least(stopped, ${END_SEC}) - started) / ${30 * DAY_SEC}.0)::bigint * ${30 * DAY_SEC} as paid_through
    from (select s, plan, ${hash("plan", "plan")} as plan_id, ${address(zipf(PROVIDERS, "plan", 1))} as provider,
        ${address(`1000000000 + ${zipf(scale.payers, "s", 3)}`)} as payer, (1 + plan % 20) * 1000000 as amount, started,
        case when ${u("s", 5)} < 0.4 then started + (${u("s", 6)} * ${300 * DAY_SEC})::bigint + 60 else ${END_SEC * 2} end as stopped
      from (select s, ${zipf(PLANS, "s", 2)} as plan, ${START_SEC - 100 * DAY_SEC} + (${u("s", 4)} * ${450 * DAY_SEC})::bigint as started
        from generate_series(1::bigint, ${subscriptions}) s) a where started < ${END_SEC}) b`);
  await run(`insert into subscriptions (chain_id, id_hash, subscriber, plan_id, paid_through, version, paused, ending, cancelled,
      moved_to, block_number, created_at, transaction)
    select ${CHAIN_ID}, ${hash("sub", "s")}, payer, plan_id, paid_through, 0, s % 100 = 7, s % 30 = 7, stopped < ${END_SEC} and s % 2 = 0,
      null, started / 2, started, ${hash("tx", "started / 2")} from bench_subscriptions order by started`);
  await run(`insert into allowances (chain_id, id_hash, cap, spent, cycle, debits)
    select ${CHAIN_ID}, ${hash("sub", "s")}, 5000000, s % 6 * 1000000, paid_through, s % 6 from bench_subscriptions where s % 3 = 0`);

  for (let week = 0; week * WEEK_SEC < END_SEC - START_SEC; week++) {
    const from = START_SEC + week * WEEK_SEC;
    const to = Math.min(from + WEEK_SEC, END_SEC);
    await fillSpan(db, scale, from, to);
    report(`week ${week + 1} of 53`);
  }
  await fillFailedPeriods(db, Math.round(scale.payments * PERIOD_SHARE * FAILED_SHARE));
  await sumUp(store, indexes, report);
}

/** Runs after the rows of the year: indexes, sums, and the service's daily work on them. */
export async function sumUp(store: Store, indexes: readonly string[], report: (done: string) => void): Promise<void> {
  const { db } = store;
  const run = async (text: string) => void (await sql.raw(text).execute(db));
  for (const [index, definition] of indexes.entries()) {
    report(`index ${index + 1} of ${indexes.length}`);
    await run(definition);
  }
  report("sums");
  await count(db);
  await fillOwnSums(db);
  await run("drop table bench_subscriptions");
  report("the daily job");
  await compact(store);
  report("statistics");
  await run("vacuum analyze");
}

/** These rows are written in compacted order. */
const GATHERED_EVERY = [
  [`rollup_totals ${HOUR_SEC}`, DAY_SEC],
  [`rollup_totals ${DAY_SEC}`, WEEK_SEC],
  [`rollup_plans ${DAY_SEC}`, FOUR_WEEKS_SEC],
  [`rollup_funnel ${DAY_SEC}`, WEEK_SEC],
  [`rollup_funnel ${WEEK_SEC}`, FOUR_WEEKS_SEC],
  [`rollup_funnel ${FOUR_WEEKS_SEC}`, FOUR_WEEKS_SEC],
] as const;

/** Runs the service's daily job: deletes old hours, and compacts the rollups of finished days. */
export async function compact(store: Store): Promise<void> {
  await store.db
    .insertInto("cursors")
    .values({ chain_id: CHAIN_ID, name: "indexer", position: 1 })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await deleteOld(store.db, CHAIN_ID, END_SEC - 60);
  for (const [name, every] of GATHERED_EVERY) {
    const position = bucketOf(bucketOf(END_SEC - 60, DAY_SEC) - DAY_SEC, every);
    await store.db
      .insertInto("cursors")
      .values({ chain_id: CHAIN_ID, name: `gathered ${name}`, position })
      .execute();
  }
  await compactRollups({ store, feed: createEventFeed(CHAIN_ID), chainId: CHAIN_ID }, END_SEC - 60);
}

/** Writes payments, debits and events of a span, in time order. */
async function fillSpan(db: Db, scale: Scale, from: number, to: number): Promise<void> {
  const oneTime = Math.round(scale.payments * 0.6);
  const debits = Math.round(scale.payments * DEBIT_SHARE);
  const range = (count: number) => {
    const at = (time: number) => Math.round(((time - START_SEC) / (END_SEC - START_SEC)) * count);
    return `generate_series(${at(from)}::bigint, ${at(to) - 1}) i`;
  };
  const timeOf = (count: number) => `${START_SEC} + (i * ${(END_SEC - START_SEC) / count})::bigint`;
  const payer = address(`1000000000 + ${zipf(scale.payers, "i", 12)}`);
  const payee = address(zipf(PROVIDERS, "i", 11));
  const amount = `(1 + (${u("i", 13)} * 500)::bigint) * 1000`;
  const state = `case when i % 200 = 17 then 'failed' else 'settled' end`;
  await sql
    .raw(`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount,
      nonce, valid_after, valid_before, signature, has_code, state, fail_code, fail_reason, is_reversed, attempts,
      accepted_at_ms, accepted_block, transaction_id, tx_hash, block_number, block_hash, block_time, log_index, settled_at_ms)
    select ${CHAIN_ID}, ${hash("pay", "i")}, 'authorize', ${asBytes(hash("res", "i % 1000"))}, 'https://api.example/v1/' || i % 40, '${TOKEN}',
      ${payer}, ${payee}, ${amount}, ${asBytes(hash("nonce", "i"))}, 0, at + 600, decode(repeat(md5(i::text), 4) || '1b', 'hex'), false, ${state},
      case when i % 200 = 17 then 'PaymentExpired' end, case when i % 200 = 17 then 'expired' end, false, 1, at * 1000 - 900,
      at / 2, 'tx' || at / 2, case when i % 200 <> 17 then ${asBytes(hash("tx", "at / 2"))} end, at / 2,
      case when i % 200 <> 17 then ${asBytes(hash("block", "at / 2"))} end, at, case when i % 200 <> 17 then i end,
      case when i % 200 <> 17 then at * 1000 + 500 + (${u("i", 14)} * ${u("i", 15)} * 8000)::bigint end
    from (select i, ${timeOf(oneTime)} as at from ${range(oneTime)}) a`)
    .execute(db);
  await sql
    .raw(`insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash,
      log_index, block_time, transaction)
    select md5(kind || n), ${CHAIN_ID}, type, object_id, 1, provider, payer,
      jsonb_build_object('token', '${TOKEN}', field, amount::text) || more, at / 2, ${hash("block", "at / 2")},
      n % 400, at, ${hash("tx", "at / 2")}
    from (
      select 'p' as kind, i as n, case when i % 200 = 17 then 'payment.failed' else 'payment.settled' end as type,
        ${hash("pay", "i")} as object_id, ${payee} as provider, ${payer} as payer, 'amount' as field, ${amount} as amount,
        case when i % 200 = 17 then '{"reason":"expired"}' else '{}' end::jsonb as more, at
      from (select i, ${timeOf(oneTime)} as at from ${range(oneTime)}) a
      union all
      select 's', s * 1000 + k, case when k = 0 then 'subscription.created' else 'subscription.renewed' end, ${hash("sub", "s")}, provider,
        payer, 'charged', amount, jsonb_build_object('planId', plan_id), started + k * ${30 * DAY_SEC}
      from bench_subscriptions cross join lateral (select ceil((${from} - started) / ${30 * DAY_SEC}.0)::bigint as k) c
      where k >= 0 and started + k * ${30 * DAY_SEC} < least(${to}, stopped)
      union all
      select 'c', s, case when s % 2 = 0 then 'subscription.cancelled' else 'subscription.expired' end, ${hash("sub", "s")}, provider,
        payer, 'price', amount, jsonb_build_object('planId', plan_id), stopped
      from bench_subscriptions where stopped >= ${from} and stopped < ${to}
      union all
      select 'f', s, 'subscription.renewal_failed', ${hash("sub", "s")}, provider, payer, 'price', amount,
        jsonb_build_object('planId', plan_id, 'attempt', 1, 'reason', (array['InsufficientFunds', 'InsufficientAllowance', 'PlanDeprecated'])[1 + s % 3]), stopped - 30
      from bench_subscriptions where stopped >= ${from} and stopped < ${to} and s % 2 = 1
      union all
      select 'd', i, 'allowance.debited', ${hash("sub", "d.s")}, d.provider, d.payer, 'amount', 1000 * (1 + i % 90),
        jsonb_build_object('planId', d.plan_id), ${timeOf(debits)}
      from ${range(debits)} join bench_subscriptions d on d.s = 1 + i % ${Math.round(scale.payments * SUBSCRIPTIONS_PER_PAYMENT * 0.6)}
    ) e order by at`)
    .execute(db);
}

/**
 * Writes failed periods in the order of failure. They are generated independently: the synthetic events do not contain
 * their periods.
 */
export async function fillFailedPeriods(db: Db, count: number): Promise<void> {
  await sql
    .raw(`insert into failed_periods (chain_id, id_hash, paid_through, provider, token, failed_at, cause, price, outcome)
    select ${CHAIN_ID}, ${hash("sub", `1 + i % ${Math.max(1, count / 2)}`)}, at - 60 - i % 3600, ${address(zipf(PROVIDERS, "i", 21))}, '${TOKEN}', at,
      (array['InsufficientFunds', 'InsufficientFunds', 'InsufficientFunds', 'InsufficientAllowance', 'PlanDeprecated', 'NotTried'])[1 + i % 6],
      (1 + (${u("i", 22)} * 500)::bigint) * 1000,
      case when i % 10 < 6 then 'recovered' when at > ${END_SEC - WEEK_SEC} then 'open' when i % 50 = 7 then 'moved' else 'lost' end
    from (select i, ${START_SEC} + (i * ${(END_SEC - START_SEC) / count})::bigint as at from generate_series(1::bigint, ${count - 1}) i) a`)
    .execute(db);
}

const TOKEN_TEXT = `'${TOKEN}'`;
/** The hours of older days are deleted. */
const HOURS_SINCE_SEC = hoursKeptSince(END_SEC - 60);

/** The row order that the service's daily job leaves for finished days: those of a week, or of four, by owner. */
const gathered = (every: number, key: string) => `order by bucket - bucket % ${every}, ${key}`;

/**
 * Writes the sums of valid rows as `findWrongSums` computes them, in the service's order. The values of the events are
 * extracted once.
 */
async function count(db: Db): Promise<void> {
  const run = async (text: string) => void (await sql.raw(text).execute(db));
  await run(`create unlogged table bench_counted as select provider, payer, type, block_time as at, payload->>'planId' as plan_id,
      payload->>'reason' as cause, (payload->>'amount')::numeric as used, (payload->>'charged')::numeric as charged
    from events`);
  await run("analyze bench_counted");
  const moved = `(select *, coalesce(used, charged) as amount, case type when 'payment.settled' then 'one-time'
      when 'subscription.created' then 'signup' when 'subscription.renewed' then 'renewal' else 'overage' end as scheme
    from bench_counted where type in ('payment.settled', 'subscription.created', 'subscription.renewed', 'allowance.debited')) m`;
  const owners = "cross join lateral (values (''), (provider)) o (owner)";
  const counted = `select provider, at - at % ${DAY_SEC} as bucket, type as kind from bench_counted
    union all select provider, at - at % ${DAY_SEC}, concat(type, ' ', cause) from bench_counted where cause is not null`;
  await run(`insert into rollup_totals
    with own as materialized (select provider, at - at % ${DAY_SEC} as bucket, scheme, plan_id, count(*) as count, sum(amount) as amount
      from ${moved} group by 1, 2, 3, 4)
    select * from (
      select ${CHAIN_ID}, owner, ${DAY_SEC}, bucket, scheme as kind, ${TOKEN_TEXT},
        case when scheme in ('signup', 'renewal') then interval_sec else 0 end as length, sum(count), sum(w.amount)
      from own w left join plans p using (plan_id) cross join lateral (values (''), (w.provider)) o (owner)
      group by owner, bucket, scheme, length
      union all select ${CHAIN_ID}, owner, ${DAY_SEC}, bucket, kind, '', 0, sum(count), 0
        from (select provider, bucket, kind, count(*) as count from (${counted}) c group by 1, 2, 3) e ${owners} group by owner, bucket, kind) s
    ${gathered(WEEK_SEC, "owner, bucket, kind")}`);
  await run(`insert into rollup_totals
    with own as materialized (select provider, at - at % ${HOUR_SEC} as bucket, scheme, count(*) as count, sum(amount) as amount
      from ${moved} where at >= ${HOURS_SINCE_SEC} group by 1, 2, 3)
    select ${CHAIN_ID}, owner, ${HOUR_SEC}, bucket, scheme, ${TOKEN_TEXT}, 0, sum(count), sum(amount)
    from own ${owners} group by owner, bucket, scheme ${gathered(DAY_SEC, "owner, bucket, scheme")}`);
  await run(`insert into rollup_providers select chain_id, token, bucket, provider, sum(count), sum(amount)
    from rollup_totals where grain = ${DAY_SEC} and token <> '' and provider <> '' group by 1, 2, 3, 4 order by 3`);
  await run(`insert into rollup_plans
    select ${CHAIN_ID}, provider, at - at % ${DAY_SEC} as bucket, plan_id, scheme, ${TOKEN_TEXT}, count(*), sum(amount)
    from ${moved} where plan_id is not null group by provider, 3, plan_id, scheme
    ${gathered(FOUR_WEEKS_SEC, "provider, 3, plan_id, scheme").replace(/bucket/g, `(at - at % ${DAY_SEC})`)}`);
  await run(`insert into rollup_payers select ${CHAIN_ID}, provider, ${TOKEN_TEXT}, payer, count(*), sum(amount) from ${moved}
    group by provider, payer`);
  const statements = [...STANDING.statements, ...ENDINGS.statements].map((text) => text.trim());
  for (const text of statements)
    if (/^insert into (rollup_(plan_)?standing|rollup_totals|endings)/.test(text)) await run(text);
  await run("drop table bench_counted");
}

/** Writes sums without an event: the gates' reports and the costs of transactions. */
export async function fillOwnSums(db: Db): Promise<void> {
  await sql
    .raw(`insert into rollup_costs select ${CHAIN_ID}, day, purpose, 700, 1, 27000, 27000::numeric * 45000, 27000::numeric * 45000 * 5000000
    from generate_series(${START_SEC}::bigint, ${END_SEC - DAY_SEC}, ${DAY_SEC}) day cross join unnest(array['settle', 'renew', 'debit', 'act']) purpose`)
    .execute(db);
  await sql
    .raw(`insert into gate_resources select ${CHAIN_ID}, ${address("p")}, '/v1/' || r from generate_series(1::bigint, ${PROVIDERS}) p
    cross join lateral generate_series(1::bigint, greatest(1, 60 / p)) r`)
    .execute(db);
  await sql
    .raw(`insert into rollup_funnel
    select ${CHAIN_ID}, provider, grain, bucket, resource, token, step, cause, 'one-time', sum(count), sum(amount)
    from (select o.provider, o.resource, '${TOKEN}' as token, step, cause, 1 + (day / ${DAY_SEC} + r) % 900 as count,
        1000 * (1 + (day / ${DAY_SEC} + r) % 900) as amount, day, r
      from generate_series(1::bigint, ${PROVIDERS}) p cross join lateral generate_series(1::bigint, greatest(1, 60 / p)) r
      cross join (values ('asked', 'PaymentRequired'), ('refused', 'InvalidPaymentProof/expired'),
        ('refused', 'InvalidPaymentProof/memo_expired'), ('paid', ''), ('served', '')) s (step, cause)
      cross join generate_series(${START_SEC}::bigint, ${END_SEC - DAY_SEC}, ${DAY_SEC}) day
      cross join lateral (values ('', ''), (${address("p")}, ''), (${address("p")}, '/v1/' || r)) o (provider, resource)) d
    cross join lateral (select g.grain, day - day % g.grain as bucket from (values (86400), (604800), (2419200)) g (grain)) g
    group by 1, 2, 3, 4, 5, 6, 7, 8
    ${gathered(FOUR_WEEKS_SEC, `grain, bucket - bucket % ${WEEK_SEC}, provider, resource, bucket`)}`)
    .execute(db);
}
