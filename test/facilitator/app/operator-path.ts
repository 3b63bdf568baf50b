/** The path of an operator who has docs/operators: from nothing to two chains with a replica and alerts, then ten breaks. */
import { expect } from "chai";
import { Client } from "pg";
import type { SignedPayment } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { lagging } from "../chaos/support/faults";
import { NETWORK_A, NETWORK_B } from "../support/chains";
import { BLOCK_MS, OperatorPath, PATIENCE_MS } from "../support/operator-path";
import { paymentToWire } from "../support/payments";
import type { ServiceWorld } from "../support/service";

const GWEI = 10n ** 9n;
const FORK_BLOCKS = 5;

describe("Facilitator: an operator's path", function () {
  this.timeout(600_000);
  const path = new OperatorPath();

  before(() => path.start());
  after(async () => {
    // Of everything that has happened. It takes several seconds of processor time.
    if (path.isUp) await path.requireAgreement().finally(() => path.stop());
    else await path.stop();
  });

  const send = (world: ServiceWorld, method: string, params: unknown[] = []) =>
    world.chain.provider.send(method, params);
  const height = (world: ServiceWorld) => world.chain.provider.getBlockNumber();
  const mining = (world: ServiceWorld, blockMs: number) => send(world, "evm_setIntervalMining", [blockMs]);
  const nextBaseFee = (world: ServiceWorld, wei: bigint) =>
    send(world, "hardhat_setNextBlockBaseFeePerGas", [`0x${wei.toString(16)}`]);

  it("HD51 S1 S7 the process that sends and reads for a chain is killed: its standby goes on", async () => {
    const { deployment, alerts, onA, onB } = path;
    await path.during(async () => {
      const name = await deployment.holderOf(NETWORK_A);
      const { process: holder, metrics } = deployment.at(name);
      await holder.kill();
      await alerts.raised("TurnpikeProcessDown", { instance: metrics });
      await Promise.all([onA.more(), onB.more()]);
      await deployment.start(name);
      await alerts.over("TurnpikeProcessDown");
    });
  });

  it("HD51 S3 a process of the API freezes: clients ask the other one", async () => {
    const { deployment, alerts, onA, onB } = path;
    await path.during(async () => {
      const { process: frozen, metrics } = deployment.at("api 1");
      process.kill(frozen.pid, "SIGSTOP");
      await alerts.raised("TurnpikeProcessDown", { instance: metrics });
      await Promise.all([onA.more(), onB.more()]);
      process.kill(frozen.pid, "SIGCONT");
      await alerts.over("TurnpikeProcessDown");
    });
  });

  it("HD51 the only node of a chain is away: the other chain goes on", async () => {
    const { chains, alerts, onA, b } = path;
    await path.during(async () => {
      chains.cut(b);
      await alerts.raised("TurnpikeNoNode", { chain: NETWORK_B });
      await onA.more();
      await until(async () => !(await path.isReady(NETWORK_B)), "it is not ready", PATIENCE_MS);
      expect(await path.isReady(NETWORK_A)).to.equal(true);
      chains.restore(b);
      await alerts.over("TurnpikeNoNode");
    });
  });

  it("HD51 one of two nodes stays behind: payments go on by the other one", async () => {
    const { spare, alerts, onA, a } = path;
    await path.during(async () => {
      spare.set(...lagging({ to: await height(a) }));
      for (let block = 0; block <= 100; block++) await send(a, "evm_mine");
      await alerts.raised("TurnpikeNodeBehind", { chain: NETWORK_A, node: "2" });
      await onA.more();
      spare.set();
      await alerts.over("TurnpikeNodeBehind");
    });
  });

  it("HD51 a chain makes no blocks: its payments wait, and the other chain goes on", async () => {
    const { alerts, onB, a } = path;
    await path.during(async () => {
      await mining(a, 0);
      await alerts.nearly("TurnpikeChainHalted", ["> 120", "> 3"], { chain: NETWORK_A });
      await onB.more();
      await mining(a, BLOCK_MS);
    });
  });

  it("HD51 S1 a chain is reorganised: its payments are sent again, each once", async () => {
    const { alerts, onA, a } = path;
    await path.during(async () => {
      const snapshot = await send(a, "evm_snapshot");
      const from = await height(a);
      await until(async () => (await height(a)) > from + FORK_BLOCKS, "the fork has grown");
      await onA.more(1);
      await mining(a, 0);
      const top = await height(a);
      await send(a, "evm_revert", [snapshot]);
      await nextBaseFee(a, 2n * GWEI);
      while ((await height(a)) <= top) await send(a, "evm_mine");
      await mining(a, BLOCK_MS);
      await alerts.raised("TurnpikeReorganisedDeeply", { chain: NETWORK_A });
    });
  });

  it("HD51 the relayer's key has no coins on one chain: payments there wait until it has", async () => {
    const { alerts, onA, b, relayer } = path;
    await path.during(async () => {
      const coins = await b.chain.provider.getBalance(relayer);
      await send(b, "hardhat_setBalance", [relayer, "0x0"]);
      await alerts.raised("TurnpikeNoLane", { chain: NETWORK_B });
      await until(
        async () => JSON.stringify(await path.readiness(NETWORK_B)).includes("low on gas money"),
        "/readyz says why",
      );
      await onA.more();
      await send(b, "hardhat_setBalance", [relayer, `0x${coins.toString(16)}`]);
      await alerts.over("TurnpikeNoLane");
    });
  });

  it("HD11 HD51 the primary is lost, and its replica promoted as the drill says: no process is restarted", async () => {
    const { database, alerts, onA, onB } = path;
    await path.during(async () => {
      await database.crashPrimary();
      await alerts.raised("TurnpikeDatabaseDown");
      await database.promote();
      await Promise.all([onA.more(), onB.more()]);
      await alerts.over("TurnpikeDatabaseDown");
    });
  });

  it("HD51 all connections of the pools are busy: what waits is done afterwards", async () => {
    const { database, deployment, alerts, onA } = path;
    await path.during(async () => {
      await alerts.over("TurnpikeDatabasePoolFull");
      const blocker = new Client({ connectionString: database.url });
      await blocker.connect();
      await blocker.query("begin; lock table payments in access exclusive mode");
      const asked = onA.ids.slice(-20).map((id) => path.call(`/payments/${id}`));
      await alerts
        .nearly("TurnpikeDatabasePoolFull", ["[5m]", "[3s]"], { instance: deployment.at("api 2").metrics })
        .finally(() => blocker.end());
      for (const answer of await Promise.all(asked)) expect(answer.status).to.be.oneOf([200, 503]);
    });
  });

  it("HD51 the fees of one chain rise above the ceiling: its payments wait, and the other chain goes on", async () => {
    const { alerts, onB, a } = path;
    await path.during(async () => {
      await nextBaseFee(a, 1_000_000n * GWEI);
      await alerts.raised("TurnpikeNoLane", { chain: NETWORK_A });
      await onB.more();
      await nextBaseFee(a, GWEI);
      await alerts.over("TurnpikeNoLane");
    });
  });

  it("HD51 S6 the receiver of webhooks is away: each event comes once it is back", async () => {
    const { receiver, alerts } = path;
    await path.during(async () => {
      receiver.answer(503);
      const failed = 'increase(turnpike_webhook_attempts_total{outcome="retry"}[1m]) > 0';
      for (const chain of [NETWORK_A, NETWORK_B]) await alerts.shows(failed, { chain });
      receiver.answer(204);
    });
  });

  it("HD52 S5 a chain is taken away with a payment under way: it is answered as unknown, and settles once", async () => {
    const { deployment, onA, onB, b } = path;
    const waiting = await b.signPayment({ payTo: path.a.provider.address as never, validForSec: 3_600 });
    await mining(b, 0);
    expect(await outcomeOf(waiting)).to.equal("pending");
    await onA.begin();
    deployment.settings = path.settingsFor(NETWORK_A);
    for (const name of ["api 1", "api 2"]) await deployment.restart(name);
    expect(await outcomeOf(waiting)).to.equal("Unavailable");
    await mining(b, BLOCK_MS);
    await onA.more();
    await deployment.end("b 1");
    await onA.more();
    await path.addSecondChain();
    await until(async () => (await outcomeOf(waiting)) === "settled", "it is settled", PATIENCE_MS);
    await onA.end();
    onB.settled.push({ signed: waiting, proof: await onB.settle(waiting) });
    await path.requireNothingLost();
  });

  const outcomeOf = (signed: SignedPayment): Promise<string> =>
    (path.deployment.clients()[0] as NonNullable<ReturnType<typeof path.deployment.clients>[0]>)
      .authorize(paymentToWire(signed))
      .then(
        ({ kind }) => kind,
        ({ code }: { code: string }) => code,
      );
});
