/** The kinds of wallets that an agent signs with: what they sign is the same payment. */
import { expect } from "chai";
import { BrowserProvider, Wallet } from "ethers";
import { type AgentWallet, createAgent } from "turnpike/agent";
import { ConfigError } from "turnpike/protocol";
import { bare, highS } from "../../support/signature-forms";
import { type BrowserWalletOptions, browserWallet } from "./support/browser-wallet";
import { rejection } from "./support/rejection";
import { addressOf, agentFor, marketBeforeEach, testKey } from "./support/world";

describe("an agent's wallet", () => {
  const market = marketBeforeEach();

  const agentOf = (wallet: AgentWallet) => agentFor(market.facilitator.url, { wallet }).agent;

  const writing = (form: (signature: string) => string): AgentWallet => {
    const wallet = new Wallet(testKey("payer"));
    return {
      getAddress: () => wallet.getAddress(),
      signTypedData: async (...signed: unknown[]) =>
        form(await wallet.signTypedData(...(signed as [never, never, never]))),
    };
  };
  const WALLETS: Record<string, () => AgentWallet | Promise<AgentWallet>> = {
    "an ethers Wallet": () => new Wallet(testKey("payer")),
    "one that writes a v of 0 or 1": () => writing(bare),
    "one that writes a high s": () => writing(highS),
    "an ethers BrowserProvider's signer": () => new BrowserProvider(browserWallet()).getSigner(),
    "an EIP-1193 provider": () => browserWallet(),
    "an EIP-1193 provider that hashes the type EIP712Domain as it is given": () =>
      browserWallet({ domainType: (given) => given }),
    "an EIP-1193 provider that shares no account yet": () => browserWallet({ isShared: false }),
  };
  for (const [kind, make] of Object.entries(WALLETS)) {
    it(`pays as ${kind}`, async () => {
      const response = await agentOf(await make()).pay(market.provider.url);
      expect(response.status).to.equal(200);
      expect(response.receipt?.payer).to.equal(addressOf("payer"));
      expect(market.chain.transfers).to.have.length(1);
    });
  }

  it("signs nothing and pays nothing when the user declines, and asks again the next time", async () => {
    const wallet = browserWallet({ isShared: false, declines: 2 });
    const agent = agentOf(wallet);
    for (const asked of ["eth_requestAccounts", "eth_signTypedData_v4"]) {
      const refused = await rejection(agent.pay(market.provider.url));
      expect([refused.code, refused.reason]).to.deep.equal(["PolicyRefused", "wallet"]);
      expect(wallet.asked.at(-1), "no further question after a no").to.be.oneOf([asked, "eth_requestAccounts"]);
    }
    expect(market.chain.transfers).to.have.length(0);
    expect((await agent.pay(market.provider.url)).status).to.equal(200);
  });

  for (const [how, domainType] of Object.entries<NonNullable<BrowserWalletOptions["domainType"]>>({
    "in another order": (given) => [...given].reverse(),
    "without the version": (given) => given.filter(({ name }) => name !== "version"),
    "without the chain": (given) => given.filter(({ name }) => name !== "chainId"),
    "without a field": () => [],
  })) {
    it(`pays nothing by one that signs the type EIP712Domain ${how}, and counts what it has signed`, async () => {
      const wallet = browserWallet({ domainType });
      const agent = agentOf(wallet);
      expect((await rejection(agent.pay(market.provider.url))).code).to.equal("InvalidSignature");
      expect(market.chain.transfers).to.have.length(0);
      expect(wallet.asked.filter((asked) => asked === "eth_signTypedData_v4")).to.have.length(1);
      expect((await agent.budget()).spent).to.equal(500_000n);
    });
  }

  it("says of a wallet that sends calls alone (EIP-5792) what it lacks", async () => {
    for (const code of [4200, -32_601]) {
      const { request } = browserWallet();
      const wallet: AgentWallet = {
        request: async (asked) => {
          if (asked.method !== "eth_signTypedData_v4") return request(asked);
          throw Object.assign(new Error("The method does not exist."), { code });
        },
      };
      const refused = await rejection(agentOf(wallet).pay(market.provider.url));
      expect([refused.code, refused.reason]).to.deep.equal(["PolicyRefused", "wallet"]);
      expect(refused.message).to.contain("it has no eth_signTypedData_v4. Use a wallet");
    }
    expect(market.chain.transfers).to.have.length(0);
  });

  it("refuses what is no wallet, by what is missing", () => {
    const made = (wallet: unknown) => () =>
      createAgent({ wallet: wallet as AgentWallet, policy: { perPayment: 1, perDay: 1 }, facilitators: [] });
    for (const wallet of [undefined, {}, { address: addressOf("payer") }, "0x12"]) {
      expect(made(wallet), String(wallet)).to.throw(ConfigError, "wallet must have signTypedData");
    }
  });
});
