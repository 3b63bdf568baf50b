import { expect } from "chai";
import pino from "pino";
import type { Address, Hex, SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { readinessOf } from "../../../facilitator/src/app/readiness";
import { Secret } from "../../../facilitator/src/config/setting";
import { createLane } from "../../../facilitator/src/relayer/lane";
import { digestSigner } from "../../../facilitator/src/relayer/signer";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { GROUPS } from "./support/faults";
import { type ChaosRpc, startChaosRpc } from "./support/rpc";

/** Not so fast that a busy machine cannot read along. */
const BLOCK_MS = 250;

describe("lanes under stress", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let rpc: ChaosRpc;
  let core: Core;
  let named = 0;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: BLOCK_MS, postgres });
    rpc = await startChaosRpc(world.chain.rpcUrl);
  });
  afterEach(async () => {
    rpc.set();
    await mining(true);
    await core?.stop();
  });
  after(async () => {
    await rpc?.stop();
    await world?.stop();
    await postgres?.stop();
  });

  const send = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  const mining = (isOn: boolean) => send("evm_setIntervalMining", [isOn ? BLOCK_MS : 0]);
  const addressOf = (key: Hex): Address => walletOf(world.chain, key).address as Address;
  const lane = () => core.relayer.health().lanes[0];
  const isReady = (): boolean => readinessOf(core).ready;

  async function freshKey(): Promise<Hex> {
    const key = testKey(`stressed lane ${process.pid} ${named++}`) as Hex;
    await fund(world.chain, addressOf(key));
    return key;
  }
  async function start(more: Record<string, string> = {}): Promise<Hex> {
    const key = await freshKey();
    await world.loseDatabase();
    core = await world.core({ RELAYER_KEYS: key, RPC_URLS: rpc.url, BUMP_AFTER_MS: "500", ...more });
    return key;
  }
  async function signAll(count: number): Promise<SignedPayment[]> {
    const payers = await Promise.all(Array.from({ length: count }, () => world.payer()));
    return Promise.all(payers.map((payer) => world.signPayment({ payer })));
  }
  async function requireOneEach(signed: readonly SignedPayment[]): Promise<void> {
    const outcomes = await Promise.all(
      signed.map((one) =>
        until(async () => {
          const outcome = await core.payments.authorize(one);
          return outcome.kind !== "pending" && outcome;
        }, "its outcome is known"),
      ),
    );
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(signed.map(() => "settled"));
    const payers = new Set<string>(signed.map(({ authorization }) => authorization.from));
    const moved = (await world.transfers()).filter(({ from }) => payers.has(from));
    expect(moved).to.have.length(signed.length);
  }

  it("B12 a fee above the ceiling: nothing is sent, an alarm is given, new payments are refused; then all is paid", async () => {
    const signed = await signAll(3);
    const late = await signAll(1);
    await start({ MAX_FEE_PER_GAS_WEI: "5000000000" });
    await mining(false);
    await send("hardhat_setNextBlockBaseFeePerGas", ["0x4a817c800"]);
    await send("evm_mine");
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    await until(async () => lane()?.isStuck, "the lane says that it is stuck");
    expect(lane()?.reason).to.match(/fee ceiling/);
    expect(isReady()).to.equal(false);
    const refused = await core.payments.authorize(late[0] as SignedPayment);
    expect(refused.kind === "refused" && refused.error.code).to.equal("Unavailable");
    expect(await core.store.db.selectFrom("transaction_hashes").selectAll().execute()).to.deep.equal([]);
    // An empty block lowers the base fee by an eighth.
    await mining(true);
    await until(async () => isReady(), "the fees have come down");
    await requireOneEach([...signed, ...late]);
  });

  it("B12 what is not mined though its fee was raised is an alarm, and is paid once in the end", async () => {
    const signed = await signAll(2);
    await start();
    await mining(false);
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    await until(async () => lane()?.isStuck && !isReady(), "the lane says that it is stuck");
    expect(lane()?.reason).to.match(/not mined since \d+ s/);
    await mining(true);
    await until(async () => isReady(), "it is well again");
    await requireOneEach(signed);
  });

  it("B12 an emptied relayer refuses early, keeps what it has accepted, and pays it once it has gas money", async () => {
    const signed = await signAll(2);
    const late = await signAll(1);
    const key = await start({ BUMP_AFTER_MS: "20000" });
    await send("hardhat_setBalance", [addressOf(key), "0x1"]);
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    await until(async () => !isReady(), "the service says that it is low");
    expect(readinessOf(core).checks.find(({ name }) => name.startsWith("lane"))?.detail).to.match(/low on gas money/);
    const refused = await core.payments.authorize(late[0] as SignedPayment);
    expect(refused.kind === "refused" && refused.error).to.include({ code: "Unavailable", retryable: true });
    await fund(world.chain, addressOf(key));
    await until(async () => isReady(), "it has gas money");
    await requireOneEach([...signed, ...late]);
  });

  it("B10 a pool that forgets everything gets the same bytes again, lowest nonce first", async () => {
    const signed = await signAll(6);
    await start({ BATCH_ITEMS: "2", BUMP_AFTER_MS: "20000" });
    await mining(false);
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    const stored = async () => {
      const rows = core.store.db.selectFrom("payments as p").innerJoin("transactions as t", "t.id", "p.transaction_id");
      return (await rows.select("t.id").where("t.status", "=", "stored").execute()).length === signed.length;
    };
    await until(stored, "all are on their way");
    const forms = await core.store.db.selectFrom("transaction_hashes").select("hash").execute();
    for (const { hash } of forms) await send("hardhat_dropTransaction", [hash]).catch(() => undefined);
    await mining(true);
    await requireOneEach(signed);
    const mined = await core.store.db.selectFrom("transactions").select("hash").where("status", "=", "mined").execute();
    const known = new Set(forms.map(({ hash }) => hash));
    expect(mined.every(({ hash }) => known.has(hash ?? ""))).to.equal(true);
  });

  it("B9 B10 nodes that lie about the nonce stop the lane with an alarm; adopted again, the gap closes and nothing is doubled", async () => {
    const signed = await signAll(3);
    const key = await start();
    rpc.set(
      {
        name: "ahead",
        strikes: GROUPS.nonce,
        act: { kind: "lie", respond: (_, honest) => `0x${(Number(honest) + 3).toString(16)}` },
      },
      { name: "kept", strikes: GROUPS.broadcast, act: { kind: "swallow", respond: () => `0x${"5".repeat(64)}` } },
    );
    await core.payments.authorize(signed[0] as SignedPayment, { waitMs: 0 });
    await until(async () => lane()?.status === "stopped", "the lane has stopped");
    expect(isReady()).to.equal(false);
    expect(lane()?.reason).to.match(/not ours/);
    await core.stop();
    // Adopted while the lie still applies: the database now counts from too high a nonce.
    core = await world.core({ RELAYER_KEYS: key, RPC_URLS: rpc.url, BUMP_AFTER_MS: "500", ADOPT_NONCE: "true" });
    rpc.set();
    await requireOneEach(signed);
    await until(async () => isReady(), "it is well again");
    const rows = await core.store.db.selectFrom("transactions").select("nonce").orderBy("nonce").execute();
    expect(rows.map(({ nonce }) => nonce)).to.deep.equal(rows.map((_, index) => index));
  });

  it("B10 one key of two is used by somebody else: its lane stops with an alarm, the other pays everything once", async () => {
    const signed = await signAll(8);
    const [taken, other] = [await freshKey(), await freshKey()];
    await start({ RELAYER_KEYS: `${taken},${other}`, BATCH_ITEMS: "1", LANE_IN_FLIGHT: "4" });
    await mining(false);
    const thief = walletOf(world.chain, taken);
    const fees = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n };
    await thief.sendTransaction({ to: thief.address, value: 0n, gasLimit: 30_000n, nonce: 0, ...fees });
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    await until(async () => core.relayer.health().lanes.every(({ inFlight }) => inFlight > 0), "both lanes are busy");
    await mining(true);
    await requireOneEach(signed);
    const stopped = await until(
      async () => core.relayer.health().lanes.find(({ status }) => status === "stopped"),
      "the lane has stopped",
    );
    expect(stopped).to.include({ key: addressOf(taken) });
    expect(readinessOf(core).checks.find(({ name }) => name === `lane ${stopped.key}`)).to.include({ ok: false });
  });

  it("S7 the fence: an owner that sleeps through the end of its lease stores nothing under the key any more", async () => {
    const key = await freshKey();
    await start({ RELAYER_KEYS: await freshKey() });
    const { store } = core;
    // Longer than the test: who holds it changes by the test's hand alone.
    const config = { ...core.config, laneLeaseMs: 600_000 };
    const signer = digestSigner(new Secret(key));
    const laneOf = (owner: string, monotonicMs: () => number) =>
      createLane({
        config,
        store,
        chain: core.relayer.chain,
        nodes: core.relayer.nodes,
        signer,
        owner,
        log: pino({ level: "silent" }),
        onStep: () => undefined,
        monotonicMs,
      });
    // By its own clock the sleeper's lease never ends.
    const sleeper = laneOf("sleeper", () => 0);
    const successor = laneOf("successor", () => performance.now());
    await sleeper.tick();
    await store.db.updateTable("lanes").set({ lease_until_ms: 0 }).where("key", "=", signer.address).execute();
    await successor.tick();
    expect([sleeper.health().status, successor.health().status]).to.deep.equal(["running", "running"]);
    // The world's own lane must not take it.
    await store.db.updateTable("lanes").set({ status: "stopped" }).where("key", "!=", signer.address).execute();
    const id = await core.relayer.submit({
      purpose: "test",
      idempotencyKey: "fenced",
      to: world.contracts.token,
      data: "0x",
      gasLimit: 60_000n,
    });
    const row = () => store.db.selectFrom("transactions").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
    // One round to see that something is queued, one to take it.
    for (let rounds = 0; rounds < 2; rounds++) await sleeper.tick();
    expect(await row()).to.include({ status: "queued", epoch: null });
    for (let rounds = 0; rounds < 2; rounds++) await successor.tick();
    expect(await row()).to.include({ key: signer.address, epoch: 2, nonce: 0 });
    await successor.release();
  });
});
