/** A Facilitator that cannot be reached: the call fails soon, says where, and signs nothing twice. */
import { expect } from "chai";
import { walletFromKey } from "turnpike/agent";
import { startChainRpc } from "./support/chain-rpc";
import { rejection } from "./support/rejection";
import { serve } from "./support/servers";
import { agentFor, marketBeforeEach, startProvider, TOKEN, transfersSigned } from "./support/world";

describe("a Facilitator that cannot be reached", () => {
  const market = marketBeforeEach();
  const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };

  /** An agent whose Facilitator refuses connections: its RPC lets it sign all the same. */
  async function agentOfDead() {
    const dead = await serve(() => ({ status: 500 }));
    await dead.close();
    const rpc = await startChainRpc(market.chain);
    const provider = await startProvider(market.chain, dead.url);
    return { dead, provider, subject: agentFor(dead.url, { policy, rpc: rpc.url }) };
  }

  it("J6 fails with Unavailable after a few attempts, names its URL, and emits that it waits", async () => {
    const { dead, provider, subject } = await agentOfDead();
    const error = await rejection(subject.agent.pay(provider.url));
    expect([error.code, error.reason]).to.deep.equal(["Unavailable", "facilitator_unreached"]);
    expect(error.message).to.include(`facilitators: ${dead.url} cannot be reached (ECONNREFUSED)`);
    expect(subject.events.map(({ type }) => type)).to.deep.equal([
      "payment.quoted",
      "payment.signing",
      "payment.signed",
      "payment.submitted",
      "payment.pending",
      "payment.held",
    ]);
  });

  it("J6 keeps the payment and its budget: the next call presents the same authorization", async () => {
    const { provider, subject } = await agentOfDead();
    await rejection(subject.agent.pay(provider.url));
    expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["signed"]);
    const other = await startProvider(market.chain, market.facilitator.url);
    expect((await rejection(subject.agent.pay(other.url))).code).to.equal("PolicyRefused");
    const again = await rejection(subject.agent.pay(provider.url));
    expect(again.code).to.equal("PaymentPending");
    expect(again.message).to.match(/the Facilitator at http:\S+ cannot be reached \(ECONNREFUSED\)/);
    expect(transfersSigned(subject)).to.equal(1);
  });

  it("J6 once it has answered anything, the outcome is unknown", async () => {
    market.facilitator.steps.push("settle_then_drop");
    const subject = agentFor(market.facilitator.url, {
      policy,
      onEvent: ({ type }) => {
        if (type === "payment.pending") void market.facilitator.close();
      },
    });
    const error = await rejection(subject.agent.pay(market.provider.url));
    expect(error.code).to.equal("PaymentPending");
    expect(transfersSigned(subject)).to.equal(1);
  });

  it("names the refusal that a 503 carries", async () => {
    const busy = {
      type: "urn:turnpike:error:Unavailable",
      title: "no",
      status: 503,
      code: "Unavailable",
      retryable: true,
      message: "Every relayer key is low on gas.",
    };
    const facilitator = await serve(({ url }) =>
      url === "/authorize" ? { status: 503, json: busy } : { status: 404, json: {} },
    );
    const rpc = await startChainRpc(market.chain);
    const provider = await startProvider(market.chain, facilitator.url);
    const subject = agentFor(facilitator.url, { policy, rpc: rpc.url, limits: { settleMs: 1_000 } });
    const error = await rejection(subject.agent.pay(provider.url));
    expect(error.code).to.equal("PaymentPending");
    expect(error.message).to.include(
      `the Facilitator at ${facilitator.url} answers Unavailable: Every relayer key is low on gas.`,
    );
  });

  it("names the provider that cannot be reached", async () => {
    const gone = await serve(() => ({ status: 500 }));
    await gone.close();
    const subject = agentFor(market.facilitator.url);
    const error = await subject.agent.pay(`${gone.url}/quote?key=secret`).catch((reason: Error) => reason);
    expect((error as Error).message).to.equal(`${gone.url}/quote cannot be reached: ECONNREFUSED`);
  });

  it("names a Facilitator that is not the agent's, the wallet without funds, and the key that is missing", async () => {
    const other = await startProvider(market.chain, "http://127.0.0.1:9/other");
    const subject = agentFor(market.facilitator.url);
    const refused = await rejection(subject.agent.pay(other.url));
    expect(refused.message).to.match(/http:\/\/127\.0\.0\.1:9\/other, which is not in the agent's `facilitators`/);
    market.chain.balance = 0n;
    const poor = await rejection(subject.agent.pay(market.provider.url));
    expect(poor.message).to.include(await subject.agent.address());
    expect(() => walletFromKey(undefined as never)).to.throw(/walletFromKey .* got undefined/);
  });
});
