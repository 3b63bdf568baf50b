import { expect } from "chai";
import fc from "fast-check";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import { activeByPlan, standing } from "../../../facilitator/src/analytics/standing";
import { RECORD_PROJECTIONS } from "../../../facilitator/src/app/projections";
import type { Store } from "../../../facilitator/src/db/open";
import { DAY_SEC, HOUR_SEC } from "../../../facilitator/src/lib/durations";
import { emptyState, revertState, saveState } from "../../../facilitator/src/subscriptions/block-rows";
import {
  type PlanRow,
  plansOf,
  type SubscriptionRow,
  subscriptionsOf,
} from "../../../facilitator/src/subscriptions/rows";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const TOKEN = "0x00000000000000000000000000000000000000c0";
const START_SEC = 1_800_000_000;
const providerOf = (number: number) => `0x${String(number).padStart(40, "0")}`;
const MONTH_SEC = 30 * DAY_SEC;

/** Two of one provider; the last exists from the first block that names it on, and goes with that block. */
const TERMS = [
  { provider: 1, intervalSec: 30 * DAY_SEC, graceSec: 3 * DAY_SEC, price: 7n },
  { provider: 1, intervalSec: 7 * DAY_SEC, graceSec: 0, price: 10n ** 20n },
  { provider: 2, intervalSec: 30 * DAY_SEC, graceSec: HOUR_SEC, price: 11n },
  { provider: 3, intervalSec: HOUR_SEC, graceSec: DAY_SEC, price: 1n },
];
const LATE_PLAN = TERMS.length - 1;

const planOf = (number: number): PlanRow => {
  const { provider, intervalSec, graceSec, price } = TERMS[number] as (typeof TERMS)[number];
  return {
    chain_id: CHAIN_ID,
    plan_id: `plan${number}`,
    plan_index: number,
    provider: providerOf(provider),
    token: TOKEN,
    amount: price.toString(),
    interval_sec: intervalSec,
    grace_sec: graceSec,
    pay_to: providerOf(provider),
    months: 0,
    first_provider: null,
    first_pay_to: null,
    proposed_pay_to: null,
    pay_to_effective_at: null,
    salt: "0x",
    metadata: "",
    deprecated: false,
    stopped_at: null,
    successor: null,
    block_number: 1,
    created_at: START_SEC,
  };
};

interface Change {
  readonly subscription: number;
  /** undefined: its record is gone */
  readonly now:
    | {
        plan: number;
        paidForSec: number;
        paused: boolean;
        ending: boolean;
        cancelled: boolean;
        until: number | undefined;
      }
    | undefined;
}

const MIDNIGHT_SEC = START_SEC - (START_SEC % DAY_SEC);
/** From `START_SEC`: any, and often the edge of a day. */
const moment = fc.oneof(
  fc.integer({ min: -45 * DAY_SEC, max: 65 * DAY_SEC }),
  fc
    .tuple(fc.integer({ min: -3, max: 3 }), fc.constantFrom(-1, 0, 1))
    .map(([days, sec]) => MIDNIGHT_SEC + days * DAY_SEC + sec - START_SEC),
);
const rarely = fc.integer({ min: 0, max: 5 }).map((number) => number === 0);
const blocks = fc.array(
  fc.record({
    takenBack: rarely,
    changes: fc.uniqueArray(
      fc.record<Change>({
        subscription: fc.integer({ min: 0, max: 5 }),
        now: fc.option(
          fc.record({
            plan: fc.nat({ max: LATE_PLAN }),
            paidForSec: moment,
            until: fc.option(moment, { nil: undefined, freq: 1 }),
            paused: rarely,
            ending: rarely,
            cancelled: rarely,
          }),
          { nil: undefined, freq: 8 },
        ),
      }),
      { maxLength: 5, selector: ({ subscription }) => subscription },
    ),
  }),
  { minLength: 1, maxLength: 8 },
);

