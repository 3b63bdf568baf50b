/** A gate and an agent in every runtime: they sell and buy over the real Facilitator, frozen or woken as hosts do it. */
import { expect } from "chai";
import { type Agent, type AgentOptions, createAgent, walletFromKey } from "turnpike/agent";
import type { Hex } from "turnpike/protocol";
import type { Project } from "../package/support/packed";
import { testKey } from "../support/chain";
import { spentBy, startSandbox, until, type World } from "../support/sandbox";
import { RUNTIMES, type Running, runtimeProject, startRuntime } from "./support/runtimes";
import { startSilent, startSlowSettlement, startUpstream, type Upstream } from "./support/slow-settlement";

const PRICE = 500_000n;

describe("runtimes", function () {
  this.timeout(480_000);
  let project: Project;
  let world: World;
  let upstream: Upstream;
  before(async () => {
    project = await runtimeProject();
    world = await startSandbox();
    upstream = await startUpstream();
  });
  after(async () => {
    await upstream?.stop();
    await world?.stop();
    await project?.remove();
  });

  const agentOptions = (key: Hex) => ({
    key,
    policy: { perPayment: 1_000_000, perDay: 10_000_000, tokens: [world.contracts.token] },
    facilitators: [world.facilitator.url],
    deployments: [{ chainId: world.contracts.chainId, turnpike: world.contracts.turnpike }],
  });

  const settings = (key: Hex) => ({
    gate: { ...world.gateOptions, payTo: world.providerAccount.address, secret: testKey("runtimes") },
    amount: Number(PRICE),
    upstream: upstream.url,
    agent: agentOptions(key),
  });

  /** Hides this project's own terms, which are in the body of a 402: what stock clients sign settles after the handler. */
  async function asStock(...asked: Parameters<typeof fetch>): Promise<Response> {
    const answer = await fetch(...asked);
    return answer.status === 402 ? Response.json({}, { status: 402, headers: answer.headers }) : answer;
  }

  function buyer(key: Hex, more: Partial<AgentOptions> = {}): Agent {
    const { key: _, ...options } = agentOptions(key);
    return createAgent({ ...options, ...more, wallet: walletFromKey(key) });
  }

  for (const runtime of RUNTIMES) {
    describe(runtime, () => {
      let running: Running;
      let own: { readonly key: Hex; readonly address: string };
      before(async () => {
        const { wallet, address } = await world.agent(`an agent in ${runtime}`);
        own = { key: wallet.privateKey as Hex, address };
        running = await startRuntime(runtime, project, settings(own.key));
        await until("a 402", async () => (await fetch(`${running.url}/report`)).status === 402);
      });
      after(() => running?.stop());

      it("sells to many at once, each for one transfer", async () => {
        const { wallet, address } = await world.agent(`a buyer from ${runtime}`);
        const agent = buyer(wallet.privateKey as Hex);
        const spent = await spentBy(world, address, async () => {
          const answers = await Promise.all([1, 2, 3].map(() => agent.pay(`${running.url}/report`)));
          for (const answer of answers) expect(await answer.json()).to.deep.equal({ paid: "one-time" });
        });
        await agent.close();
        expect(spent).to.equal(3n * PRICE);
      });

      it("sells the body of an upstream whole, which goes on or ends while its payment settles slowly", async () => {
        const settling = await startSlowSettlement(world.facilitator.url, upstream);
        const gate = {
          ...settings(own.key).gate,
          facilitator: { url: settling.url, signers: [world.facilitator.signer] },
        };
        const relaying = await startRuntime(runtime, project, { ...settings(own.key), gate });
        const { wallet, address } = await world.agent(`a buyer of bodies from ${runtime}`);
        const agent = buyer(wallet.privateKey as Hex, { rpc: world.chain.rpcUrl, fetch: asStock });
        try {
          const spent = await spentBy(world, address, async () => {
            const bought = Object.entries(upstream.bodies).map(async ([path, { text }]) => {
              const answer = await agent.pay(`${relaying.url}${path}`);
              const got = await answer.text();
              expect([answer.status, got.length, got === text], `${path}: ${got.slice(0, 2000)}`).to.deep.equal([
                200,
                text.length,
                true,
              ]);
            });
            await Promise.all(bought);
          });
          expect(spent).to.equal(BigInt(Object.keys(upstream.bodies).length) * PRICE);
          expect(settling.settled.sort()).to.deep.equal(Object.keys(upstream.bodies).sort());
        } finally {
          await agent.close();
          await relaying.stop();
          await settling.stop();
        }
      });

      it("sells once backends answer that were silent when it started", async () => {
        const facilitator = await startSilent(world.facilitator.url);
        const rpc = await startSilent(world.chain.rpcUrl);
        const backends = {
          rpcUrl: rpc.url,
          facilitator: { url: facilitator.url, signers: [world.facilitator.signer] },
        };
        const gate = { ...settings(own.key).gate, ...backends };
        const cold = await startRuntime(runtime, project, { ...settings(own.key), gate });
        const { wallet, address } = await world.agent(`a buyer of the first hour from ${runtime}`);
        const agents = [{}, { rpc: world.chain.rpcUrl, fetch: asStock }].map((more) =>
          buyer(wallet.privateKey as Hex, { facilitators: [facilitator.url], ...more }),
        );
        try {
          await Promise.all([1, 2].map(async () => (await fetch(`${cold.url}/report`)).text()));
          for (const each of [facilitator, rpc]) each.wake();
          const spent = await spentBy(world, address, async () => {
            for (const agent of agents) {
              await until("it is sold", async () => {
                const answer = await agent.pay(`${cold.url}/report`).catch(() => undefined);
                if (answer) expect(answer.status).to.be.oneOf([200, 503]);
                return answer?.status === 200;
              });
            }
          });
          expect(spent).to.equal(2n * PRICE);
        } finally {
          for (const agent of agents) await agent.close();
          await cold.stop();
          for (const each of [facilitator, rpc]) await each.stop();
        }
      });

      it("buys", async () => {
        const spent = await spentBy(world, own.address, async () => {
          const answer = await fetch(`${running.url}/buy?of=${encodeURIComponent(`${running.url}/report`)}`);
          const said = await answer.json();
          expect(said, JSON.stringify(said)).to.include({ status: 200, amount: String(PRICE) });
        });
        expect(spent).to.equal(PRICE);
      });

      it("serves who paid while it was frozen, once", async () => {
        const { wallet, address } = await world.agent(`a patient buyer from ${runtime}`);
        const agent = buyer(wallet.privateKey as Hex);
        const spent = await spentBy(world, address, async () => {
          running.process.kill("SIGSTOP");
          const waiting = agent.pay(`${running.url}/report`);
          await world.chain.provider.send("evm_increaseTime", [120]);
          await world.chain.provider.send("evm_mine", []);
          running.process.kill("SIGCONT");
          expect((await waiting).status).to.equal(200);
        });
        await agent.close();
        expect(spent).to.equal(PRICE);
      });
    });
  }
});
