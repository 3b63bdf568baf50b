import { expect } from "chai";
import fc from "fast-check";
import { sql } from "kysely";
import { EVENT_SUMS } from "../../../facilitator/src/analytics/event-sums";
import { recountFailedPeriods } from "../../../facilitator/src/analytics/failed-periods";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import { createEventFeed, RECORD_PROJECTIONS } from "../../../facilitator/src/app/projections";
import { MIGRATIONS } from "../../../facilitator/src/db/migrations";
import type { Store } from "../../../facilitator/src/db/open";
import type { FailedPeriodsTable } from "../../../facilitator/src/db/tables/analytics";
import type { EventRow } from "../../../facilitator/src/db/tables/events";
import type { EventDraft } from "../../../facilitator/src/events/event";
import { emptyState, revertState, saveState } from "../../../facilitator/src/subscriptions/block-rows";
import { type SubscriptionRow, subscriptionsOf } from "../../../facilitator/src/subscriptions/rows";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const feed = createEventFeed(CHAIN_ID);
const TOKENS = ["0x00000000000000000000000000000000000000c0", "0x00000000000000000000000000000000000000e0"];
const START_SEC = 1_800_000_000;
const SUBSCRIPTIONS = ["sub0", "sub1", "sub2", "sub3"];
const FAILED = "subscription.renewal_failed";
const EXPIRED = "subscription.expired";
const ROWS = ["events", "subscriptions", "undo", "renewal_due", "failed_periods"] as const;

type Standing = Pick<SubscriptionRow, "paid_through" | "paused" | "cancelled" | "moved_to">;

interface Happening {
  readonly subscription: string;
  readonly type: string;
  /** of which period */
  readonly period: number;
  readonly attempt: number;
  readonly reason: string | undefined;
  readonly token: string;
  readonly provider: string | undefined;
  readonly price: string | undefined;
}

const rarely = fc.integer({ min: 0, max: 5 }).map((number) => number === 0);
const seldom = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 9 });
const subscription = fc.constantFrom(...SUBSCRIPTIONS);
const period = fc.integer({ min: 1, max: 3 });
const happenings = fc.array(
  fc.record<Happening>({
    subscription,
    period,
    type: fc.constantFrom(FAILED, FAILED, EXPIRED, "subscription.renewed"),
    attempt: fc.integer({ min: 1, max: 3 }),
    reason: fc.constantFrom("InsufficientFunds", "PlanDeprecated", "x".repeat(80), undefined),
    token: fc.constantFrom(...TOKENS),
    provider: seldom(fc.constantFrom("0xa", "0xb")),
    price: seldom(fc.constant("900")),
  }),
  { maxLength: 4 },
);
/** A block changes records and emits events; the clock emits between blocks; a block may be reverted, and restored unchanged. */
const blocks = fc.array(
  fc.record({
    fate: fc.constantFrom("stays", "stays", "goes", "returns"),
    emitted: happenings,
    byTheClock: happenings,
    changes: fc.uniqueArray(
      fc.tuple(
        subscription,
        fc.option(
          fc.record<Standing>({
            paid_through: period,
            paused: rarely,
            cancelled: rarely,
            moved_to: rarely.map((isMoved) => (isMoved ? "sub9" : null)),
          }),
          { nil: undefined, freq: 6 },
        ),
      ),
      { maxLength: 4, selector: ([name]) => name },
    ),
  }),
  { minLength: 1, maxLength: 8 },
);

type History = typeof blocks extends fc.Arbitrary<infer Drawn> ? Drawn : never;

/** What chance may leave out: a failure of each subscription, of which then every outcome comes. */
const EVERY_OUTCOME: History = [
  {
    fate: "stays",
    emitted: SUBSCRIPTIONS.map((name) => ({
      subscription: name,
      type: FAILED,
      period: 1,
      attempt: 1,
      reason: "InsufficientFunds",
      token: TOKENS[0] ?? "",
      provider: "0xa",
      price: "900",
    })),
    byTheClock: [],
    changes: [],
  },
  {
    fate: "stays",
    emitted: [],
    byTheClock: [],
    changes: [
      ["sub0", { paid_through: 1, paused: false, cancelled: false, moved_to: "sub9" }],
      ["sub1", { paid_through: 1, paused: false, cancelled: false, moved_to: null }],
      ["sub2", { paid_through: 1, paused: false, cancelled: true, moved_to: null }],
      ["sub3", { paid_through: 2, paused: false, cancelled: false, moved_to: null }],
    ],
  },
];

