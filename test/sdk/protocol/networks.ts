/** The table of chains: what it says of tokens, and what a gate and an agent make of it. */
import { expect } from "chai";
import { checksum, findNetwork, knownToken, type Network, requireNetwork, ZERO_ADDRESS } from "turnpike/protocol";
import { tokenDomain } from "../../../sdk/src/agent/payments/methods/token-domain";
import { settingsOf } from "../../../sdk/src/gate/core/settings";
import { tokensOf } from "../../../sdk/src/protocol/networks";

const CHAINS = ["base", "polygon", "arbitrum", "optimism", "avalanche", "world", "celo", "linea", "monad", "robinhood"];
const TESTNETS = ["base-sepolia", "polygon-amoy", "arbitrum-sepolia", "optimism-sepolia", "avalanche-fuji"].concat([
  "world-sepolia",
  "celo-sepolia",
  "linea-sepolia",
  "monad-testnet",
  "robinhood-testnet",
]);
const NETWORKS = [...CHAINS.map((chain) => `${chain}-mainnet`), ...TESTNETS].map((name) => requireNetwork(name));

const OPTIMISM = requireNetwork("optimism-mainnet");

const settingOf = (network: string, token?: string) =>
  settingsOf({ network, ...(token !== undefined && { token }) }, false).token;

describe("protocol > networks", () => {
  it("has each chain once, by every name", () => {
    expect(new Set(NETWORKS.map(({ chainId }) => chainId)).size).to.equal(20);
    for (const network of NETWORKS) {
      expect(findNetwork(`eip155:${network.chainId}`)).to.equal(network);
      if (network.x402v1 !== undefined) expect(findNetwork(network.x402v1)).to.equal(network);
    }
  });

  it("has tokens by their own addresses, and says which are dollars", () => {
    for (const network of NETWORKS) {
      for (const { address, symbol, currency, decimals } of tokensOf(network)) {
        expect(checksum(address.toLowerCase())).to.equal(address);
        expect(decimals).to.equal(6);
        expect(currency).to.equal(symbol === "EURC" ? undefined : "USD");
      }
    }
  });

  it("finds a token in any case, and no other", () => {
    const { address = ZERO_ADDRESS } = OPTIMISM.token ?? {};
    expect(knownToken(OPTIMISM, checksum(address.toLowerCase()))).to.equal(OPTIMISM.token);
    expect(knownToken(OPTIMISM, ZERO_ADDRESS)).to.equal(undefined);
    expect(knownToken({ name: "other", chainId: 7 }, address)).to.equal(undefined);
  });

  it("gives a gate the domain of a token where sources agree, and leaves it to the chain where they do not", () => {
    expect(settingOf("optimism-mainnet")).to.deep.include({ name: "USD Coin", version: "2", permits: true });
    const unverified = settingOf("linea-mainnet");
    expect(unverified).to.include({ symbol: "USDC", currency: "USD", permits: true });
    expect(unverified).not.to.have.any.keys("name", "version", "isUnverified");
  });

  it("sells in a token that the table knows by its address alone, a bridge's over Permit2", () => {
    expect(settingOf("base-mainnet", "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42")).to.include({ symbol: "EURC" });
    const bridged = settingOf("optimism-mainnet", "0x7f5c764cbc14f9669b88837ca1490cca17c31607");
    expect(bridged).to.include({ symbol: "USDC.e", currency: "USD", transferMethod: "permit2" });
    expect(bridged).not.to.have.any.keys("permits", "isBridged");
  });

  it("gives an agent a domain over what a seller says only where sources agree", async () => {
    const reported = { name: "Reported", version: "9" };
    const domainOn = (network: Network) => {
      const context = { tokens: [], networks: [], chainOf: () => undefined };
      const token = network.token?.address ?? ZERO_ADDRESS;
      return tokenDomain(context as never, { chainId: network.chainId, token, reported });
    };
    expect(await domainOn(OPTIMISM)).to.include({ name: "USD Coin", version: "2" });
    expect(await domainOn(requireNetwork("linea-mainnet"))).to.include(reported);
  });
});
