/** A chain whose head moves back: nothing is said about the payments of its lost blocks until it is known what became of them. */
import { expect } from "chai";
import pino from "pino";
import { RIGHTS, setOperator } from "turnpike/chain";
import { createFacilitatorClient } from "turnpike/facilitator";
import { isTurnpikeError, type PaymentProof } from "turnpike/protocol";
import { type Core, startCore } from "../../../facilitator/src/app/core";
import { readinessOf } from "../../../facilitator/src/app/readiness";
import { startFacilitator } from "../../../facilitator/src/app/start";
import type { ProofVerdict } from "../../../facilitator/src/payments";
import { type FacilitatorWorld, type Payer, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { lagging } from "../chaos/support/faults";
import { type ChaosRpc, startChaosRpc } from "../chaos/support/rpc";
import { useService } from "../support/http-service";

const LONE = { RENEWALS: "false" };

/** @param payer with money that was there before the branch */
async function settledBy(core: Core, world: FacilitatorWorld, payer?: Payer) {
  const signed = await world.signPayment(payer && { payer });
  const outcome = await core.payments.authorize(signed);
  if (outcome.kind !== "settled") throw new Error(`it is ${outcome.kind}`);
  return { signed, proof: outcome.proof, paymentId: outcome.paymentId };
}

/** What a proof's judge answers; the code of what it throws. */
async function verdictOf(core: Core, proof: PaymentProof): Promise<ProofVerdict["kind"] | string> {
  try {
    const verdict = await core.payments.verifyProof(proof);
    return verdict.kind === "valid" ? "valid" : verdict.reason;
  } catch (error) {
    if (isTurnpikeError(error)) return error.code;
    throw error;
  }
}

const rpcOf =
  (world: FacilitatorWorld) =>
  (method: string, params: unknown[] = []) =>
    world.chain.provider.send(method, params);

/** A core that takes the chain for a public one, where a node that is merely behind is possible. */
async function publicCore(world: FacilitatorWorld, more: Readonly<Record<string, string>> = {}): Promise<Core> {
  const config = world.config({ ...LONE, ...more });
  const network = { ...config.network, name: "eip155:31337" };
  return startCore({ ...config, network }, { log: pino({ level: config.logLevel }) });
}

describe("a head that moves back", function () {
  this.timeout(240_000);
  let world: FacilitatorWorld;
  let core: Core;
  let nodes: ChaosRpc[] = [];

  beforeEach(async () => {
    world = await startWorld();
    nodes = [];
  });
  afterEach(async () => {
    await core?.stop();
    await world?.stop();
    for (const node of nodes) await node.stop();
  });

  it("HD5 on a public chain: payments of the lost blocks are neither valid nor invalid, earlier ones still count", async () => {
    core = await publicCore(world, { FINALITY_DEPTH: "64" });
    const rpc = rpcOf(world);
    const early = await settledBy(core, world);
    const payer = await world.payer();
    const snapshot = await rpc("evm_snapshot");
    const late = await settledBy(core, world, payer);
    await rpc("evm_setIntervalMining", [0]);
    await rpc("hardhat_mine", ["0x5"]);
    const top = await world.chain.provider.getBlockNumber();
    await until(async () => core.indexer.applied() === top, "everything is applied");
    expect(await verdictOf(core, late.proof)).to.equal("valid");
    await rpc("evm_revert", [snapshot]);

    await until(async () => (await verdictOf(core, late.proof)) !== "valid", "it is noticed", 10_000);
    expect(await verdictOf(core, late.proof)).to.equal("Unavailable");
    expect(await verdictOf(core, early.proof), "a block that the chain still has").to.equal("valid");
    expect((await core.payments.status(late.paymentId)).status).to.equal("pending");
    expect((await core.payments.status(early.paymentId)).status).to.equal("settled");
    expect((await core.payments.authorize(late.signed, { waitMs: 0 })).kind).to.equal("pending");
    expect((await core.payments.authorize(early.signed, { waitMs: 0 })).kind).to.equal("settled");
    expect(await core.indexer.waitApplied(late.proof.blockNumber, 0), "an act in a lost block is pending").to.equal(
      false,
    );
    const { ready, checks } = readinessOf(core);
    expect(ready).to.equal(false);
    expect(JSON.stringify(checks)).to.match(/moved back/);
    expect(JSON.stringify(checks)).not.to.match(/-\d+ behind/);

    // Another branch, still shorter than the one that was applied: what it lost is known now.
    await rpc("evm_increaseTime", [30]);
    await rpc("evm_mine");
    expect(await world.chain.provider.getBlockNumber()).to.be.lessThan(top);
    await until(async () => (await verdictOf(core, late.proof)) !== "Unavailable", "they are taken back", 10_000);
    expect(await verdictOf(core, late.proof)).to.be.oneOf(["pending", "reversed"]);
    await rpc("evm_setIntervalMining", [100]);
    const again = await until(async () => {
      const outcome = await core.payments.authorize(late.signed);
      return outcome.kind === "settled" && outcome;
    }, "it settles on the other branch");
    expect(await verdictOf(core, again.proof)).to.equal("valid");
    expect(readinessOf(core).ready).to.equal(true);
  });

  it("HD5 evm_revert on a local chain: the lost blocks are taken back at once, without a new block", async () => {
    core = await world.core({ ...LONE, FINALITY_DEPTH: "64" });
    const rpc = rpcOf(world);
    const payer = await world.payer();
    const snapshot = await rpc("evm_snapshot");
    const late = await settledBy(core, world, payer);
    await rpc("evm_setIntervalMining", [0]);
    await rpc("evm_revert", [snapshot]);
    const top = await world.chain.provider.getBlockNumber();
    await until(async () => core.indexer.applied() === top, "the lost blocks are taken back", 10_000);
    expect(await verdictOf(core, late.proof)).to.be.oneOf(["pending", "reversed"]);
    expect((await core.payments.status(late.paymentId)).status).to.equal("reversed");
    await rpc("evm_setIntervalMining", [100]);
    await until(async () => (await core.payments.authorize(late.signed)).kind === "settled", "it settles again");
  });

  it("HD5 one node of two is behind: nothing changes; both are: nothing is said about what they lack", async () => {
    const limits = [{ to: Number.MAX_SAFE_INTEGER }, { to: Number.MAX_SAFE_INTEGER }];
    nodes = [await startChaosRpc(world.chain.rpcUrl), await startChaosRpc(world.chain.rpcUrl)];
    core = await publicCore(world, { RPC_URLS: nodes.map(({ url }) => url).join(",") });
    const early = await settledBy(core, world);
    const late = await settledBy(core, world);
    await rpcOf(world)("evm_setIntervalMining", [0]);
    const top = await world.chain.provider.getBlockNumber();
    await until(async () => core.indexer.applied() === top, "everything is applied");
    const behind = (place: number): void => {
      (limits[place] as { to: number }).to = late.proof.blockNumber - 1;
      (nodes[place] as ChaosRpc).set(...lagging(limits[place] as { to: number }));
    };

    behind(0);
    await core.indexer.catchUp();
    expect(core.indexer.health().head, "the first node's head").to.equal(late.proof.blockNumber - 1);
    expect(await verdictOf(core, late.proof), "the second node still has it").to.equal("valid");
    expect(readinessOf(core).checks.find(({ name }) => name === "chain")?.ok).to.equal(true);

    behind(1);
    await until(async () => (await verdictOf(core, late.proof)) === "Unavailable", "no node has it", 10_000);
    expect(await verdictOf(core, early.proof)).to.equal("valid");
    expect(core.indexer.applied(), "a node that is merely behind takes nothing back").to.equal(top);

    (nodes[1] as ChaosRpc).set();
    await until(async () => (await verdictOf(core, late.proof)) === "valid", "one node has it again", 10_000);
  });
});

describe("a head that moves back below a debit", function () {
  this.timeout(240_000);
  const http = useService({ FINALITY_DEPTH: "64" });

  it("HD5 a debit of a lost block is pending, neither settled nor asked for again", async () => {
    const { world, service } = http;
    const rpc = rpcOf(world);
    const apiKey = await service.apiKey({ scopes: ["debits"] });
    const { relayers } = await service.client.supported();
    const { turnpike } = world.contracts;
    for (const account of relayers) {
      await setOperator(world.provider, turnpike, { planId: world.planId, account, rights: RIGHTS.debit });
    }
    const subscriber = await world.payer(100_000_000n);
    const { idHash, request } = await world.signup(subscriber, { permit: 100_000_000n, maxOverage: 5_000_000n });
    expect((await service.client.subscribe(request)).kind).to.equal("done");
    const ask = async (url: string) => {
      const client = createFacilitatorClient({ url, apiKey });
      const outcome = await client.debits([{ idHash, amount: "300000", index: 0 }]);
      if (outcome.kind === "refused") throw outcome.error;
      return outcome.results[0]?.status;
    };
    const snapshot = await rpc("evm_snapshot");
    await until(async () => (await ask(service.url)) === "settled", "it is debited");
    await service.stop();
    await rpc("evm_setIntervalMining", [0]);
    const config = world.config({ PORT: "0", ...LONE, FINALITY_DEPTH: "64", AUTHORIZE_WAIT_MS: "200" });
    const running = await startFacilitator({ ...config, network: { ...config.network, name: "eip155:31337" } });
    try {
      expect(await ask(running.url)).to.equal("settled");
      await rpc("evm_revert", [snapshot]);
      const isReady = async () => (await fetch(`${running.url}/readyz`)).status === 200;
      await until(async () => !(await isReady()), "it is noticed", 10_000);
      expect(await ask(running.url)).to.equal("pending");
    } finally {
      await running.stop();
    }
  });
});

describe("a head that moves back, seen by two processes", function () {
  this.timeout(240_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  const cores: Core[] = [];

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: 200, postgres });
  });
  after(async () => {
    for (const core of cores) await core.stop();
    await world?.stop();
    await postgres?.stop();
  });

  it("HD5 a process that does not read the chain sees it by itself, and follows what the reader takes back", async () => {
    const { RELAYER_KEYS: key = "" } = world.env();
    const reader = await publicCore(world, { ROLES: "indexer,relayer", RELAYER_KEYS: key, FINALITY_DEPTH: "64" });
    const api = await publicCore(world, { ROLES: "api", FINALITY_DEPTH: "64" });
    cores.push(api, reader);
    await until(async () => api.relayer.health().ok, "the lanes are seen");
    const rpc = rpcOf(world);
    const payer = await world.payer();
    const snapshot = await rpc("evm_snapshot");
    const late = await settledBy(api, world, payer);
    await rpc("evm_setIntervalMining", [0]);
    const top = await world.chain.provider.getBlockNumber();
    await until(async () => api.indexer.applied() === top, "everything is applied");
    await rpc("evm_revert", [snapshot]);
    await until(async () => (await verdictOf(api, late.proof)) !== "valid", "it is noticed", 10_000);
    expect(await verdictOf(api, late.proof)).to.equal("Unavailable");
    expect((await api.payments.status(late.paymentId)).status).to.equal("pending");
    expect(readinessOf(api).ready).to.equal(false);
    await rpc("evm_increaseTime", [30]);
    await rpc("evm_mine");
    await until(async () => (await verdictOf(api, late.proof)) !== "Unavailable", "they are taken back", 10_000);
    expect(await verdictOf(api, late.proof)).to.be.oneOf(["pending", "reversed"]);
    await rpc("evm_setIntervalMining", [100]);
    await until(async () => (await api.payments.authorize(late.signed)).kind === "settled", "it settles again");
  });

  it("HD5 another branch of the same height, and no process that reads it: nothing is said", async () => {
    const [api, reader] = cores as [Core, Core];
    const rpc = rpcOf(world);
    const early = await settledBy(api, world);
    const payer = await world.payer();
    const snapshot = await rpc("evm_snapshot");
    const late = await settledBy(api, world, payer);
    await rpc("evm_setIntervalMining", [0]);
    const top = await world.chain.provider.getBlockNumber();
    await until(async () => api.indexer.applied() === top, "everything is applied");
    await reader.stop();
    await rpc("evm_revert", [snapshot]);
    await rpc("evm_increaseTime", [30]);
    while ((await world.chain.provider.getBlockNumber()) < top + 2) await rpc("evm_mine");
    await until(async () => (await verdictOf(api, late.proof)) !== "valid", "it is noticed", 10_000);
    expect(await verdictOf(api, late.proof)).to.equal("Unavailable");
    expect(await verdictOf(api, early.proof)).to.equal("valid");
    expect((await api.payments.status(late.paymentId)).status).to.equal("pending");

    cores.push(await publicCore(world, { ROLES: "indexer", FINALITY_DEPTH: "64" }));
    await until(async () => (await verdictOf(api, late.proof)) !== "Unavailable", "somebody reads again", 20_000);
    expect(await verdictOf(api, late.proof)).to.be.oneOf(["pending", "reversed"]);
  });
});