describe("subscriptions that are active, in sums", () => {
  let store: Store;

  before(async () => {
    store = await freshStore();
  });
  after(async () => {
    await store.close();
  });

  async function clear(): Promise<void> {
    const tables = [
      "subscriptions",
      "plans",
      "undo",
      "renewal_due",
      "rollup_standing",
      "rollup_plan_standing",
    ] as const;
    for (const table of tables) await store.db.deleteFrom(table).execute();
    const plans = TERMS.map((_, number) => planOf(number));
    await store.db.insertInto("plans").values(plans.slice(0, LATE_PLAN)).execute();
  }

  /** Of one block, as the indexer writes it. */
  async function write(number: number, changes: readonly Change[]): Promise<void> {
    await store.transaction(async (tx) => {
      const state = emptyState();
      const ids = changes.map(({ subscription }) => `sub${subscription}`);
      for (const row of await subscriptionsOf(tx, CHAIN_ID, ids)) state.subscriptions.load(row.id_hash, row);
      const known = new Set(
        (
          await plansOf(
            tx,
            CHAIN_ID,
            TERMS.map((_, plan) => `plan${plan}`),
          )
        ).map((row) => row.plan_id),
      );
      for (const { subscription, now } of changes) {
        const id = `sub${subscription}`;
        if (!now) {
          state.subscriptions.delete(id);
          continue;
        }
        const plan = planOf(now.plan);
        if (!known.has(plan.plan_id)) state.plans.put(plan.plan_id, plan);
        state.subscriptions.put(id, {
          chain_id: CHAIN_ID,
          id_hash: id,
          subscriber: "0x5",
          plan_id: plan.plan_id,
          version: 0,
          moved_to: null,
          paid_through: START_SEC + now.paidForSec,
          block_number: number,
          created_at: START_SEC,
          transaction: "0x",
          intro: false,
          anchor_day: 0,
          next_plan_id: null,
          until: now.until === undefined ? 0 : START_SEC + now.until,
          paused: now.paused,
          ending: now.ending,
          cancelled: now.cancelled,
        });
      }
      await saveState(tx, { chainId: CHAIN_ID, blockNumber: number }, state, RECORD_PROJECTIONS);
    });
  }

  /** When it is served no longer, unless it is renewed. */
  const endOf = (row: SubscriptionRow): number => {
    if (row.ending) return row.paid_through;
    const graceEnd = row.paid_through + (TERMS[Number(row.plan_id.slice(4))]?.graceSec ?? 0);
    return row.until === 0 ? graceEnd : Math.min(graceEnd, Math.max(row.paid_through, row.until));
  };
  const isActive = (row: SubscriptionRow, nowSec: number) => !row.cancelled && !row.paused && nowSec < endOf(row);

  async function expectExact(nowSec: number): Promise<void> {
    const rows = await subscriptionsOf(
      store.db,
      CHAIN_ID,
      Array.from({ length: 6 }, (_, number) => `sub${number}`),
    );
    const active = rows.filter((row) => isActive(row, nowSec));
    const ofPlan = (plan: number) => active.filter((row) => row.plan_id === `plan${plan}`).length;
    const byPlan = await activeByPlan(
      store.db,
      CHAIN_ID,
      TERMS.map((_, plan) => `plan${plan}`),
      nowSec,
    );
    expect(TERMS.map((_, plan) => byPlan.get(`plan${plan}`) ?? 0)).to.deep.equal(TERMS.map((_, plan) => ofPlan(plan)));
    for (const provider of [undefined, 1, 2, 3]) {
      const own = TERMS.map((terms, plan) => ({ ...terms, count: ofPlan(plan) })).filter(
        (terms) => provider === undefined || terms.provider === provider,
      );
      const prices = new Map<number, bigint>();
      for (const { intervalSec, count, price } of own)
        prices.set(intervalSec, (prices.get(intervalSec) ?? 0n) + BigInt(count) * price);
      const recurring = [...prices].map(([intervalSec, price]) => (price * BigInt(MONTH_SEC)) / BigInt(intervalSec));
      const scope = { chainId: CHAIN_ID, provider: provider ? providerOf(provider) : undefined, token: TOKEN };
      expect(await standing(store.db, scope, nowSec)).to.deep.equal({
        active: own.reduce((sum, { count }) => sum + count, 0),
        recurring: recurring.reduce((a, b) => a + b, 0n),
      });
    }
  }

  it("equal the rows, to the second, whatever changes and whatever blocks are taken back", async () => {
    const moments = fc.array(moment, { minLength: 2, maxLength: 2 });
    await fc.assert(
      fc.asyncProperty(blocks, moments, async (history, laterSec) => {
        await clear();
        for (const [index, { changes, takenBack }] of history.entries()) {
          await write(index, changes);
          const place = { chainId: CHAIN_ID, blockNumber: index };
          if (takenBack) await store.transaction((tx) => revertState(tx, place, RECORD_PROJECTIONS));
        }
        expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
        const [row] = await store.db.selectFrom("subscriptions").selectAll().limit(1).execute();
        const edges = row ? [-31, -1, 0].map((sec) => endOf(row) + sec) : [];
        for (const nowSec of [...laterSec.map((later) => START_SEC + later), ...edges]) await expectExact(nowSec);
      }),
      { numRuns: 15 },
    );
  });

  it("are found to be wrong when they are", async () => {
    await clear();
    const now = { plan: 2, paidForSec: DAY_SEC, paused: false, ending: false, cancelled: false, until: undefined };
    await write(1, [
      { subscription: 1, now },
      { subscription: 2, now },
    ]);
    await store.db.updateTable("rollup_standing").set({ count: 3 }).where("provider", "=", "").execute();
    await store.db.deleteFrom("rollup_plan_standing").execute();
    const wrong = await findWrongSums(store.db, CHAIN_ID, 0);
    expect(wrong.map(({ table, stored, counted }) => ({ table, stored, counted }))).to.deep.equal([
      { table: "rollup_plan_standing", stored: null, counted: "2" },
      { table: "rollup_standing", stored: "3 22", counted: "2 22" },
    ]);
  });
});
