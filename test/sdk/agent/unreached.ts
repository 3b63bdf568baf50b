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

  describe("in a page of another origin", () => {
    beforeEach(() => {
      Object.assign(globalThis, { location: { origin: "https://shop.example" } });
    });
    afterEach(() => {
      Reflect.deleteProperty(globalThis, "location");
    });
    /** A browser's fetch, which says of an answer without CORS headers what it says of a server that is down. */
    const browser =
      (isKept: (headers: Headers) => boolean): typeof fetch =>
      async (input, init) => {
        const url = new URL(input instanceof Request ? input.url : input);
        const isProviders = url.origin === new URL(market.provider.url).origin;
        if (isProviders && isKept(new Headers(init?.headers))) throw new TypeError("Failed to fetch");
        return fetch(input, init);
      };

    it("names CORS where the provider answers no preflight, before anything is signed", async () => {
      const subject = agentFor(market.facilitator.url, { policy, fetch: browser(() => true) });
      const error = await subject.agent.pay(market.provider.url).catch((reason: Error) => reason);
      expect((error as Error).message).to.match(
        /cannot be reached: .*\(CORS\): the provider has to answer the preflight/,
      );
      expect(transfersSigned(subject)).to.equal(0);
    });

    it("names CORS where the paid request's answer is kept from the page, and presents the same payment again", async () => {
      let isKept = true;
      const keeping = browser((headers) => isKept && headers.has("X-PAYMENT"));
      const subject = agentFor(market.facilitator.url, { policy, fetch: keeping, limits: { settleMs: 1_000 } });
      const error = await rejection(subject.agent.pay(market.provider.url));
      expect(error.code).to.equal("Unavailable");
      expect(error.message).to.match(/\(CORS\): the provider has to answer the preflight/);
      isKept = false;
      expect((await subject.agent.pay(market.provider.url)).status).to.equal(200);
      expect(transfersSigned(subject)).to.equal(1);
    });

    it("names the header that a page does not see where the 402's terms are in it alone", async () => {
      const hidden = await serve(() => ({ status: 402, json: {} }));
      const subject = agentFor(market.facilitator.url, { policy });
      const error = await rejection(subject.agent.pay(hidden.url));
      expect(error.message).to.match(/PAYMENT-REQUIRED only where .*Access-Control-Expose-Headers \(CORS\)/);
    });
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
