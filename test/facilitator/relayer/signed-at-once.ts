import { expect } from "chai";
import pino from "pino";
import type { Hex } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { Secret } from "../../../facilitator/src/config/setting";
import { createLane, type Lane } from "../../../facilitator/src/relayer/lane";
import { digestSigner } from "../../../facilitator/src/relayer/signer";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, until } from "../../support/facilitator";

/** A lane's rounds are made by the test's hand here, and nothing is mined. */
describe("transactions that are signed at once", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let named = 0;

  before(async () => {
    world = await startWorld();
    core = await world.core({ RENEWALS: "false" });
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    // The world's own lane must not take what is queued here.
    const [own] = core.relayer.health().lanes;
    await core.store.db
      .updateTable("lanes")
      .set({ status: "stopped", lease_epoch: 99 })
      .where("key", "=", own?.key ?? "")
      .execute();
    await until(async () => core.relayer.health().lanes[0]?.status !== "running", "the world's lane rests");
  });
  afterEach(async () => {
    // What one test has queued is not the next one's.
    await core.store.db.deleteFrom("transaction_hashes").execute();
    await core.store.db.deleteFrom("transactions").execute();
  });
  after(() => world?.stop());

  const entry = () => {
    const id = `at once ${named++}`;
    const to = world.contracts.token;
    return {
      id,
      chainId: core.config.chainId,
      purpose: "test",
      idempotencyKey: id,
      to,
      data: "0x" as Hex,
      gasLimit: 60_000n,
    };
  };
  const rows = (ids: readonly string[]) =>
    core.store.db
      .selectFrom("transactions")
      .innerJoin("transaction_hashes", "transaction_hashes.transaction_id", "transactions.id")
      .select(["transactions.id", "status", "nonce", "epoch", "raw"])
      .where("transactions.id", "in", [...ids])
      .orderBy("nonce")
      .execute();

  interface Hand {
    readonly lane: Lane;
    /** what was broadcast */
    readonly sent: Hex[];
    nowMs: number;
  }

  async function laneOf(options: { key?: Hex; lanesInFlight?: number; owner?: string } = {}): Promise<Hand> {
    const signer = digestSigner(new Secret(options.key ?? (testKey(`at once ${process.pid} ${named++}`) as Hex)));
    await fund(world.chain, signer.address);
    const sent: Hex[] = [];
    const hand: { nowMs: number } = { nowMs: 1_000 };
    const lane = createLane({
      config: { ...core.config, laneLeaseMs: 600_000, lanesInFlight: options.lanesInFlight ?? 16 },
      store: core.store,
      chain: { ...core.relayer.chain, broadcast: async (raw) => void sent.push(raw) },
      nodes: core.relayer.nodes,
      signer,
      owner: options.owner ?? "hand",
      log: pino({ level: "silent" }),
      onStep: () => undefined,
      monotonicMs: () => hand.nowMs,
    });
    await lane.tick();
    return Object.assign(hand, { lane, sent });
  }

  /** The first is queued; with it under way the lane knows what it may pay. */
  async function busy(options: Parameters<typeof laneOf>[0] = {}): Promise<Hand> {
    const hand = await laneOf(options);
    const { chainId: _, ...first } = entry();
    await core.relayer.submit(first);
    for (let rounds = 0; rounds < 3; rounds++) await hand.lane.tick();
    expect(hand.lane.health()).to.include({ status: "running", inFlight: 1, queued: 0 });
    return hand;
  }

  it("S7 are stored with the next nonces before they are sent, and sent as they are stored", async () => {
    const { lane, sent } = await busy();
    const before = sent.length;
    const entries = [entry(), entry()];
    const ids = entries.map(({ id }) => id);
    const signed = await core.store.transaction((tx) => lane.signNow(tx, entries));
    expect(signed.count).to.equal(2);
    const stored = await rows(ids);
    expect(stored.map(({ id, status, nonce }) => ({ id, status, nonce }))).to.deep.equal([
      { id: ids[0], status: "stored", nonce: 1 },
      { id: ids[1], status: "stored", nonce: 2 },
    ]);
    expect(sent, "nothing is sent before it is committed").to.have.length(before);
    signed.send();
    expect(sent.slice(before)).to.deep.equal(stored.map(({ raw }) => raw));
    await lane.tick();
    expect(lane.health().inFlight, "each has one place, also when it is counted again").to.equal(3);
    expect(sent, "what was just sent is not sent again").to.have.length(before + 2);
    await lane.release();
  });

  it("S1 take no nonce and no place when the transaction that they belong to fails", async () => {
    const { lane, sent } = await busy();
    const before = sent.length;
    const failed = [entry(), entry()];
    const failure = await core.store
      .transaction(async (tx) => {
        await lane.signNow(tx, failed);
        throw new RangeError("the payments cannot be bound");
      })
      .catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(RangeError);
    expect(await rows(failed.map(({ id }) => id))).to.deep.equal([]);
    for (let rounds = 0; rounds < 5; rounds++) await lane.tick();
    expect(lane.health().inFlight).to.equal(1);
    const next = entry();
    const signed = await core.store.transaction((tx) => lane.signNow(tx, [next]));
    signed.send();
    expect((await rows([next.id]))[0]).to.include({ nonce: 1 });
    expect(sent).to.have.length(before + 1);
    await lane.release();
  });

  it("leave to the queue what finds no place", async () => {
    const { lane } = await busy({ lanesInFlight: 3 });
    const entries = [entry(), entry(), entry()];
    const signed = await core.store.transaction((tx) => lane.signNow(tx, entries));
    expect(signed.count).to.equal(2);
    expect(await rows(entries.map(({ id }) => id))).to.have.length(2);
    const none = await core.store.transaction((tx) => lane.signNow(tx, [entry()]));
    expect(none.count).to.equal(0);
    await lane.release();
  });

  it("B12 are not paid for by the fees of long ago", async () => {
    const hand = await busy();
    hand.nowMs += core.config.blockTimeMs * 3;
    const old = await core.store.transaction((tx) => hand.lane.signNow(tx, [entry()]));
    expect(old.count).to.equal(0);
    await hand.lane.tick();
    const fresh = await core.store.transaction((tx) => hand.lane.signNow(tx, [entry()]));
    expect(fresh.count).to.equal(1);
    await hand.lane.release();
  });

  it("S7 the fence: an owner that sleeps through the end of its lease signs nothing at once", async () => {
    const key = testKey(`at once fenced ${process.pid}`) as Hex;
    const sleeper = await busy({ key, owner: "sleeper" });
    await core.store.db.updateTable("lanes").set({ lease_until_ms: 0 }).where("status", "=", "running").execute();
    const successor = await laneOf({ key, owner: "successor" });
    expect(successor.lane.health().status).to.equal("running");
    const late = entry();
    const signed = await core.store.transaction((tx) => sleeper.lane.signNow(tx, [late]));
    expect(signed.count).to.equal(0);
    expect(await rows([late.id])).to.deep.equal([]);
    await successor.lane.release();
  });
});
