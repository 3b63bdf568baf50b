import { expect } from "chai";
import { walletFromKey, wrapFetchWithPayment } from "turnpike/agent";
import { ConfigError } from "turnpike/protocol";
import { agentFor, marketBeforeEach, TOKEN, testKey } from "./support/world";

describe("wrapFetchWithPayment", () => {
  const market = marketBeforeEach();
  const wallet = walletFromKey(testKey("payer"));
  const options = (perPayment = 1_000_000n) => ({
    wallet,
    policy: { perPayment, perDay: 10_000_000n, tokens: [TOKEN] },
    facilitators: [market.facilitator.url],
  });

  it("pays through the fetch that it wraps, or with an agent", async () => {
    let requests = 0;
    const counted: typeof fetch = (input, init) => {
      requests++;
      return fetch(input, init);
    };
    expect((await wrapFetchWithPayment(counted, options())(market.provider.url)).status).to.equal(200);
    expect(requests).to.be.above(1);
    const { agent } = agentFor(market.facilitator.url);
    expect((await wrapFetchWithPayment(fetch, agent)(market.provider.url)).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(2);
  });

  it("returns the 402 as it came where the policy does not allow the price", async () => {
    expect((await wrapFetchWithPayment(fetch, options(1n))(market.provider.url)).status).to.equal(402);
    expect(market.chain.transfers).to.have.length(0);
  });

  it("D23 refuses the further arguments of the stock function, and names what replaces them", () => {
    const { agent } = agentFor(market.facilitator.url);
    const wrap = wrapFetchWithPayment as (...args: readonly unknown[]) => unknown;
    for (const [given, message] of [
      [[10_000n], "argument 3 (stock: maxValue) has no effect: set policy.perPayment"],
      [
        [undefined, () => undefined],
        "argument 4 (stock: paymentRequirementsSelector) has no effect: set policy.prefer",
      ],
      [[undefined, undefined, {}], "argument 5 (stock: config) has no effect: set rpc"],
      [[undefined, undefined, undefined, 1], "argument 6 has no effect: remove it"],
    ] as const) {
      for (const payer of [agent, options()]) expect(() => wrap(fetch, payer, ...given)).to.throw(ConfigError, message);
    }
    expect(wrap(fetch, agent, undefined, undefined)).to.be.a("function");
  });

  it("refuses a wallet without limits, and a fetch that an agent would not use", () => {
    const { agent } = agentFor(market.facilitator.url);
    expect(() => wrapFetchWithPayment(fetch, wallet as never)).to.throw(ConfigError, "without limits");
    expect(() => wrapFetchWithPayment((input) => fetch(input), agent)).to.throw(ConfigError, "createAgent({ fetch })");
    expect(() => wrapFetchWithPayment(undefined as never, agent)).to.throw(ConfigError, "a fetch function first");
  });
});
