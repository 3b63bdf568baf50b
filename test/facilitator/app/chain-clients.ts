import { expect } from "chai";
import { createAgent, walletFromKey } from "turnpike/agent";
import {
  API_SCOPES,
  createFacilitatorClient,
  type Funnel,
  refundAccountTypedData,
  submitRefund,
} from "turnpike/facilitator";
import { createProvider, memoryClaims } from "turnpike/gate";
import { type Address, caip2Of, type Hex, signDigest, type TypedData, typedDataDigest } from "turnpike/protocol";
import { type Payer, until } from "../../support/facilitator";
import { FRAMEWORKS } from "../../support/gate";
import { NETWORK_A, NETWORK_B, type SeveralService, startTwoChains, type TwoChains } from "../support/chains";
import { paymentToWire } from "../support/payments";
import type { ServiceWorld } from "../support/service";

const PRICE = 250_000n;

/** Each call of the SDK that could be understood as one of the other chain's, because token and accounts are the same. */
describe("Facilitator: the SDK's clients of two chains with a token at the same address", function () {
  this.timeout(300_000);
  let chains: TwoChains;
  let a: ServiceWorld;
  let b: ServiceWorld;
  let service: SeveralService;

  before(async () => {
    chains = await startTwoChains();
    ({ a, b } = chains);
    expect(b.contracts.token).to.equal(a.contracts.token);
    service = await chains.start();
  });
  after(() => chains?.stop());

  const providerOf = ({ provider }: ServiceWorld): Payer => ({
    address: provider.address as Address,
    key: provider.privateKey as Hex,
  });
  const signer =
    ({ key }: Payer) =>
    async (data: TypedData): Promise<Hex> =>
      signDigest(typedDataDigest(data), key);
  const deploymentOf = ({ chain, contracts }: ServiceWorld) => ({
    chainId: chain.chainId,
    turnpike: contracts.turnpike,
  });
  /** An agent without a node of its own: what it signs by, it has from the Facilitator. */
  const agentOf = ({ key }: Payer, prefer: string) =>
    createAgent({
      wallet: walletFromKey(key),
      policy: {
        perPayment: PRICE,
        perDay: 1_000_000_000n,
        perSubscription: 1_000_000_000n,
        tokens: [a.contracts.token],
        prefer: { networks: [prefer] },
      },
      facilitators: [service.url],
      deployments: [deploymentOf(a), deploymentOf(b)],
    });
  const providerKey = async ({ chain }: ServiceWorld, wallet: Payer): Promise<string> => {
    const { proofSigners } = await service.client.supported();
    const created = await service.client.createKey({
      provider: wallet.address,
      name: "of a test",
      scopes: API_SCOPES,
      chainId: chain.chainId,
      facilitator: proofSigners[0] as Address,
      sign: signer(wallet),
    });
    if (created.kind === "refused") throw created.error;
    return created.key.key;
  };

  it("HD31 an agent subscribes on the chain of the plan, and finds its subscription there", async () => {
    for (const world of [a, b]) {
      const payer = await world.payer(1_000_000_000n);
      const agent = agentOf(payer, NETWORK_A);
      try {
        const untilSec = (await world.nowSec()) + 400 * 86_400;
        const { idHash, network } = await agent.subscribe({ planId: world.planId, until: untilSec });
        expect(network).to.equal(world.contracts.network);
        const idsOn = async (chainId: number) => {
          const found = await service.client.subscriptionsOf(payer.address, { network: caip2Of(chainId) });
          return found.kind === "found" && found.value.subscriptions.map((each) => each.idHash);
        };
        expect(await idsOn(world.chain.chainId)).to.deep.equal([idHash]);
        expect(await idsOn((world === a ? b : a).chain.chainId)).to.deep.equal([]);
      } finally {
        await agent.close();
      }
    }
  });

  it("HD31 C21 a route on both chains is paid on the one that the agent prefers, and reported there", async () => {
    const wallet = providerOf(b);
    const { proofSigners } = await service.client.supported();
    const facilitator = { url: service.url, signers: proofSigners };
    const [apiKey, payee] = [await providerKey(b, wallet), wallet.address];
    const tokenOf = ({ contracts: { token: address, tokenName: name, tokenVersion: version } }: ServiceWorld) => ({
      address,
      name,
      version,
    });
    const provider = createProvider({
      network: NETWORK_B,
      token: tokenOf(b),
      payTo: payee,
      facilitator,
      pollMs: 50,
      secret: "a secret of this test, long enough to be one",
      claims: memoryClaims({ warn: false }),
      reports: { apiKey },
    });
    const elsewhere = { network: NETWORK_A, token: tokenOf(a), payTo: payee, facilitator };
    const prices = [{ amount: PRICE }, { ...elsewhere, amount: PRICE }];
    const server = await FRAMEWORKS.express(provider, [
      { path: "/report", gate: { pricing: [{ type: "one-time", prices }] } },
    ]);
    try {
      for (const world of [a, b]) {
        const agent = agentOf(await world.payer(), world.contracts.network);
        const before = (await world.transfers(payee)).length;
        const { status, receipt } = await agent.pay(`${server.url}/report`);
        expect(status).to.equal(200);
        expect(receipt?.network).to.equal(world.contracts.network);
        expect((await world.transfers(payee)).length).to.equal(before + 1);
        await agent.close();
      }
      await provider.flush();
      const asked = async (network: string) => {
        const { body } = await service.get<Funnel>(`/analytics/funnel?days=1&network=${network}`, apiKey);
        return body.steps.find(({ step }) => step === "asked")?.count ?? 0;
      };
      expect(await asked(NETWORK_B), "the gate is of this network").to.be.greaterThan(0);
      expect(await asked(NETWORK_A)).to.equal(0);
    } finally {
      await server.stop();
      await provider.close();
    }
  });

  it("HD31 a refund is signed and settled on the chain of its payment", async () => {
    for (const world of [a, b]) {
      const payee = await world.payer();
      const payer = await world.payer();
      const signed = await world.signPayment({ payer, payTo: payee.address });
      await until(
        async () => (await service.client.authorize(paymentToWire(signed))).kind === "settled",
        "the payment is settled",
      );
      const wanted = {
        target: { type: "payment", paymentId: world.idOf(signed) } as const,
        amount: 1_000n,
        token: world.contracts.token,
        payer: payer.address,
        account: payee.address,
        deployment: deploymentOf(world),
        sign: signer(payee),
      };
      await until(async () => {
        const outcome = await submitRefund(service.client, wanted);
        if (outcome.kind === "refused") throw outcome.error;
        return outcome.kind === "settled";
      }, "the refund is settled");
      const refunds = (await world.transfers(payer.address)).filter(({ from }) => from === payee.address);
      expect(refunds).to.have.length(1);
    }
  });

  it("HD31 a key is signed for on either chain, and an account of automatic refunds belongs to one", async () => {
    for (const world of [a, b]) {
      const wallet = providerOf(world);
      const apiKey = await providerKey(world, wallet);
      const client = createFacilitatorClient({ url: service.url, apiKey });
      const { proofSigners } = await client.supported();
      const terms = {
        provider: wallet.address,
        facilitator: proofSigners[0] as Address,
        account: wallet.address,
        token: world.contracts.token,
        dailyCap: 1_000n,
        version: 1,
        expiresAt: (await world.nowSec()) + 86_400,
        chainId: world.chain.chainId,
      };
      expect(refundAccountTypedData(terms).domain.chainId).to.equal(world.chain.chainId);
      const named = await client.nameRefundAccount({ ...terms, sign: signer(wallet) });
      // The service holds no key for that account: the answer says so about the right chain, instead of asking which.
      expect(named.kind === "refused" && named.error.message).not.to.contain("network");
      const network = caip2Of(world.chain.chainId);
      expect((await client.refundAccounts({ network })).kind).to.equal("found");
    }
  });
});
