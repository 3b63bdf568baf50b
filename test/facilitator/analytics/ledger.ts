/** The ledger and the search at 100,000 rows: their sums, their order, and the indexes that they read. */
import { expect } from "chai";
import { type RawBuilder, sql } from "kysely";
import type { LedgerWire } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import { createAnalytics } from "../../../facilitator/src/analytics";
import { recountSums } from "../../../facilitator/src/analytics/event-sums";
import type { LedgerFilter } from "../../../facilitator/src/analytics/ledger";
import type { PlanOrder } from "../../../facilitator/src/analytics/plan-sums";
import type { PayerOrder } from "../../../facilitator/src/analytics/queries";
import { lookupsOf } from "../../../facilitator/src/analytics/search";
import { Secret } from "../../../facilitator/src/config/setting";
import { openStore, type Store } from "../../../facilitator/src/db/open";
import { FOUR_WEEKS_SEC } from "../../../facilitator/src/lib/durations";
import { storedMemo } from "../../../facilitator/src/payments/payment-request";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const CHAIN_ID = 31_337;
const [TOKEN, OTHER_TOKEN, PROVIDER, OTHER] = ["c0", "c1", "a1", "a2"].map(
  (end) => `0x${end.padStart(40, "0")}` as Address,
) as [Address, Address, Address, Address];
const START_SEC = Date.UTC(2026, 0, 1) / 1_000;
const YEAR_SEC = 365 * 86_400;
const PAYMENTS = 60_000;
const CHARGES = 30_000;
const REFUNDS = 10_000;
const PLANS = 20_000;
const HOSTILE = `=cmd|'/C calc'!A0"><img src=x>\u202e`;

type Totals = LedgerWire["totals"];

const hash = (start: string, n: number | string): Hex => `0x${start}${n.toString(16).padStart(64 - start.length, "0")}`;
const idSql = (start: string, n = "n") => sql.raw(`'0x${start}' || lpad(to_hex(${n}), ${64 - start.length}, '0')`);
const rows = (count: number) => sql.raw(`generate_series(1, ${count}) n`);
/** Spread over the year. */
const atSql = sql.raw(`${START_SEC} + (n::bigint * 7919 * 97) % ${YEAR_SEC}`);
const payerSql = sql.raw(`'0x' || lpad(to_hex(n % 500), 40, '0')`);
/** Chai takes a minute for lists of this length. */
const firstOther = <T>(found: readonly T[] = [], wanted: readonly T[] = []): T | undefined =>
  found.length === wanted.length
    ? found.find((each, index) => each !== wanted[index])
    : (found.at(-1) ?? wanted.at(-1));
const filter = (given: Partial<LedgerFilter> = {}): LedgerFilter => ({ zone: "UTC", sort: "newest", ...given });

