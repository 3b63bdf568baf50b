/** One route that is sold on two chains: two nodes, two Facilitators, and payments that really move money on each. */
import { createServer, type Server } from "node:http";
import { expect } from "chai";
import express from "express";
import { type Agent, type AgentPolicy, createAgent, walletFromKey } from "turnpike/agent";
import { createProvider, memoryClaims, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { encodePaymentProof, HEADER, type Hex, type PaymentRequiredWire } from "turnpike/protocol";
import { authorize, signPayment } from "../../scripts/sandbox/by-hand";
import { closeServer, listen } from "../support/gate";
import { spentBy, startSandbox, type TestAgent, UNIT, type World } from "../support/sandbox";

const OTHER_CHAIN = 31_338;

describe("interop > one route on two chains", function () {
  this.timeout(120_000);
  let home: World;
  let away: World;
  let ada: TestAgent;
  let provider: Provider;
  let server: Server;
  let url: string;
  const agents: Agent[] = [];
  let served = 0;

  before(async () => {
    [home, away] = await Promise.all([startSandbox(), startSandbox({ chainId: OTHER_CHAIN })]);
    ada = await home.agent("ada");
    await away.agent("ada");
    const dollars = (world: World) => ({
      network: world.contracts.network,
      token: { address: world.contracts.token, decimals: 6, currency: "USD" as const },
      payTo: world.providerAccount.address,
      facilitator: { url: world.facilitator.url, signers: [world.facilitator.signer] },
      rpcUrl: world.chain.rpcUrl,
    });
    provider = createProvider({
      ...dollars(home),
      claims: memoryClaims({ warn: false }),
      verify: "onchain",
      pollMs: 50,
    });
    const app = express();
    const gate = expressGate(
      provider.gate({
        pricing: [{ type: "one-time", prices: [{ price: "$0.50" }, { ...dollars(away), price: "$0.51" }] }],
      }),
    );
    app.get("/x/:n", gate, (request, response) => {
      served++;
      response.json(request.payment?.kind);
    });
    server = createServer(app);
    url = `${await listen(server)}/x`;
    await provider.ready();
  });
  after(async () => {
    for (const agent of agents) await agent.close();
    await closeServer(server);
    await provider.close();
    await Promise.all([home.stop(), away.stop()]);
  });

  function agentWith(policy: Partial<AgentPolicy>): Agent {
    const made = createAgent({
      wallet: walletFromKey(ada.wallet.privateKey as Hex),
      policy: {
        perPayment: UNIT,
        perDay: 100n * UNIT,
        tokens: [home.contracts.token, away.contracts.token],
        ...policy,
      },
      facilitators: [home.facilitator.url, away.facilitator.url],
    });
    agents.push(made);
    return made;
  }

  /** What an act moves on each chain. */
  async function spent(act: () => Promise<unknown>): Promise<readonly [home: bigint, away: bigint]> {
    let atHome = 0n;
    const isAway = await spentBy(away, ada.address, async () => {
      atHome = await spentBy(home, ada.address, act);
    });
    return [atHome, isAway];
  }

  it("takes the cheapest, and what the policy prefers, each on its own chain", async () => {
    const pay = (policy: Partial<AgentPolicy>, n: number) => spent(() => agentWith(policy).pay(`${url}/${n}`));
    expect(await pay({}, 1)).to.deep.equal([500_000n, 0n]);
    expect(await pay({ prefer: { networks: [`local-${OTHER_CHAIN}`] } }, 2)).to.deep.equal([0n, 510_000n]);
    expect(await pay({ networks: [`local-${OTHER_CHAIN}`] }, 3)).to.deep.equal([0n, 510_000n]);
  });

  it("pays once where a key names the purchase, also after the agent has lost everything", async () => {
    const prefer = { networks: [`local-${OTHER_CHAIN}`] };
    const buy = () => agentWith({ prefer }).pay(`${url}/4`, { idempotencyKey: "one purchase" });
    const [first, second] = [await spent(buy), await spent(buy)];
    expect([first, second]).to.deep.equal([
      [0n, 510_000n],
      [0n, 0n],
    ]);
  });

  it("C21 refuses the payment of one chain as the other's, though token and payee have the same addresses", async () => {
    const { accepts } = (await (await fetch(`${url}/5`)).json()) as PaymentRequiredWire;
    const [here, there] = accepts as unknown as [PaymentRequiredWire["accepts"][0], PaymentRequiredWire["accepts"][0]];
    expect([there.token, there.payTo]).to.deep.equal([here.token, here.payTo]);
    const signed = await signPayment(ada.wallet, OTHER_CHAIN, there);
    const proof = await authorize(away.facilitator.url, signed);
    const present = (paid: typeof proof) =>
      fetch(`${url}/5`, { headers: { [HEADER.payment]: encodePaymentProof(paid) } }).then(({ status }) => status);
    expect(await present({ ...proof, network: here.network })).to.equal(402);
    expect(await present({ ...proof, network: here.network, memo: here.memo as string })).to.equal(402);
    const elsewhere = { ...signed, network: here.network };
    const moved = await spent(async () => {
      expect(
        await authorize(home.facilitator.url, elsewhere).then(
          () => "settled",
          () => "refused",
        ),
      ).to.equal("refused");
    });
    expect(moved).to.deep.equal([0n, 0n]);
    const before = served;
    expect(await present(proof)).to.equal(200);
    expect(await present(proof), "its kept answer").to.equal(200);
    expect(served - before).to.equal(1);
  });
});
