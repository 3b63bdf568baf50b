import { expect } from "chai";
import type { Store } from "../../../facilitator/src/db/open";
import type { EventDraft } from "../../../facilitator/src/events/event";
import { EventFeed } from "../../../facilitator/src/events/feed";
import type { EventProjection } from "../../../facilitator/src/events/projection";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const BLOCK = { number: 7, hash: "block" };

const draftOf = (id: string): EventDraft => ({
  id,
  chainId: CHAIN_ID,
  type: "plan.created",
  objectId: "plan",
  payload: {},
  blockTime: 1,
  blockNumber: BLOCK.number,
  blockHash: BLOCK.hash,
  logIndex: 0,
});

describe("EventFeed", function () {
  this.timeout(60_000);
  let store: Store;
  let calls: string[];

  before(async () => {
    store = await freshStore();
  });
  beforeEach(async () => {
    calls = [];
    await store.db.deleteFrom("events").execute();
  });
  after(async () => {
    await store.close();
  });

  const recording = (name: string, more: readonly EventDraft[] = []): EventProjection => ({
    async appended(_tx, _chainId, events) {
      calls.push(`${name} appended ${events.map(({ id }) => id).join()}`);
    },
    async reverted(_tx, _chainId, events) {
      calls.push(`${name} reverted ${events.length}`);
    },
    async revived(_tx, _chainId, events) {
      calls.push(`${name} revived ${events.map(({ id }) => id).join()}`);
      return more;
    },
  });
  const append = (feed: EventFeed, ...ids: string[]) => store.transaction((tx) => feed.append(tx, ids.map(draftOf)));
  const revert = (feed: EventFeed) => store.transaction((tx) => feed.revertBlock(tx, BLOCK));
  const published = () => store.db.selectFrom("events").select(["id", "reverted"]).orderBy("seq").execute();

  it("calls the projections in their order, with new events alone", async () => {
    const feed = new EventFeed(CHAIN_ID, [recording("first"), recording("second")]);
    expect(await append(feed, "a", "b", "a")).to.equal(2);
    expect(await append(feed, "b", "c")).to.equal(1);
    expect(calls).to.deep.equal(["first appended a,b", "second appended a,b", "first appended c", "second appended c"]);
  });

  it("calls no projection where nothing changes", async () => {
    const feed = new EventFeed(CHAIN_ID, [recording("only")]);
    await append(feed, "a");
    await revert(feed);
    calls = [];
    await revert(feed);
    expect(await append(feed)).to.equal(0);
    expect(calls).to.deep.equal([]);
  });

  it("publishes what a projection returns for events that are valid again", async () => {
    const feed = new EventFeed(CHAIN_ID, [recording("first"), recording("second", [draftOf("restored")])]);
    await append(feed, "a");
    await revert(feed);
    calls = [];
    expect(await append(feed, "a")).to.equal(1);
    expect(calls).to.deep.equal([
      ...["first revived a", "second revived a"],
      ...["first appended restored", "second appended restored"],
    ]);
    expect(await published()).to.deep.equal([
      { id: "a", reverted: false },
      { id: "restored", reverted: false },
    ]);
  });

  it("publishes staged events before any other", async () => {
    const feed = new EventFeed(CHAIN_ID, [recording("only")]);
    await store.transaction((tx) => feed.stage(tx, [draftOf("staged")]));
    await append(feed, "next");
    expect(calls).to.deep.equal(["only appended staged", "only appended next"]);
  });

  it("publishes nothing when a projection fails", async () => {
    const failing: EventProjection = { appended: () => Promise.reject(new Error("full")) };
    const feed = new EventFeed(CHAIN_ID, [failing]);
    const failed = await append(feed, "a").catch((error: Error) => error.message);
    expect(failed).to.equal("full");
    expect(await published()).to.deep.equal([]);
  });
});
