import { expect } from "chai";
import fc from "fast-check";
import type { Address } from "turnpike/protocol";
import { compactRollups } from "../../../facilitator/src/analytics/compact-rollups";
import { transactionCosts } from "../../../facilitator/src/analytics/costs";
import { EVENT_SUMS, keepEventSums, recountSums } from "../../../facilitator/src/analytics/event-sums";
import { planFigures } from "../../../facilitator/src/analytics/plan-sums";
import { payersOf } from "../../../facilitator/src/analytics/queries";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import { createReports } from "../../../facilitator/src/analytics/reports";
import { bucketOf, sumsOf } from "../../../facilitator/src/analytics/rollups";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import type { Store } from "../../../facilitator/src/db/open";
import type { EventDraft } from "../../../facilitator/src/events/event";
import { DAY_SEC, HOUR_SEC } from "../../../facilitator/src/lib/durations";
import { enqueueTransaction, finaliseTransactions, recordMined } from "../../../facilitator/src/relayer/transactions";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const feed = createEventFeed(CHAIN_ID);
/** As the indexer does it with each block. */
const finalise = (store: Store, upToBlock: number) =>
  store.transaction(async (tx) =>
    transactionCosts.finalised(tx, CHAIN_ID, await finaliseTransactions(tx, CHAIN_ID, upToBlock)),
  );

const TOKEN = "0x00000000000000000000000000000000000000c0";
const PROVIDER = "0x00000000000000000000000000000000000000a1";
const START_SEC = 1_800_000_000;

const MONEY_TYPES = [
  "payment.settled",
  "subscription.created",
  "subscription.renewed",
  "subscription.resumed",
  "subscription.plan_changed",
  "allowance.debited",
  "refund.settled",
];
const OTHER_TYPES = ["payment.failed", "subscription.renewal_failed", "subscription.cancelled", "plan.created"];
const INTERVALS_SEC = [HOUR_SEC, 30 * DAY_SEC, 30 * DAY_SEC];

interface Happening {
  readonly type: string;
  readonly provider: number | undefined;
  readonly payer: number;
  readonly amount: bigint;
  readonly reason?: string | undefined;
}

/** A block is its events, reverted later or not; the reports of gates meanwhile; and whether rollups are compacted then. */
const blocks = fc.array(
  fc.record({
    laterSec: fc.integer({ min: 1, max: 12 * DAY_SEC }),
    takenBack: fc.boolean(),
    /** its own block comes back after it was reverted */
    isRestored: fc.boolean(),
    isTidied: fc.boolean(),
    gasUsed: fc.bigInt({ min: 21_000n, max: 9_000_000n }),
    success: fc.boolean(),
    reports: fc.array(
      fc.record({
        provider: fc.integer({ min: 1, max: 3 }),
        resource: fc.constantFrom("/a", "/b"),
        step: fc.constantFrom("asked" as const, "paid" as const, "served" as const),
        count: fc.integer({ min: 1, max: 1_000 }),
        amount: fc.bigInt({ min: 0n, max: 10n ** 20n }),
      }),
      { maxLength: 3 },
    ),
    happenings: fc.array(
      fc.record<Happening>({
        type: fc.constantFrom(...MONEY_TYPES, ...OTHER_TYPES),
        provider: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined, freq: 8 }),
        payer: fc.integer({ min: 1, max: 4 }),
        amount: fc.bigInt({ min: 0n, max: 10n ** 30n }),
        reason: fc.constantFrom("InsufficientFunds", "InsufficientAllowance", "x".repeat(80), undefined),
      }),
      { maxLength: 6 },
    ),
  }),
  { minLength: 1, maxLength: 8 },
);

interface Place {
  readonly block: string;
  readonly atSec: number;
  readonly number?: number;
  readonly transaction?: string;
}

const providerOf = (number: number) => `0x${String(number).padStart(40, "0")}` as Address;

