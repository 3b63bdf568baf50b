import { expect } from "chai";
import type { Address } from "turnpike/protocol";
import { createAnalytics } from "../../../facilitator/src/analytics";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import type { Store } from "../../../facilitator/src/db/open";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const feed = createEventFeed(CHAIN_ID);
const BLOCK = 1;
const DAY_SEC = 86_400;
const MONTH_SEC = 30 * DAY_SEC;
const TOKEN = "0x00000000000000000000000000000000000000C0" as Address;
const EURO = "0x00000000000000000000000000000000000000E0" as Address;
const PROVIDER = "0x0000000000000000000000000000000000000001" as Address;
const OTHER = "0x0000000000000000000000000000000000000002" as Address;
/** midnight UTC */
const TODAY_SEC = 20_833 * DAY_SEC;
const NOW_SEC = TODAY_SEC + 7_200;
/** when each of these fell due */
const DUE = TODAY_SEC - 3 * DAY_SEC;
const WEEK = { fromSec: undefined, toSec: undefined, days: 7 };
const NONE = { count: 0, amount: "0" };

describe("Facilitator: what renewals failed to collect", function () {
  this.timeout(120_000);
  let store: Store;
  let eventCount = 0;
  const config = {
    chainId: CHAIN_ID,
    tokens: [TOKEN, EURO].map((address) => ({ address, name: "Test", version: "1", decimals: 6 })),
  } as never;
  const failed = (provider = PROVIDER, query: object = {}) =>
    createAnalytics({ db: store.db, config, clock: { nowSec: () => NOW_SEC } }).failedRenewals(provider, {
      ...WEEK,
      ...query,
    });

  before(async () => {
    store = await freshStore();
  });
  beforeEach(async () => {
    for (const table of ["events", "subscriptions", "failed_periods"] as const)
      await store.db.deleteFrom(table).execute();
  });
  after(() => store.close());

  /** Stores a subscription's current record. */
  const storeRecord = (name: string, how: object = {}) =>
    store.db
      .insertInto("subscriptions")
      .values({
        chain_id: CHAIN_ID,
        id_hash: name,
        subscriber: OTHER,
        plan_id: "plan",
        paid_through: DUE,
        version: 0,
        paused: false,
        ending: false,
        cancelled: false,
        moved_to: null,
        block_number: 1,
        created_at: 1,
        transaction: "0x",
        ...how,
      })
      .execute();
  const emit = (name: string, type: string, more: object = {}, { at = DUE, provider = PROVIDER } = {}) =>
    store.transaction((tx) =>
      feed.append(tx, [
        {
          id: `event ${eventCount++}`,
          chainId: CHAIN_ID,
          type: `subscription.${type}`,
          objectId: name,
          provider,
          payer: OTHER,
          blockTime: at,
          blockNumber: BLOCK,
          blockHash: `block of ${name}`,
          payload: { token: TOKEN, planId: "plan", price: "900", paidThrough: DUE, ...more },
        },
      ]),
    );
  const fails = async (name: string, reason: string, attempts = 3, more: object = {}): Promise<void> => {
    for (let attempt = 1; attempt <= attempts; attempt++)
      await emit(name, "renewal_failed", { reason, attempt, ...more }, { at: DUE + attempt * 3_600 });
  };

  it("counts a period once with its price, however often it was tried: lost, still tried, or recovered", async () => {
    await storeRecord("expired");
    await fails("expired", "InsufficientFunds");
    await emit("expired", "past_due");
    await emit("expired", "expired", {}, { at: DUE + 2 * DAY_SEC });
    await storeRecord("cancelled", { cancelled: true });
    await fails("cancelled", "InsufficientAllowance", 1, { price: "50" });
    await storeRecord("tried on");
    await fails("tried on", "InsufficientFunds", 5);
    await storeRecord("renewed late", { paid_through: DUE + MONTH_SEC });
    await fails("renewed late", "InsufficientFunds", 2);
    await emit("renewed late", "renewed", { charged: "900", paidThrough: DUE + MONTH_SEC });
    const one = { count: 1, amount: "900" };
    expect(await failed()).to.deep.include({
      lost: { count: 2, amount: "950" },
      open: one,
      recovered: one,
      causes: [
        { cause: "InsufficientFunds", lost: one, open: one, recovered: one },
        { cause: "InsufficientAllowance", lost: { count: 1, amount: "50" }, open: NONE, recovered: NONE },
      ],
    });
  });

  it("keeps what expired lost when the subscriber comes back later", async () => {
    await storeRecord("came back", { paid_through: NOW_SEC + MONTH_SEC });
    await fails("came back", "InsufficientFunds");
    await emit("came back", "expired", {}, { at: DUE + DAY_SEC });
    expect((await failed()).lost).to.deep.equal({ count: 1, amount: "900" });
  });

  it("says so of what expired without having been tried", async () => {
    await storeRecord("forgotten");
    await emit("forgotten", "expired");
    expect((await failed()).causes.map(({ cause }) => cause)).to.deep.equal(["NotTried"]);
  });

  it("counts on the day of the first failure, and in no other range", async () => {
    await storeRecord("long ago");
    await fails("long ago", "InsufficientFunds");
    await emit("long ago", "expired", {}, { at: NOW_SEC });
    expect((await failed(PROVIDER, { days: 1 })).lost).to.deep.equal(NONE);
    expect((await failed(PROVIDER, { fromSec: DUE, toSec: DUE + DAY_SEC })).lost.count).to.equal(1);
  });

  it("counts a rekeyed record once: the new id has the same events", async () => {
    await storeRecord("old name", { cancelled: true, moved_to: "new name" });
    await fails("old name", "InsufficientFunds");
    await storeRecord("new name");
    await fails("new name", "InsufficientFunds");
    expect(await failed()).to.deep.include({ lost: NONE, open: { count: 1, amount: "900" } });
  });

  it("leaves out other tokens, other providers, and what a reorganisation took back", async () => {
    for (const name of ["euro", "another's", "undone"]) await storeRecord(name);
    await fails("euro", "InsufficientFunds", 1, { token: EURO });
    await emit("another's", "expired", {}, { provider: OTHER });
    await fails("undone", "InsufficientFunds", 1);
    await store.transaction((tx) => feed.revertBlock(tx, { number: BLOCK, hash: "block of undone" }));
    expect(await failed()).to.deep.include({ lost: NONE, open: NONE, recovered: NONE, causes: [] });
    expect((await failed(PROVIDER, { token: EURO })).open.count).to.equal(1);
    expect((await failed(OTHER)).lost.count).to.equal(1);
  });
});