describe("ledger and search at 100,000 rows", function () {
  this.timeout(240_000);
  let postgres: TestPostgres;
  let store: Store;
  const config = {
    chainId: CHAIN_ID,
    turnpike: `0x${"e".repeat(40)}`,
    tokens: [TOKEN, OTHER_TOKEN].map((address) => ({ address, name: "Test", version: "1", decimals: 6 })),
  } as never;
  const clock = { nowSec: () => START_SEC + YEAR_SEC - 1 };
  const analytics = () => createAnalytics({ db: store.db, config, clock });

  before(async () => {
    postgres = await startPostgres();
    store = await openStore({ kind: "postgres", url: new Secret(await postgres.migrated()), poolSize: 4 });
    const tokenOf = (n: string) => sql.raw(`case when ${n} % 2 = 0 then '${TOKEN}' else '${OTHER_TOKEN}' end`);
    const run = (statement: RawBuilder<unknown>) => statement.execute(store.db);
    await run(sql`insert into plans (chain_id, plan_id, plan_index, provider, token, amount, interval_sec, grace_sec, pay_to,
        salt, metadata, deprecated, block_number, created_at)
      select ${CHAIN_ID}, ${idSql("b")}, n, case when n % 7 = 0 then ${OTHER} else ${PROVIDER} end, ${tokenOf("n")}, 5, 86400,
        60, ${PROVIDER}, '0x', '{"name": "Plan ' || n || '"}', false, 1, 1 from ${rows(PLANS)}`);
    await run(sql`insert into subscriptions (chain_id, id_hash, subscriber, plan_id, paid_through, version, paused, ending,
        cancelled, block_number, created_at, transaction)
      select ${CHAIN_ID}, ${idSql("5")}, ${payerSql}, ${idSql("b")}, 1, 1, false, false, false, 1, n, ${idSql("7")}
      from ${rows(PLANS)}`);
    await run(sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, memo, token, payer, pay_to,
        amount, nonce, valid_after, valid_before, signature, has_code, state, is_reversed, attempts, accepted_at_ms,
        accepted_block, block_time, tx_hash)
      select ${CHAIN_ID}, ${idSql("1")}, 'authorize', '', 'https://a.example/' || n % 5, 'memo ' || n, ${tokenOf("n")},
        ${payerSql}, case when n % 3 = 0 then ${OTHER} else ${PROVIDER} end, n, '', 0, 1, '', false,
        case when n % 50 = 0 then 'failed' when n % 77 = 0 then 'queued' else 'settled' end, false, 1, (${atSql}) * 1000, 1,
        ${atSql}, decode(lpad(to_hex(n / 10), 64, '0'), 'hex') from ${rows(PAYMENTS)}`);
    await run(sql`insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_time, block_number)
      select ${idSql("e1")}, ${CHAIN_ID}, 'payment.settled', payment_id, 1, pay_to, payer,
        jsonb_build_object('token', token, 'amount', amount::text), block_time, 1
      from payments, lateral (select amount::int as n) x where state = 'settled'`);
    await run(sql`insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_time,
        block_number, transaction, reverted)
      select ${idSql("e2")}, ${CHAIN_ID}, (array['subscription.created', 'subscription.renewed', 'subscription.resumed',
          'subscription.plan_changed', 'allowance.debited'])[1 + n % 5], ${idSql("5", "1 + n % 100")}, n,
        case when (1 + n % 21) % 7 = 0 then ${OTHER} else ${PROVIDER} end, ${payerSql},
        jsonb_build_object('token', ${tokenOf("(1 + n % 21)")}, 'planId', ${idSql("b", "1 + n % 21")},
          case when n % 5 = 4 then 'amount' else 'charged' end, case when n % 40 = 0 then '0' else (n * 3)::text end,
          'version', 1, 'paidThrough', n, 'index', n), ${atSql}, 1, ${idSql("7")}, n % 100 = 1 from ${rows(CHARGES)}`);
    // Half of payments, half of charges; of both tokens.
    await run(sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to,
        amount, nonce, valid_after, valid_before, signature, has_code, state, is_reversed, attempts, accepted_at_ms,
        accepted_block, block_time, tx_hash)
      select ${CHAIN_ID}, ${idSql("2")}, 'refund', '', '', ${tokenOf("n")}, ${PROVIDER}, ${payerSql}, 1 + n % 9, '', 0, 1, '',
        false, case when n % 60 = 0 then 'failed' else 'settled' end, false, 1, (${atSql}) * 1000, 1, ${atSql},
        decode(lpad(to_hex(n + 1000000), 64, '0'), 'hex') from ${rows(REFUNDS)}`);
    await run(sql`insert into refunded (chain_id, refunded_id, kind, provider, payer, token, amount, plan_id, id_hash)
      select ${CHAIN_ID}, case when n <= 5000 then ${idSql("1")} else ${idSql("3")} end,
        case when n <= 5000 then 'payment' else 'charge' end,
        case when n % 3 = 0 then ${OTHER} else ${PROVIDER} end, ${payerSql}, ${tokenOf("n")}, n,
        case when n > 5000 then ${idSql("b", "2 + (n % 2)")} end, case when n > 5000 then ${idSql("5")} end
      from ${rows(REFUNDS)}`);
    await run(sql`insert into refunds (chain_id, refunded_id, refund_index, payment_id)
      select ${CHAIN_ID}, case when n <= 5000 then ${idSql("1")} else ${idSql("3")} end, 0, ${idSql("2")} from ${rows(REFUNDS)}`);
    await run(sql`insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_time, block_number)
      select ${idSql("e3")}, ${CHAIN_ID}, 'refund.settled', ${idSql("2")}, 1,
        case when n % 3 = 0 then ${OTHER} else ${PROVIDER} end, ${payerSql},
        jsonb_build_object('token', ${tokenOf("n")}, 'amount', (1 + n % 9)::text)
          || case when n > 5000 then jsonb_build_object('planId', ${idSql("b", "2 + (n % 2)")}) else '{}' end, ${atSql}, 1
      from ${rows(REFUNDS)} where n % 60 <> 0`);
    await store.transaction((tx) => recountSums(tx, CHAIN_ID));
    await run(sql`analyze`);
  });
  after(async () => {
    await store.close();
    await postgres.stop();
  });

  const sum = (totals: Totals, of: (total: Totals[number]) => string | number): bigint =>
    totals.reduce((all, total) => all + BigInt(of(total)), 0n);

  for (const [name, month] of [
    ["the year", undefined],
    ["March", "2026-03"],
  ] as const)
    it(`shows the same sums of ${name} as overview, volume and plans, in every token`, async () => {
      const fromSec = month ? Date.UTC(2026, 2) / 1_000 : START_SEC;
      const toSec = month ? Date.UTC(2026, 3) / 1_000 : START_SEC + YEAR_SEC;
      const all = (await analytics().movementTotals(PROVIDER, filter({ month }))).totals;
      for (const token of [TOKEN, OTHER_TOKEN]) {
        const range = { token, fromSec, toSec, days: 30 };
        const totals = all.filter((total) => total.token === token);
        const received = totals.filter(({ kind }) => kind !== "refund");
        const overview = await analytics().overview(PROVIDER, range);
        expect(BigInt(overview.volume.amount) > 0n && BigInt(overview.refunds.amount) > 0n).to.equal(true);
        expect(sum(totals, ({ gross }) => gross).toString()).to.equal(overview.volume.amount);
        expect(sum(totals, ({ refunded }) => refunded).toString()).to.equal(overview.refunds.amount);
        expect(sum(totals, ({ net }) => net).toString()).to.equal(overview.net);
        expect(Number(sum(received, ({ count }) => count))).to.equal(overview.volume.count);
        const { points } = await analytics().volume(PROVIDER, { ...range, grain: "day" });
        for (const { kind, count, gross } of received) {
          const own = points.filter(({ scheme }) => scheme === kind);
          expect(own.reduce((total, { amount }) => total + BigInt(amount), 0n).toString(), kind).to.equal(gross);
          expect(
            own.reduce((total, point) => total + point.count, 0),
            kind,
          ).to.equal(count);
          expect(overview.byScheme[kind as "one-time"], kind).to.deep.equal({ count, amount: gross });
        }
        const { plans } = await analytics().plans(PROVIDER, { ...range, sort: "revenue", order: "desc", limit: 200 });
        const earning = plans.filter(({ count, refunds }) => count > 0 || refunds.count > 0);
        expect(earning.length).to.be.greaterThan(5);
        for (const plan of earning) {
          const own = await analytics().movementTotals(PROVIDER, filter({ month, planId: plan.planId as Hex }));
          expect(sum(own.totals, ({ gross }) => gross).toString(), plan.planId).to.equal(plan.amount);
          expect(sum(own.totals, ({ refunded }) => refunded).toString(), plan.planId).to.equal(plan.refunds.amount);
        }
        const once = received.filter(({ kind }) => kind === "one-time");
        const ofPlans = plans.reduce((total, { amount }) => total + BigInt(amount), 0n);
        expect(ofPlans + sum(once, ({ gross }) => gross)).to.equal(BigInt(overview.volume.amount));
      }
    });

  async function every(given: LedgerFilter, limit = 1_000) {
    const found: LedgerWire["movements"] = [];
    for (let cursor: string | undefined; ; ) {
      const { movements, next } = await analytics().movements(PROVIDER, given, { cursor, limit });
      found.push(...movements);
      if (next === undefined) return found;
      cursor = next;
    }
  }

  it("lists each movement once in each order, page by page, and as many as the totals count", async () => {
    const { totals } = await analytics().movementTotals(PROVIDER, filter({ token: TOKEN }));
    const count = Number(sum(totals, (total) => total.count));
    const keys = { newest: "at", oldest: "at", largest: "amount", smallest: "amount" } as const;
    for (const [sort, key] of Object.entries(keys)) {
      const found = await every(filter({ sort: sort as "newest", token: TOKEN }));
      expect(new Set(found.map(({ id }) => id)).size, sort).to.equal(count);
      const values = found.map(({ at, gross, refunded }) => (key === "at" ? at : Number(gross) + Number(refunded)));
      const sorted = [...values].sort((a, b) => (sort === "newest" || sort === "largest" ? b - a : a - b));
      expect(firstOther(values, sorted), sort).to.equal(undefined);
      expect(found.reduce((total, { net }) => total + BigInt(net), 0n)).to.equal(sum(totals, ({ net }) => net));
    }
  });

  it("takes no cursor of another order of movements, whose figures are of another kind or go the other way", async () => {
    const orders = ["newest", "oldest", "largest", "smallest"] as const;
    const page = (sort: (typeof orders)[number], cursor?: string) =>
      analytics().movements(PROVIDER, filter({ sort, token: TOKEN }), { cursor, limit: 2 });
    for (const sort of orders) {
      const { next } = await page(sort);
      for (const other of orders) {
        const answer = await page(other, next).then(
          () => "a page",
          ({ code }) => code,
        );
        expect(answer, `${sort}'s for ${other}`).to.equal(other === sort ? "a page" : "InvalidRequest");
      }
    }
  });

  it("lists each payer and plan once, by each figure and both ways, and takes no cursor of another order", async () => {
    const bucket = Math.floor((START_SEC + YEAR_SEC) / FOUR_WEEKS_SEC + 1) * FOUR_WEEKS_SEC;
    await sql`insert into rollup_plan_standing (chain_id, bucket, plan_id, ends)
      select ${CHAIN_ID}, ${bucket}, ${idSql("b")}, array_fill(n % 9, array[28]) from ${rows(300)}`.execute(store.db);
    const range = { token: TOKEN, fromSec: START_SEC, toSec: START_SEC + YEAR_SEC, days: 30 };
    const payers = async (by: PayerOrder) => {
      const page = await analytics().payers(PROVIDER, { token: TOKEN, ...by });
      const figure = { paid: "amount", net: "net", payments: "count" } as const;
      const of = (row: (typeof page.payers)[number]) =>
        by.sort === "refunds" ? row.refunds.amount : row[figure[by.sort]];
      return { next: page.next, rows: page.payers.map((row) => ({ id: row.payer, value: BigInt(of(row)) })) };
    };
    const plans = async (by: PlanOrder) => {
      const page = await analytics().plans(PROVIDER, { ...range, ...by });
      const of = (row: (typeof page.plans)[number]) => (by.sort === "revenue" ? row.amount : row[by.sort]);
      return { next: page.next, rows: page.plans.map((row) => ({ id: row.planId, value: BigInt(of(row)) })) };
    };
    const orders = [
      ...(["paid", "refunds", "net", "payments"] as const).map((sort) => {
        return { sort, limit: 60, list: (by: Omit<PayerOrder, "sort">) => payers({ ...by, sort }) };
      }),
      ...(["revenue", "recurring", "active"] as const).map((sort) => {
        return { sort, limit: 6_000, list: (by: Omit<PlanOrder, "sort">) => plans({ ...by, sort }) };
      }),
    ];
    for (const { list, limit, sort } of orders) {
      const ask = (order: "asc" | "desc", cursor?: string, few = limit) => list({ order, limit: few, cursor });
      const whole = async (order: "asc" | "desc") => {
        const found: { readonly id: string; readonly value: bigint }[] = [];
        for (let page = await ask(order); ; page = await ask(order, page.next)) {
          found.push(...page.rows);
          if (page.next === undefined) return found;
        }
      };
      const down = await whole("desc");
      expect(down.length, sort)
        .to.equal(new Set(down.map(({ id }) => id)).size)
        .and.greaterThan(limit);
      expect(new Set(down.map(({ value }) => value)).size, `${sort} differs`).to.be.greaterThan(2);
      expect(
        down.findIndex(({ value }, index) => value > (down[index - 1]?.value ?? value)),
        sort,
      ).to.equal(-1);
      const [up, back] = [await whole("asc"), down.reverse()].map((rows) =>
        rows.map(({ id, value }) => `${id} ${value}`),
      );
      expect(firstOther(up, back), sort).to.equal(undefined);
      const { next = "" } = await ask("desc", undefined, 2);
      for (const wrong of ["", "1", next.replace("desc", "asc"), next.replace(sort, "sort"), `${next}.1`, "0.0.0"])
        expect(await ask("desc", wrong).catch(({ code }) => code), wrong).to.equal("InvalidRequest");
      const [by, , id] = next.split(".");
      expect((await ask("desc", `${by}.0.${id}`)).rows.every(({ value }) => value <= 0n)).to.equal(true);
      for (const far of [`${by}.${"9".repeat(78)}.${id}`, `${by}.-1.${id}`, `${by}.1e9.${id}`, `${by}.1.%`])
        expect(await ask("desc", far, 2).catch(({ code }) => code), far).to.satisfy(
          (answer: unknown) => answer === "InvalidRequest" || typeof answer === "object",
        );
    }
  });

  it("filters by kind, route, payer and plan, and counts what it lists", async () => {
    const payer = `0x${(7).toString(16).padStart(40, "0")}` as Address;
    const route = "https://a.example/2";
    const month = "2026-05";
    for (const given of [
      { kind: "refund" },
      { kind: "overage" },
      { kind: "one-time", route },
      { payer },
      { route },
    ] as const) {
      const wanted = filter({ month, ...given });
      const found = await every(wanted, 200);
      const { totals } = await analytics().movementTotals(PROVIDER, wanted);
      expect(found.length, JSON.stringify(given)).to.equal(Number(sum(totals, ({ count }) => count)));
      expect(found.length, JSON.stringify(given)).to.be.greaterThan(0);
      for (const row of found) expect(row).to.include(given);
    }
    const byPath = await every(filter({ month, route: "/2" }), 200);
    expect(byPath).to.deep.equal(await every(filter({ month, route }), 200));
  });

  it("begins a month where it begins in its zone, also where clocks change in it", async () => {
    for (const [month, zone, from, to] of [
      ["2026-11", "UTC", "2026-11-01T00:00Z", "2026-12-01T00:00Z"],
      ["2026-11", "Europe/Berlin", "2026-10-31T23:00Z", "2026-11-30T23:00Z"],
      ["2026-03", "Europe/Berlin", "2026-02-28T23:00Z", "2026-03-31T22:00Z"],
      ["2026-11", "America/New_York", "2026-11-01T04:00Z", "2026-12-01T05:00Z"],
      ["2026-12", "Asia/Kolkata", "2026-11-30T18:30Z", "2026-12-31T18:30Z"],
    ] as const) {
      const range = await analytics().movementTotals(PROVIDER, filter({ month, zone }));
      expect([range.from, range.to], zone).to.deep.equal([from, to].map((at) => Date.parse(at) / 1_000));
    }
    const unknown = await analytics()
      .movementTotals(PROVIDER, filter({ zone: "Mars/Phobos" }))
      .catch((error: { code: string }) => error.code);
    expect(unknown).to.equal("InvalidRequest");
  });

  it("finds by hash, memo, payer, id and name what is the provider's, and nothing of another's", async () => {
    const find = async (text: string, provider = PROVIDER) =>
      (await analytics().search(provider, text)).map(({ page }) => page);
    const payer = `0x${"0".repeat(39)}7`;
    expect(await find(hash("1", 1))).to.deep.equal([`/payments/${hash("1", 1)}`]);
    expect(await find("memo 1")).to.deep.equal([`/payments/${hash("1", 1)}`]);
    expect(await find(`0x${(12).toString(16).padStart(64, "0")}`)).to.have.length(6);
    expect(await find(hash("2", 1))).to.deep.equal([`/payments/${hash("1", 1)}`]);
    expect(await find(hash("7", 3))).to.deep.equal([`/charges/${hash("e2", 3)}`]);
    expect(await find(hash("e2", 3).toUpperCase().replace("0X", "0x"))).to.deep.equal([`/charges/${hash("e2", 3)}`]);
    expect(await find(hash("5", 1))).to.deep.equal([`/subscriptions/${hash("5", 1)}`]);
    expect(await find(payer)).to.deep.equal([`/payers/${payer}`]);
    expect(await find(hash("b", 1))).to.deep.equal([`/plans/${hash("b", 1)}`]);
    expect(await find(`${hash("b", 1).slice(0, 8)}…${hash("b", 19_998).slice(-4)}`)).to.deep.equal([
      `/plans/${hash("b", 19_998)}`,
    ]);
    const named = [1999, ...Array.from({ length: 10 }, (_, n) => 19_990 + n)].filter((n) => n % 7 !== 0);
    expect(await find("plan 1999")).to.deep.equal(named.map((n) => `/plans/${hash("b", n)}`));
    for (const others of [hash("1", 3), "memo 3", hash("5", 7), hash("b", 7), "plan 7 ", "%", "plan%", "_", "'"])
      expect(await find(others), others).to.deep.equal([]);
  });

  it("stores a memo of any text, and finds it by that text", async () => {
    for (const [given, stored] of [
      [HOSTILE, HOSTILE],
      ["a\0b", "a\ufffdb"],
      ["\ud800x", "\ufffdx"],
    ] as const) {
      expect(storedMemo(given)).to.equal(stored);
      await sql`update payments set memo = ${stored} where payment_id = ${hash("1", 2)}`.execute(store.db);
      expect(await analytics().search(PROVIDER, stored)).to.have.length(1);
    }
  });

  it("reads an index for every lookup of a search, and no table from end to end", async () => {
    const scanned = async (query: RawBuilder<unknown>): Promise<string[]> => {
      const { rows: found } = await sql<{ "QUERY PLAN": unknown }>`explain (format json) ${query}`.execute(store.db);
      const names: string[] = [];
      const walk = (node: unknown): void => {
        if (typeof node !== "object" || node === null) return;
        const { "Node Type": type, "Relation Name": table } = node as Record<string, unknown>;
        if (typeof type === "string" && type.endsWith("Seq Scan")) names.push(String(table));
        Object.values(node).forEach(walk);
      };
      found.forEach(walk);
      return names;
    };
    const wanted = { chainId: CHAIN_ID, provider: PROVIDER, tokens: [TOKEN, OTHER_TOKEN] };
    const texts = [hash("1", 1), `0x${"0".repeat(39)}7`, "memo 1", "plan 1", "0x123abc"];
    const lookups = texts.flatMap((text) => lookupsOf(wanted, text));
    expect(lookups.length).to.equal(22);
    for (const lookup of lookups) expect(await scanned(lookup)).to.deep.equal([]);
    expect(await scanned(sql`select from payments where memo like '%1'`), "a scan is seen").to.deep.equal(["payments"]);
  });
});
