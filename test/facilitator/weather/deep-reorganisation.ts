/** A reorganisation deeper than blocks can be reverted: nothing is proved by blocks that are gone, and a person decides. */
import { expect } from "chai";
import pino from "pino";
import type { PaymentProof, SignedPayment } from "turnpike/protocol";
import { isTurnpikeError } from "turnpike/protocol";
import { type Core, startCore } from "../../../facilitator/src/app/core";
import { readinessOf } from "../../../facilitator/src/app/readiness";
import { openChain } from "../../../facilitator/src/chain/open";
import { reconcile } from "../../../facilitator/src/cli/maintenance/reconcile";
import { reindex } from "../../../facilitator/src/cli/maintenance/reindex";
import { openStore } from "../../../facilitator/src/db/open";
import { noProgress } from "../../../facilitator/src/lib/progress";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

/** as MIN_UNDO_DEPTH of the indexer */
const UNDO_DEPTH = 128;
const BLOCK_MS = 200;
const FINALITY = { FINALITY_DEPTH: "4", RENEWALS: "false" };
const log = pino({ level: "silent" });

describe("chain weather: a reorganisation deeper than FINALITY_DEPTH", function () {
  this.timeout(600_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let core: Core;
  let api: Core | undefined;

  before(async () => {
    postgres = await startPostgres();
  });
  beforeEach(async () => {
    world = await startWorld({ blockMs: BLOCK_MS, postgres });
    core = await start();
  });
  afterEach(async () => {
    await api?.stop();
    api = undefined;
    await core?.stop();
    await world?.stop();
  });
  after(() => postgres?.stop());

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  const height = () => world.chain.provider.getBlockNumber();

  /** A core that takes the chain for a public one, as the roles say. */
  async function start(more: Record<string, string> = {}): Promise<Core> {
    const config = world.config({ ...FINALITY, ...more });
    return startCore({ ...config, network: { ...config.network, name: "eip155:31337" } }, { log });
  }

  async function settled(on: Core, signed: SignedPayment): Promise<PaymentProof> {
    return until(async () => {
      const outcome = await on.payments.authorize(signed);
      return outcome.kind === "settled" && outcome.proof;
    }, "it is settled");
  }

  async function verdict(on: Core, proof: PaymentProof): Promise<string> {
    try {
      const found = await on.payments.verifyProof(proof);
      return found.kind === "valid" ? "valid" : found.reason;
    } catch (error) {
      if (isTurnpikeError(error)) return error.code;
      throw error;
    }
  }

  async function mine(blocks: number): Promise<void> {
    await Promise.all(Array.from({ length: blocks }, () => rpc("evm_mine")));
  }

  /**
   * Lets the chain lose the blocks of `late`, which are deeper than can be reverted, and grow past them without it.
   * @returns what was paid before and in the lost blocks
   */
  async function loseDeepBlocks() {
    const early = await world.signPayment({ validForSec: 3_600 });
    const earlyProof = await settled(core, early);
    const [payer, other] = [await world.payer(), await world.payer()];
    const snapshot = await rpc("evm_snapshot");
    const late = await world.signPayment({ payer, validForSec: 3_600 });
    const lateProof = await settled(core, late);
    await rpc("evm_setIntervalMining", [0]);
    await mine(UNDO_DEPTH + 4);
    const top = await height();
    await until(async () => core.indexer.applied() === top, "all is applied");
    await rpc("evm_revert", [snapshot]);
    await rpc("evm_increaseTime", [30]);
    await mine(top - (await height()) + 1);
    return { early, earlyProof, late, lateProof, other, top };
  }

  it("HG5 nothing is proved by lost blocks, new payments are refused, and each process says what to do", async () => {
    api = await start({ ROLES: "api" });
    const { earlyProof, late, lateProof, other } = await loseDeepBlocks();
    for (const one of [core, api]) {
      await until(async () => one.indexer.health().isTooDeep, "it is noticed");
      expect(await verdict(one, lateProof)).not.to.equal("valid");
      expect(await verdict(one, earlyProof), "a block that the chain still has").to.equal("valid");
      expect((await one.payments.authorize(late, { waitMs: 0 })).kind).to.be.oneOf(["pending", "refused"]);
      const fresh = await world.signPayment({ payer: other });
      const refused = await one.payments.authorize(fresh, { waitMs: 0 });
      expect(refused.kind === "refused" && refused.error).to.include({ code: "Unavailable", retryable: true });
      const { ready, checks } = readinessOf(one);
      expect(ready).to.equal(false);
      expect(checks.find(({ name }) => name === "chain")?.detail).to.match(/deeper .*reindex --wipe/);
    }
    const moved = await world.transfers();
    expect(moved.filter(({ from }) => from === late.authorization.from).length).to.be.at.most(1);
  });

  it("HG5 a process that starts after such a reorganisation proves nothing by lost blocks", async () => {
    const { late, lateProof } = await loseDeepBlocks();
    await core.stop();
    const started = await start().catch((error: Error) => error.message);
    if (typeof started === "string") {
      expect(started).to.match(/deeper .*reindex --wipe/);
      return;
    }
    core = started;
    expect(await verdict(core, lateProof)).not.to.equal("valid");
    expect((await core.payments.authorize(late, { waitMs: 0 })).kind).to.be.oneOf(["pending", "refused"]);
    expect(readinessOf(core).ready).to.equal(false);
  });

  it("HG6 reindex --wipe recovers: what is gone is not settled, is sent again on request, and moves once", async () => {
    const { early, earlyProof, late, lateProof } = await loseDeepBlocks();
    await until(async () => core.indexer.health().isTooDeep, "it is noticed");
    await core.stop();
    const config = world.config(FINALITY);
    const job = { config, chain: await openChain({ config, log }), log, progress: noProgress };
    const store = await openStore(config.database);
    await reindex({ ...job, store, isWiped: true }).finally(() => store.close());

    core = await start();
    expect(readinessOf(core).checks.find(({ name }) => name === "chain")?.ok).to.equal(true);
    const before = await world.transfers();
    const isGone = !before.some(({ from }) => from === late.authorization.from);
    if (isGone) expect(await verdict(core, lateProof)).not.to.equal("valid");
    expect(await verdict(core, earlyProof)).to.equal("valid");
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    const again = await settled(core, late);
    expect(await verdict(core, again)).to.equal("valid");
    expect((await settled(core, early)).transaction).to.equal(earlyProof.transaction);
    const moved = await world.transfers();
    for (const { authorization } of [early, late])
      expect(moved.filter(({ from }) => from === authorization.from)).to.have.length(1);
    const differences: string[] = [];
    for await (const one of reconcile({ ...job, store: core.store })) differences.push(one);
    expect(differences).to.deep.equal([]);
    const fresh = await world.signPayment();
    await settled(core, fresh);
  });
});
