import { expect } from "chai";
import { nextBoundarySec } from "turnpike/protocol";
import { dumpText } from "../../../facilitator/src/cli/maintenance/dump";
import type { Store } from "../../../facilitator/src/db/open";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const DAY_SEC = 86_400;

describe("Facilitator: the dump of the work list", function () {
  this.timeout(60_000);
  let store: Store;

  before(async () => {
    store = await freshStore();
  });
  after(async () => {
    await store.close();
  });

  interface Due {
    readonly months: number;
    readonly anchorDay: number;
    readonly paidThroughSec: number;
    readonly untilSec: number;
  }
  /** Whether a renewal is in the dump when the newest block is of this time. */
  async function isDumped({ months, anchorDay, paidThroughSec, untilSec }: Due, nowSec: number): Promise<boolean> {
    const { db } = store;
    for (const table of ["plans", "subscriptions", "renewal_due", "blocks"] as const) {
      await db.deleteFrom(table).execute();
    }
    const chain = { chain_id: CHAIN_ID };
    const terms = { provider: "0x1", token: "0x2", amount: "5", pay_to: "0x1", salt: "0x", metadata: "{}" };
    const plan = { ...chain, ...terms, plan_id: "plan", plan_index: 1, interval_sec: DAY_SEC, months, grace_sec: 0 };
    const created = { block_number: 1, created_at: 1 };
    await db
      .insertInto("plans")
      .values({ ...plan, ...created, deprecated: false, successor: null })
      .execute();
    const flags = { paused: false, ending: false, cancelled: false, version: 0, moved_to: null, transaction: "0x" };
    const paid = { paid_through: paidThroughSec, anchor_day: anchorDay, until: untilSec };
    const record = { ...chain, ...flags, ...paid, ...created, id_hash: "one", subscriber: "0x3", plan_id: "plan" };
    await db.insertInto("subscriptions").values(record).execute();
    const due = {
      due_at: paidThroughSec,
      paid_through: paidThroughSec,
      attempts: 0,
      lease_owner: null,
      lease_until: 0,
    };
    await db
      .insertInto("renewal_due")
      .values({ ...chain, ...due, id_hash: "one" })
      .execute();
    const block = { number: 1, hash: "0x1", parent_hash: "0x0", timestamp: nowSec };
    await db
      .insertInto("blocks")
      .values({ ...chain, ...block })
      .execute();
    return (await dumpText(db, CHAIN_ID)).includes("renewal_due");
  }
  const at = (text: string) => Date.parse(`${text}Z`) / 1_000;

  for (const [months, anchorDay, paidThrough] of [
    [0, 0, "2027-01-31T12:34:56"],
    [1, 31, "2027-01-31T12:34:56"],
    [1, 31, "2028-01-31T23:59:59"],
    [1, 31, "2027-02-28T00:00:00"],
    [12, 29, "2028-02-29T06:00:00"],
    [5, 30, "2027-09-30T01:02:03"],
  ] as const) {
    it(`has a period of ${months} months that ends at ${paidThrough} until the next one's end`, async () => {
      const paidThroughSec = at(paidThrough);
      const due = { months, anchorDay, paidThroughSec, untilSec: 0 };
      const boundary = nextBoundarySec({ ...due, intervalSec: DAY_SEC });
      expect([await isDumped(due, boundary - 1), await isDumped(due, boundary)]).to.deep.equal([true, false]);
    });
  }

  it("leaves out what has reached its end", async () => {
    const paidThroughSec = at("2027-01-31T12:34:56");
    const due = { months: 0, anchorDay: 0, paidThroughSec };
    const bounded = (untilSec: number, nowSec: number) => isDumped({ ...due, untilSec }, nowSec);
    expect(await bounded(paidThroughSec - 5, paidThroughSec - 1)).to.equal(true);
    expect(await bounded(paidThroughSec - 5, paidThroughSec)).to.equal(false);
    expect(await bounded(paidThroughSec + 5, paidThroughSec + 4)).to.equal(true);
    expect(await bounded(paidThroughSec + 5, paidThroughSec + 5)).to.equal(false);
  });
});