function draftsOf(happenings: readonly Happening[], place: Place): EventDraft[] {
  return happenings.map(({ type, provider, payer, amount, reason }, index) => ({
    id: `${place.block}/${index}`,
    chainId: CHAIN_ID,
    type,
    objectId: `object ${payer}`,
    provider: provider === undefined ? undefined : providerOf(provider),
    payer: `0x${String(payer).padStart(40, "b")}`,
    payload: { token: TOKEN, planId: `plan ${provider}`, amount: String(amount), charged: String(amount), reason },
    blockTime: place.atSec,
    blockHash: place.block,
    logIndex: index,
    ...(place.number !== undefined && { blockNumber: place.number }),
    transaction: place.transaction,
  }));
}

describe("sums of events", () => {
  const payment = (amount: string): EventDraft => ({
    id: "0x1",
    chainId: CHAIN_ID,
    type: "payment.settled",
    objectId: "0x2",
    provider: PROVIDER,
    payer: "0xpayer",
    payload: { token: TOKEN, amount },
    blockTime: START_SEC + 3 * HOUR_SEC + 1,
  });

  it("count a payment for its payee and for everyone, by hour and by day", async () => {
    const store = await freshStore();
    try {
      await store.transaction((tx) => feed.append(tx, [payment("500000"), { ...payment("1"), id: "0x3" }]));
      await finalise(store, 1);
      const sums = store.db.selectFrom("rollup_totals").select(["provider", "grain", "count", "amount"]);
      const volume = await sums.where("token", "=", TOKEN).execute();
      expect(volume.map(({ provider, grain, count, amount }) => [provider, grain, count, amount])).to.have.deep.members(
        [
          ["", HOUR_SEC, 2, "500001"],
          ["", DAY_SEC, 2, "500001"],
          [PROVIDER, HOUR_SEC, 2, "500001"],
          [PROVIDER, DAY_SEC, 2, "500001"],
        ],
      );
      expect(await store.db.selectFrom("rollup_plans").selectAll().execute()).to.deep.equal([]);
    } finally {
      await store.close();
    }
    const { payers } = sumsOf([payment("500000"), payment("1")]);
    expect(payers).to.deep.equal([
      { provider: PROVIDER, token: TOKEN, payer: "0xpayer", kind: "paid", count: 2, amount: 500_001n },
    ]);
  });

  it("begin a day at midnight UTC and an hour at its first second", () => {
    expect(bucketOf(START_SEC - (START_SEC % DAY_SEC) + DAY_SEC - 1, DAY_SEC)).to.equal(
      START_SEC - (START_SEC % DAY_SEC),
    );
    expect(bucketOf(7_200, HOUR_SEC)).to.equal(7_200);
    expect(bucketOf(7_199, HOUR_SEC)).to.equal(3_600);
  });
});

