import { expect } from "chai";
import fc from "fast-check";
import { endingsIn } from "../../../facilitator/src/analytics/endings";
import { EVENT_SUMS, recountSums } from "../../../facilitator/src/analytics/event-sums";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import type { Store } from "../../../facilitator/src/db/open";
import type { EventDraft } from "../../../facilitator/src/events/event";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const TOKEN = "0x00000000000000000000000000000000000000c0";
const OTHER_TOKEN = "0x00000000000000000000000000000000000000e0";
const DAY_SEC = 86_400;
const START_SEC = 20_000 * DAY_SEC;
const DAYS = 6;
const feed = createEventFeed(CHAIN_ID);

const isBegin = ({ type }: EventDraft): boolean => /created|resumed/.test(type);

const happening = fc.record({
  type: fc.constantFrom("created", "resumed", "cancelled", "expired", "renewed").map((what) => `subscription.${what}`),
  record: fc.integer({ min: 0, max: 3 }),
});

/** Several blocks may have the time of one second. A block may be reverted, and valid again. */
const blocks = fc.array(
  fc.record({
    happenings: fc.array(happening, { maxLength: 4 }),
    laterSec: fc.constantFrom(0, 1, DAY_SEC / 2, DAY_SEC),
    fate: fc.constantFrom("stays", "stays", "goes", "returns"),
  }),
  { minLength: 1, maxLength: 8 },
);

describe("ends of subscriptions", function () {
  this.timeout(120_000);
  let store: Store;
  before(async () => {
    store = await freshStore();
  });
  after(() => store.close());

  /** What a reader of all events counts. */
  function counted(valid: readonly EventDraft[], provider: string | undefined, fromSec: number, toSec: number) {
    const own = valid
      .filter((event) => event.payload.token === TOKEN && (provider === undefined || event.provider === provider))
      .filter(({ type, blockTime }) => type !== "subscription.renewed" && blockTime >= fromSec && blockTime < toSec);
    const newest = new Map(own.map((event) => [event.objectId, event]));
    const ended = [...newest.values()].filter((event) => !isBegin(event));
    const lost = ended.filter((event) => {
      const isNew = own.some(({ type, objectId }) => type === "subscription.created" && objectId === event.objectId);
      const after = own.slice(own.indexOf(event));
      return !isNew && !after.some((e) => isBegin(e) && e.payer === event.payer && e.provider === event.provider);
    });
    return { ended: ended.length, lost: lost.length };
  }

  it("T52 equal what the events say in every range, whatever blocks are reverted", async () => {
    await fc.assert(
      fc.asyncProperty(blocks, async (history) => {
        for (const table of ["events", ...EVENT_SUMS] as const) await store.db.deleteFrom(table).execute();
        const valid: EventDraft[] = [];
        let atSec = START_SEC;
        for (const [number, { happenings, laterSec, fate }] of history.entries()) {
          atSec += laterSec;
          const block = { number: number + 1, hash: `block ${number}` };
          const drafts = happenings.map(
            ({ type, record }, place): EventDraft => ({
              id: `${number} ${place}`,
              chainId: CHAIN_ID,
              type,
              objectId: `record${record}`,
              provider: record === 3 ? "0xb" : "0xa",
              // Two records of one payer, and a third with another provider.
              ...(record !== 2 && { payer: "0xpayer" }),
              payload: { token: record === 1 && place === 3 ? OTHER_TOKEN : TOKEN },
              blockTime: atSec,
              blockNumber: block.number,
              blockHash: block.hash,
            }),
          );
          await store.transaction((tx) => feed.append(tx, drafts));
          if (fate !== "stays") await store.transaction((tx) => feed.revertBlock(tx, block));
          if (fate === "returns") await store.transaction((tx) => feed.append(tx, drafts));
          if (fate !== "goes") valid.push(...drafts);
        }
        expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
        const kept = await store.db.selectFrom("endings").selectAll().orderBy("seq").execute();
        await store.transaction((tx) => recountSums(tx, CHAIN_ID));
        expect(await store.db.selectFrom("endings").selectAll().orderBy("seq").execute()).to.deep.equal(kept);
        // Each record has one token in what is compared with the reader.
        if (valid.some(({ payload }) => payload.token !== TOKEN)) return;
        for (const provider of [undefined, "0xa", "0xb"])
          for (let from = 0; from < DAYS; from++)
            for (let to = from + 1; to <= DAYS; to++) {
              const range = { fromSec: START_SEC + from * DAY_SEC, toSec: START_SEC + to * DAY_SEC };
              const found = await endingsIn(store.db, { chainId: CHAIN_ID, provider, token: TOKEN }, range);
              expect(found, `${provider} ${from} ${to}`).to.deep.equal(
                counted(valid, provider, range.fromSec, range.toSec),
              );
            }
      }),
      { numRuns: 25 },
    );
  });

  it("are found to be wrong when they are", async () => {
    for (const table of ["events", ...EVENT_SUMS] as const) await store.db.deleteFrom(table).execute();
    const ended = { chainId: CHAIN_ID, type: "subscription.expired", objectId: "record", provider: "0xa" };
    await store.transaction((tx) =>
      feed.append(tx, [{ ...ended, id: "end", payload: { token: TOKEN }, blockTime: START_SEC }]),
    );
    await store.db.updateTable("endings").set({ next_at: START_SEC }).execute();
    const wrong = await findWrongSums(store.db, CHAIN_ID, 0);
    expect(wrong.map(({ table }) => table)).to.deep.equal(["endings"]);
    await store.transaction((tx) => recountSums(tx, CHAIN_ID));
    expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
  });
});
