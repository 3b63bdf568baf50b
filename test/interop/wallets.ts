/** viem's own accounts and clients as an agent's wallet. */
import { expect } from "chai";
import type { AgentWallet } from "turnpike/agent";
import { browserWallet } from "../sdk/agent/support/browser-wallet";
import { addressOf, agentFor, marketBeforeEach, testKey } from "../sdk/agent/support/world";
import { accounts, viem } from "./support/stock";

describe("interop > viem as an agent's wallet", () => {
  const market = marketBeforeEach();

  const WALLETS: Record<string, () => unknown> = {
    "a local account": () => accounts().privateKeyToAccount(testKey("payer")),
    "a WalletClient with a local account": () =>
      viem().createWalletClient({
        account: accounts().privateKeyToAccount(testKey("payer")),
        transport: viem().custom(browserWallet()),
      }),
    "a WalletClient with an address": () =>
      viem().createWalletClient({ account: addressOf("payer"), transport: viem().custom(browserWallet()) }),
    "a WalletClient without an account": () => viem().createWalletClient({ transport: viem().custom(browserWallet()) }),
  };
  for (const [kind, make] of Object.entries(WALLETS)) {
    it(`pays as ${kind}`, async () => {
      const { agent } = agentFor(market.facilitator.url, { wallet: make() as AgentWallet });
      const response = await agent.pay(market.provider.url);
      expect([response.status, response.receipt?.payer]).to.deep.equal([200, addressOf("payer")]);
      expect(market.chain.transfers).to.have.length(1);
    });
  }
});
