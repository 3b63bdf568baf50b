/** A provider's options: what is misspelled, or of another kind than it should be, is refused by its name. */
import { expect } from "chai";
import { type ConfigError, close, configure, createProvider, memoryClaims, type ProviderOptions } from "turnpike/gate";
import { addressOf, TOKEN } from "../../../support/gate";

const SIGNER = addressOf("facilitator");

const RIGHT: ProviderOptions = {
  network: "local-31337",
  token: { address: TOKEN, name: "Test USD", version: "1", decimals: 6 },
  payTo: addressOf("treasury"),
  facilitator: { url: "http://127.0.0.1:1", signers: [SIGNER] },
  secret: "a secret of this test, long enough to be one",
  claims: memoryClaims({ warn: false }),
};

const problem = async (act: () => unknown): Promise<string> => {
  try {
    await act();
    return "accepted";
  } catch (error) {
    return `${(error as ConfigError).code ?? (error as Error).name}: ${(error as Error).message}`;
  }
};

const created = (more: object) => problem(() => createProvider({ ...RIGHT, ...more }).close());

describe("a provider's options", () => {
  const misspelled: readonly (readonly [name: string, near: string | undefined, more: object])[] = [
    ["verfiy", "verify", { verfiy: "onchain" }],
    ["trustproxy", "trustProxy", { trustproxy: true }],
    ["color", undefined, { color: "red" }],
    ["facilitator.trustUnsign", "trustUnsigned", { facilitator: { ...RIGHT.facilitator, trustUnsign: true } }],
    [
      "facilitator.signers[0].untill",
      "until",
      { facilitator: { ...RIGHT.facilitator, signers: [{ address: SIGNER, untill: 1 }] } },
    ],
    ["token.decimal", "decimals", { token: { ...(RIGHT.token as object), decimal: 6 } }],
    ["networks[0].chainID", "chainId", { networks: [{ name: "mine", chainId: 7, chainID: 8 }] }],
    [
      "networks[0].token.simbol",
      "symbol",
      {
        networks: [
          { name: "mine", chainId: 7, token: { address: TOKEN, decimals: 6, name: "A", version: "1", simbol: "A" } },
        ],
      },
    ],
    ["replay.keepsec", "keepSec", { replay: { keepsec: 5 } }],
    ["offerReceipt.keys", "key", { offerReceipt: { keys: "0x" } }],
    ["reports.apikey", "apiKey", { reports: { apikey: "tpk" } }],
  ];
  for (const [name, near, more] of misspelled) {
    it(`are refused where one is misspelled: ${name}`, async () => {
      const known = near === undefined ? "; known are " : `: did you mean ${near}?`;
      for (const refused of [await created(more), await problem(() => configure({ ...RIGHT, ...more }))]) {
        expect(refused).to.include(`ConfigError: ${name} is no known option${known}`);
      }
    });
  }
  after(() => close());

  it("are refused in a price's own token and Facilitator, as in the provider's", async () => {
    const provider = createProvider(RIGHT);
    const gate = (target: object) =>
      problem(() => provider.gate({ pricing: [{ type: "one-time", prices: [{ amount: 5, ...target }] }] }));
    expect(await gate({ token: { address: TOKEN, decimal: 6 } })).to.match(
      /^ConfigError: pricing\[0\]\.prices\[0\]\.token\.decimal is no known option/,
    );
    expect(await gate({ facilitator: { ...RIGHT.facilitator, trustUnsign: true } })).to.match(
      /^ConfigError: pricing\[0\]\.prices\[0\]\.facilitator\.trustUnsign is no known option/,
    );
    await provider.close();
  });

  const wrong: readonly (readonly [name: string, more: object])[] = [
    ["facilitator", { facilitator: "http://127.0.0.1:1" }],
    ["facilitator.url", { facilitator: { signers: [SIGNER] } }],
    ["facilitator.signers", { facilitator: { url: "http://127.0.0.1:1", signers: SIGNER } }],
    ["facilitator.signers[0]", { facilitator: { url: "http://127.0.0.1:1", signers: [7] } }],
    ["facilitator.trustUnsigned", { facilitator: { ...RIGHT.facilitator, trustUnsigned: "yes" } }],
    ["verify", { verify: "on-chain" }],
    ["networkNames", { networkNames: "v1" }],
    ["settle", { settle: "after" }],
    ["trustProxy", { trustProxy: "1" }],
    ["network", { network: 31_337 }],
    ["networks", { networks: { name: "mine", chainId: 7 } }],
    ["networks[0].name", { networks: [{ chainId: 7 }] }],
    ["networks[0]", { networks: ["base"] }],
    ["token", { token: 7 }],
    ["token.address", { token: { decimals: 6 } }],
    ["payTo", { payTo: null }],
    ["turnpike", { turnpike: {} }],
    ["rpcUrl", { rpcUrl: 8545 }],
    ["rpcUrl[0]", { rpcUrl: [8545] }],
    ["secret", { secret: 12 }],
    ["secret[1]", { secret: [RIGHT.secret, 12] }],
    ["publicUrl", { publicUrl: new URL("http://127.0.0.1:1") }],
    ["claims", { claims: 5 }],
    ["plans", { plans: `0x${"11".repeat(32)}` }],
    ["onMeterEvent", { onMeterEvent: "log" }],
    ["replay", { replay: true }],
    ["clock", { clock: 5 }],
    ["pollMs", { pollMs: "50" }],
    ["confirmations", { confirmations: 0 }],
    ["quoteLifeSec", { quoteLifeSec: "600" }],
    ["fetch", { fetch: "fetch" }],
    ["apiKey", { apiKey: 5 }],
  ];
  for (const [name, more] of wrong) {
    it(`are refused where ${name} is of another kind: ${Object.values(more).map((value) => JSON.stringify(value))}`, async () => {
      const refused = await created(more);
      expect(refused.startsWith(`ConfigError: ${name} `), refused).to.equal(true);
    });
  }

  it("never repeat a secret that is of another kind", async () => {
    for (const name of ["secret", "operatorKey", "apiKey", "receiptKey"]) {
      expect(await created({ [name]: 123_456_789 })).to.not.include("123");
    }
    const key = "ab".repeat(32);
    for (const given of [`0x${key}`, key, ` 0x${key.toUpperCase()}`]) {
      const facilitator = { url: "http://127.0.0.1:9", signers: [given] };
      for (const more of [{ payTo: given }, { turnpike: given }, { token: given }, { facilitator }]) {
        const refused = await created(more);
        expect(refused.toLowerCase())
          .to.match(/^configerror: .*form of a private key/)
          .and.not.include("abab");
      }
    }
  });

  it("are refused when there are none", async () => {
    for (const none of [undefined, null, "base-mainnet", []]) {
      expect(await problem(() => createProvider(none as never))).to.match(/^ConfigError: options /);
    }
    expect(await problem(() => configure("base-mainnet" as never))).to.match(/^ConfigError: options /);
  });

  it("know a network's own token by its address alone, as TURNPIKE_TOKEN names it", async () => {
    const token = { address: "0x036CbD53842c5426634e7929541eC2318f3dCF7e" };
    const sells = (more: object) =>
      problem(() => {
        const provider = createProvider({ ...RIGHT, network: "base-sepolia", token: { ...token, ...more } });
        provider.gate({ price: "$0.50" });
        return provider.close();
      });
    expect(await sells({})).to.equal("accepted");
    // Where the provider says anything of it, that alone counts.
    expect(await sells({ name: "USDC", version: "2" })).to.match(/^ConfigError: pricing\[0\]\.price /);
  });
});