describe("rollups", function () {
  this.timeout(120_000);
  let store: Store;

  before(async () => {
    store = await freshStore();
    for (const [index, intervalSec] of INTERVALS_SEC.entries()) await addPlan(index + 1, intervalSec);
  });
  after(async () => {
    await store.close();
  });

  async function addPlan(provider: number, intervalSec: number): Promise<void> {
    await store.db
      .insertInto("plans")
      .values({
        chain_id: CHAIN_ID,
        plan_id: `plan ${provider}`,
        plan_index: provider,
        token: TOKEN,
        amount: "5",
        provider: `0x${String(provider).padStart(40, "0")}`,
        interval_sec: intervalSec,
        grace_sec: 60,
        pay_to: PROVIDER,
        salt: "0x",
        metadata: "",
        deprecated: false,
        successor: null,
        block_number: 1,
        created_at: START_SEC,
      })
      .execute();
  }

  const PRUNED = ["pruned_totals", "pruned_payers", "pruned_plans"] as const;

  const CLEARED = [
    ...EVENT_SUMS,
    ...PRUNED,
    "rollup_costs",
    "rollup_funnel",
    "gate_reports",
    "gate_resources",
  ] as const;

  async function clear(): Promise<void> {
    for (const table of ["events", "transactions", "cursors", ...CLEARED] as const)
      await store.db.deleteFrom(table).execute();
  }

  /** A transaction of this service in a block that stays. */
  async function mine(place: Required<Place>, gas: { gasUsed: bigint; success: boolean }): Promise<void> {
    const [id, purpose] = [place.transaction, place.number % 2 ? "settle" : "renew"] as const;
    const sent = { id, chainId: CHAIN_ID, idempotencyKey: id, to: TOKEN as Address, data: "0x" as const };
    await enqueueTransaction(store.db, { ...sent, purpose, gasLimit: 1n });
    const stored = { status: "stored" as const, stored_at_ms: place.atSec * 1_000 };
    await store.db.updateTable("transactions").set(stored).where("id", "=", id).execute();
    const block = { hash: place.transaction, blockNumber: place.number, blockHash: place.block };
    await recordMined(store.db, id, { ...block, ...gas, gasPriceWei: 3n });
  }

  /** Compares the figures of a provider's plans and payers with the events, added up one by one. */
  async function expectNet(provider: Address, valid: readonly EventDraft[]): Promise<void> {
    const own = valid.filter((draft) => draft.provider === provider && MONEY_TYPES.includes(draft.type));
    const moved = own.filter(({ payload }) => payload.amount !== "0");
    const net = (drafts: readonly EventDraft[]) => {
      const sum = (isRefund: boolean) => {
        const some = drafts.filter(({ type }) => (type === "refund.settled") === isRefund);
        return { count: some.length, amount: some.reduce((all, { payload }) => all + BigInt(`${payload.amount}`), 0n) };
      };
      return { ...sum(false), refunds: sum(true) };
    };
    const scope = { chainId: CHAIN_ID, provider, token: TOKEN as Address };
    const range = { fromSec: 0, toSec: 4_000_000_000 - (4_000_000_000 % DAY_SEC) };
    const plans = await planFigures(store.db, scope, range, { nowSec: 0, limit: 9 });
    expect(plans.map(({ count, amount, refunds }) => ({ count, amount, refunds }))).to.deep.equal([net(moved)]);
    const payers = (await payersOf(store.db, scope, { limit: 9 })).map(({ figure, ...row }) => row);
    const names = [...new Set(moved.map(({ payer }) => payer))].sort();
    const of = (payer?: string) => moved.filter((draft) => draft.payer === payer);
    expect(payers).to.deep.equal(names.map((payer) => ({ payer, provider, ...net(of(payer)) })));
  }

  /** Deletes what retention deletes, once it is in the sums of deleted events. */
  async function deleteSettled(): Promise<void> {
    await store.transaction(async (tx) => {
      const deleted = await tx
        .deleteFrom("events")
        .where("type", "in", ["payment.settled", "refund.settled"])
        .where("reverted", "=", false)
        .where("provider", "is not", null)
        .returningAll()
        .execute();
      await keepEventSums(tx, CHAIN_ID, deleted);
    });
  }

  it("T52 equal what events, transactions and gates say, whatever blocks are reverted and whenever rollups are compacted", async () => {
    const tokens = [{ address: TOKEN, name: "Test", version: "1", decimals: 6 }];
    const clock = { nowSec: () => atSec };
    let atSec = START_SEC;
    await fc.assert(
      fc.asyncProperty(blocks, async (history) => {
        await clear();
        atSec = START_SEC;
        const valid: EventDraft[] = [];
        for (const [index, block] of history.entries()) {
          const { laterSec, happenings, takenBack, isRestored, isTidied, reports, ...gas } = block;
          atSec += laterSec;
          const place = { block: `block ${index}`, atSec, number: index + 1, transaction: `0x${index}` };
          const drafts = draftsOf(happenings, place);
          await store.transaction((tx) => feed.append(tx, drafts));
          if (takenBack) await store.transaction((tx) => feed.revertBlock(tx, { ...place, hash: place.block }));
          else await mine(place, gas);
          if (takenBack && isRestored) await store.transaction((tx) => feed.append(tx, drafts));
          if (!takenBack || isRestored) valid.push(...drafts);
          await finalise(store, index);
          for (const [number, { provider, ...entry }] of reports.entries()) {
            const id = `${index}${number}`.padStart(32, "0");
            const counted = { ...entry, hour: bucketOf(atSec, HOUR_SEC), token: TOKEN as Address };
            await createReports({ store, config: { chainId: CHAIN_ID, tokens } as never, clock }).take(
              providerOf(provider),
              {
                id,
                entries: [counted],
              },
            );
          }
          if (isTidied) await compactRollups({ store, feed, chainId: CHAIN_ID }, atSec);
        }
        await finalise(store, history.length);
        expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
        const expectAllNet = async () => {
          for (const provider of INTERVALS_SEC.keys()) await expectNet(providerOf(provider + 1), valid);
        };
        await expectAllNet();
        for (const table of ["rollup_costs", "rollup_funnel"] as const) {
          const isThere = (await store.db.selectFrom(table).selectAll().limit(1).execute()).length > 0;
          const isCounted = history.some(({ takenBack, reports }) =>
            table === "rollup_costs" ? !takenBack : reports.length > 0,
          );
          expect(isThere, table).to.equal(isCounted);
        }
        await deleteSettled();
        await expectAllNet();
        await store.transaction((tx) => recountSums(tx, CHAIN_ID));
        await expectAllNet();
        const wrong = await findWrongSums(store.db, CHAIN_ID, 0);
        // Retention keeps an event as long as the transaction whose costs it divides.
        expect(wrong.filter(({ table }) => table !== "rollup_costs")).to.deep.equal([]);
      }),
      { numRuns: 12 },
    );
  });

  it("do not count an event that is appended twice, nor take one back twice", async () => {
    await clear();
    const drafts = draftsOf([{ type: "payment.settled", provider: 1, payer: 1, amount: 5n }], {
      block: "b",
      number: 1,
      atSec: START_SEC,
    });
    for (let time = 0; time < 2; time++) await store.transaction((tx) => feed.append(tx, drafts));
    const sum = () => store.db.selectFrom("rollup_payers").select(["count", "amount"]).executeTakeFirst();
    expect(await sum()).to.deep.equal({ count: 1, amount: "5" });
    for (let time = 0; time < 2; time++)
      await store.transaction((tx) => feed.revertBlock(tx, { number: 1, hash: "b" }));
    expect(await sum()).to.deep.equal({ count: 0, amount: "0" });
  });

  it("are found to be wrong when they are: too much, too little, missing", async () => {
    await clear();
    const happenings = [1, 2, 3].map((payer) => ({ type: "subscription.renewed", provider: 1, payer, amount: 7n }));
    await store.transaction((tx) => feed.append(tx, draftsOf(happenings, { block: "b", atSec: START_SEC })));
    const { db } = store;
    await db.updateTable("rollup_payers").set({ amount: "8" }).where("payer", "like", "%1").execute();
    await db.deleteFrom("rollup_plans").execute();
    await db
      .updateTable("rollup_totals")
      .set({ count: 9 })
      .where("provider", "!=", "")
      .where("interval_sec", ">", 0)
      .execute();
    const wrong = await findWrongSums(db, CHAIN_ID, 0);
    expect(wrong.map(({ table, stored, counted }) => ({ table, stored, counted }))).to.deep.equal([
      { table: "rollup_payers", stored: "1 8 0 0", counted: "1 7 0 0" },
      { table: "rollup_plans", stored: null, counted: "3 21" },
      { table: "rollup_totals", stored: "9 21", counted: "3 21" },
    ]);
  });
});
