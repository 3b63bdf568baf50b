/** Which of several offered tokens the agent pays with. */
import { expect } from "chai";
import { type AgentOptions, createAgent, type Preference, walletFromKey } from "turnpike/agent";
import { ConfigError, checksum } from "turnpike/protocol";
import { startChainRpc } from "./support/chain-rpc";
import { rejection } from "./support/rejection";
import { agentFor, CHAIN_ID, marketBeforeEach, startProvider, TOKEN, testKey } from "./support/world";

const OTHER = checksum(`0x${"80".repeat(20)}`);
const POLICY = { perPayment: 1_000_000n, perDay: 10_000_000n, tokens: [TOKEN, OTHER] };

describe("an agent that is offered several tokens", () => {
  const market = marketBeforeEach();

  /** Offers TOKEN, and OTHER for one unit more; returns which one the agent asked to have settled, or why none. */
  async function paidWith(prefer: Preference | undefined, more: Partial<AgentOptions> = {}, key?: string) {
    const provider = await startProvider(market.chain, market.facilitator.url, {
      body(body) {
        const [entry] = body.accepts as [Record<string, string>];
        const amount = String(BigInt(entry.amount ?? "0") + 1n);
        const other = { ...entry, token: OTHER, asset: OTHER, amount, maxAmountRequired: amount };
        return { ...body, accepts: [entry, other] };
      },
    });
    market.facilitator.steps.push({ refuse: "InsufficientFunds" });
    const policy = { ...POLICY, ...(prefer && { prefer }) };
    const { agent } = agentFor(market.facilitator.url, { policy, ...more });
    const refused = await rejection(agent.pay(provider.url, key === undefined ? {} : { idempotencyKey: key }));
    const posted = market.facilitator.seen.filter(({ url }) => url === "/authorize").at(-1);
    if (!posted) return refused.code;
    return (JSON.parse(posted.body) as { signedPayment: { token: string } }).signedPayment.token;
  }

  /** The agent's own RPC, by which the wallet holds OTHER alone. */
  const holdsOther = async () => ({
    rpc: { [CHAIN_ID]: (await startChainRpc(market.chain, { [TOKEN.toLowerCase()]: 0n })).url },
  });

  it("pays with the cheapest unless its policy prefers another", async () => {
    expect(await paidWith(undefined)).to.equal(TOKEN);
    expect(await paidWith({ tokens: [OTHER] })).to.equal(OTHER);
    expect(await paidWith({ tokens: [OTHER, TOKEN] })).to.equal(OTHER);
    expect(await paidWith({ networks: ["base-mainnet"] })).to.equal(TOKEN);
  });

  it("never lets a preference widen what may be paid", async () => {
    const policy = { ...POLICY, tokens: [TOKEN], prefer: { tokens: [OTHER] } };
    expect(await paidWith(undefined, { policy })).to.equal(TOKEN);
  });

  it("pays with what its wallet holds, where its own RPC shows that", async () => {
    expect(await paidWith(undefined, await holdsOther())).to.equal(OTHER);
  });

  it("D19 chooses by nothing that changes where a key names the purchase", async () => {
    expect(await paidWith(undefined, await holdsOther(), "purchase 1")).to.equal("InsufficientFunds");
  });

  it("refuses a preference for a network or token that is none, by the name of the field", () => {
    const made = (prefer: Preference) => () =>
      createAgent({ wallet: walletFromKey(testKey("payer")), policy: { ...POLICY, prefer }, facilitators: [] });
    expect(made({ networks: ["moon"] })).to.throw(ConfigError, "policy.prefer.networks");
    expect(made({ tokens: ["0x12"] })).to.throw(ConfigError, "policy.prefer.tokens");
  });
});