describe("Facilitator: periods that were not charged at once", function () {
  this.timeout(120_000);
  let store: Store;

  before(async () => {
    store = await freshStore();
  });
  after(async () => {
    await store.close();
  });
  const clear = async () => {
    for (const table of [...ROWS, ...EVENT_SUMS]) await store.db.deleteFrom(table).execute();
  };

  const draftsOf = (all: readonly Happening[], place: string, at: number): EventDraft[] =>
    all.map(({ subscription, type, period, provider, ...payload }, index) => ({
      id: `${place}/${index}`,
      chainId: CHAIN_ID,
      type,
      objectId: subscription,
      provider,
      payer: "0x5",
      payload: { ...payload, planId: "plan", paidThrough: period },
      blockTime: START_SEC + at * 10 + index,
      ...(place.startsWith("block") && {
        blockNumber: Number(place.slice("block ".length)),
        blockHash: place,
        logIndex: index,
      }),
    }));
  const emit = (drafts: readonly EventDraft[]) => store.transaction((tx) => feed.append(tx, drafts));

  /** As the indexer writes a block. */
  const write = (
    number: number,
    changes: readonly (readonly [string, Standing | undefined])[],
    emitted: EventDraft[],
  ) =>
    store.transaction(async (tx) => {
      const state = emptyState();
      const names = changes.map(([name]) => name);
      for (const row of await subscriptionsOf(tx, CHAIN_ID, names)) state.subscriptions.load(row.id_hash, row);
      for (const [name, now] of changes) {
        if (!now) state.subscriptions.delete(name);
        else
          state.subscriptions.put(name, {
            chain_id: CHAIN_ID,
            id_hash: name,
            subscriber: "0x5",
            plan_id: "plan",
            version: 0,
            ending: false,
            intro: false,
            anchor_day: 0,
            until: 0,
            next_plan_id: null,
            block_number: number,
            created_at: START_SEC,
            transaction: "0x",
            ...now,
          });
      }
      await saveState(tx, { chainId: CHAIN_ID, blockNumber: number }, state, RECORD_PROJECTIONS);
      await feed.append(tx, emitted);
    });
  /** As a reorganisation takes it back. */
  const takeBack = (number: number) =>
    store.transaction(async (tx) => {
      await feed.revertBlock(tx, { number, hash: `block ${number}` });
      await revertState(tx, { chainId: CHAIN_ID, blockNumber: number }, RECORD_PROJECTIONS);
    });

  const rows = (): Promise<FailedPeriodsTable[]> =>
    store.db.selectFrom("failed_periods").selectAll().orderBy("id_hash").orderBy("paid_through").execute();

  /** By reading every event and every record, one after the other. */
  async function expected(): Promise<FailedPeriodsTable[]> {
    const events = await store.db
      .selectFrom("events")
      .selectAll()
      .where("reverted", "=", false)
      .orderBy("seq")
      .execute();
    const records = await subscriptionsOf(store.db, CHAIN_ID, SUBSCRIPTIONS);
    const found: FailedPeriodsTable[] = [];
    for (const name of SUBSCRIPTIONS) {
      for (const paidThrough of [1, 2, 3]) {
        const own = events.filter((event) => event.object_id === name && event.payload.paidThrough === paidThrough);
        const ended = own.find(({ type }) => type === EXPIRED);
        const first = own.find(({ type }) => type === FAILED) ?? ended;
        if (!first?.provider || first.payload.price === undefined) continue;
        const record = records.find((row) => row.id_hash === name);
        found.push({
          chain_id: CHAIN_ID,
          id_hash: name,
          paid_through: paidThrough,
          ...fromFirst(first, first.provider),
          outcome: record ? outcomeOf(record, paidThrough, ended !== undefined) : "gone",
        });
      }
    }
    return found;
  }
  const fromFirst = ({ payload, block_time }: EventRow, provider: string) => ({
    provider,
    token: String(payload.token),
    failed_at: block_time,
    price: String(payload.price),
    cause: payload.reason === undefined ? "NotTried" : String(payload.reason).slice(0, 64),
  });
  function outcomeOf(record: Standing, paidThrough: number, isOver: boolean): FailedPeriodsTable["outcome"] {
    if (isOver) return "lost";
    if (record.paid_through !== paidThrough) return "recovered";
    if (record.moved_to !== null) return "moved";
    return record.cancelled || record.paused ? "lost" : "open";
  }

  it("equal the events and the records after any appends, changes, reverts and restores", async () => {
    const outcomes = new Set<string>();
    await fc.assert(
      fc.asyncProperty(blocks, async (history) => {
        await clear();
        for (const [number, { changes, emitted, byTheClock, fate }] of history.entries()) {
          const drafts = draftsOf(emitted, `block ${number}`, number * 2);
          await write(number, changes, drafts);
          if (fate !== "stays") await takeBack(number);
          await emit(draftsOf(byTheClock, `clock ${number}`, number * 2 + 1));
          if (fate === "returns") await write(number, changes, drafts);
          const should = await expected();
          expect(await rows()).to.deep.equal(should);
          for (const { outcome } of should) outcomes.add(outcome);
        }
        expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
        const kept = await rows();
        await store.transaction((tx) => recountFailedPeriods(tx, CHAIN_ID));
        expect(await rows()).to.deep.equal(kept);
        // A database of the release before gets the same.
        await store.db.deleteFrom("failed_periods").execute();
        const fill = MIGRATIONS.find(({ id }) => id === "406-failed-periods")?.statements.at(-1) ?? "";
        await sql.raw(fill).execute(store.db);
        expect(await rows()).to.deep.equal(kept);
      }),
      { numRuns: 25, examples: [[EVERY_OUTCOME]] },
    );
    expect([...outcomes].sort()).to.deep.equal(["gone", "lost", "moved", "open", "recovered"]);
  });

  it("are found to be wrong when they are", async () => {
    await clear();
    const failure = { type: FAILED, attempt: 1, token: "0xc0", provider: "0xa", price: "900", period: 1 };
    await write(1, [["sub1", { paid_through: 1, paused: false, cancelled: false, moved_to: null }]], []);
    await emit(draftsOf([{ ...failure, subscription: "sub1", reason: "Why" }], "clock 1", 0));
    await store.db.updateTable("failed_periods").set({ outcome: "lost" }).execute();
    expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([
      {
        table: "failed_periods",
        key: "sub1 1",
        stored: `0xa 0xc0 ${START_SEC} Why 900 lost`,
        counted: `0xa 0xc0 ${START_SEC} Why 900 open`,
      },
    ]);
  });
});
