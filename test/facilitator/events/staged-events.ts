import { expect } from "chai";
import pino from "pino";
import { createFacilitatorClient } from "turnpike/facilitator";
import type { Hex, SignedPayment } from "turnpike/protocol";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import { openChain } from "../../../facilitator/src/chain/open";
import { reconcile } from "../../../facilitator/src/cli/maintenance/reconcile";
import { reindex } from "../../../facilitator/src/cli/maintenance/reindex";
import { openStore, type Store } from "../../../facilitator/src/db/open";
import type { EventRow } from "../../../facilitator/src/db/tables/events";
import { newestBlock } from "../../../facilitator/src/indexer/applied-blocks";
import { noProgress } from "../../../facilitator/src/lib/progress";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { prepareVictims, type Victims } from "../chaos/support/kill-victim";
import { blockWriterOf } from "../support/block-writer";
import { paymentToWire } from "../support/payments";

/** Payments in one block: enough for its events to be published in their own transaction. */
const PAYMENTS = 301;
const AMOUNT = 1_000n;

describe("events of a block with many payments", function () {
  this.timeout(300_000);
  let world: FacilitatorWorld;
  let victims: Victims;
  let postgres: TestPostgres;
  let killed: string;
  let settings: Record<string, string>;
  let ids: readonly Hex[];
  const open: Store[] = [];

  /** A service that is killed when it has applied a block of many payments, and before it has published its events. */
  before(async () => {
    postgres = await startPostgres();
    [world, victims] = await Promise.all([startWorld({ blockMs: BLOCK_MS, postgres }), prepareVictims()]);
    const key = testKey("relayer of staged events") as Hex;
    await fund(world.chain, walletOf(world.chain, key).address as Hex);
    settings = {
      RELAYER_KEYS: key,
      RENEWALS: "false",
      // No block frees a slot before all are sent, and batches are small on a slow machine.
      LANE_IN_FLIGHT: "64",
    };
    killed = await postgres.migrated();

    const payer = await world.payer(AMOUNT * BigInt(PAYMENTS));
    const signed = await Promise.all(
      Array.from({ length: PAYMENTS }, () => world.signPayment({ payer, amount: AMOUNT, validForSec: 3_000 })),
    );
    ids = signed.map((one) => world.idOf(one));
    const victim = await victims.startSurely({
      ...world.env({ ...settings, DATABASE_URL: killed }),
      KILL_AFTER: "applied",
    });
    const client = createFacilitatorClient({ url: victim.url });
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    let isUnderWay = false;
    /** Retries while the service is busy: every payment has to be in the block. */
    const post = async (one: SignedPayment): Promise<void> => {
      while (!isUnderWay) await client.authorize(paymentToWire(one)).catch(() => undefined);
    };
    for (const one of signed) void post(one);
    const left = (): Promise<bigint> =>
      world.token.getFunction("balanceOf").staticCall(payer.address, { blockTag: "pending" });
    await until(async () => (await left()) === 0n, "all are under way");
    isUnderWay = true;
    await world.chain.provider.send("evm_mine", []);
    expect(await victim.gone).to.equal("SIGKILL");
  });
  afterEach(async () => {
    for (const store of open.splice(0)) await store.close();
  });
  after(async () => {
    await victims?.stop();
    await world?.stop();
    await postgres?.stop();
  });

  /** A copy of what it left, for one test. */
  async function copyOfDatabase(): Promise<Record<string, string>> {
    return { ...settings, DATABASE_URL: await postgres.copy(killed) };
  }

  async function openCopy(): Promise<{ store: Store; env: Record<string, string> }> {
    const env = await copyOfDatabase();
    const store = await openStore(world.config(env).database);
    open.push(store);
    return { store, env };
  }

  const eventsOf = ({ db }: Store): Promise<EventRow[]> => db.selectFrom("events").selectAll().orderBy("seq").execute();
  const writerOn = (store: Store) => blockWriterOf(store, world.chain.chainId);

  async function differences(store: Store, env: Record<string, string>): Promise<string[]> {
    const wrong: string[] = [];
    const log = pino({ level: "silent" });
    const config = world.config(env);
    const chain = await openChain({ config, log });
    for await (const one of reconcile({ config, store, chain, log, progress: noProgress })) wrong.push(one);
    return wrong;
  }

  it("delay no payment: payments are settled before their events are published", async () => {
    const { store } = await openCopy();
    const settled = await store.db.selectFrom("payments").select("state").execute();
    expect(settled.filter(({ state }) => state === "settled")).to.have.length(PAYMENTS);
    expect(await eventsOf(store)).to.deep.equal([]);
  });

  it("S6 are published exactly once, with their sums, after the process that stored them was killed", async () => {
    const env = await copyOfDatabase();
    const core = await world.core(env);
    // No block is mined: the next process does not need another block.
    await until(async () => (await eventsOf(core.store)).length > 0, "they are published");
    const events = await eventsOf(core.store);
    expect(events.map(({ type, sequence, reverted }) => `${type} ${sequence} ${reverted}`)).to.deep.equal(
      ids.map(() => "payment.settled 1 false"),
    );
    expect(new Set(events.map(({ object_id }) => object_id))).to.deep.equal(new Set(ids));
    expect(await differences(core.store, env)).to.deep.equal([]);
    await core.stop();
  });

  it("come before any later event", async () => {
    const { store } = await openCopy();
    const [id = "0x"] = ids;
    const next = {
      id: "next",
      chainId: world.chain.chainId,
      type: "payment.late",
      objectId: id,
      payload: {},
      blockTime: 1,
    };
    await store.transaction((tx) => createEventFeed(world.chain.chainId).append(tx, [next]));
    await writerOn(store).publishStaged();
    const events = await eventsOf(store);
    expect(events).to.have.length(PAYMENTS + 1);
    expect(events.at(-1)).to.include({ id: "next", sequence: 2 });
  });

  it("B8 are published and reverted when their block is removed before they are published", async () => {
    const { store } = await openCopy();
    const newest = await newestBlock(store.db, world.chain.chainId);
    expect(await writerOn(store).revertNewest(newest?.hash ?? "")).to.include({ kind: "reverted" });
    const events = await eventsOf(store);
    const count = (type: string, reverted: boolean): number =>
      events.filter((event) => event.type === type && event.reverted === reverted).length;
    expect([count("payment.settled", true), count("payment.reversed", false)]).to.deep.equal([PAYMENTS, PAYMENTS]);
    expect(events).to.have.length(2 * PAYMENTS);
  });

  it("S8 are restored with the same ids by a process that reindexes the chain", async () => {
    const { store, env } = await openCopy();
    const log = pino({ level: "silent" });
    const config = world.config(env);
    const chain = await openChain({ config, log });
    await store.db.deleteFrom("role_leases").execute();
    await reindex({ config, store, chain, log, progress: noProgress, isWiped: true });
    const events = await eventsOf(store);
    expect(events.filter(({ type }) => type === "payment.settled")).to.have.length(PAYMENTS);
    expect(events.filter(({ reverted }) => reverted)).to.deep.equal([]);
    expect(await differences(store, env)).to.deep.equal([]);
  });

  it("are reported missing by a comparison with the chain until they are published", async () => {
    const { store, env } = await openCopy();
    expect((await differences(store, env)).join()).to.match(/stored and not published yet/);
    await writerOn(store).publishStaged();
    expect(await differences(store, env)).to.deep.equal([]);
  });
});
