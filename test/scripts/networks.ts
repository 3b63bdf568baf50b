import { expect } from "chai";
import { missingFor } from "../../scripts/networks";

const KEY = `0x${"11".repeat(32)}`;
const URL = "https://rpc.example/v1/secret";
const missing = (network: string, env: Record<string, string>) =>
  missingFor(network, { TURNPIKE_RPC_URL: URL, TURNPIKE_DEPLOYER_KEY: KEY, ...env });

describe("the networks that the scripts reach", () => {
  it("are complete with an RPC server and a key, and localhost with nothing", () => {
    expect(missing("baseSepolia", {})).to.equal(undefined);
    expect(missingFor("localhost", {})).to.equal(undefined);
    expect(missing("custom", { TURNPIKE_CHAIN_ID: "84532" })).to.equal(undefined);
  });

  for (const [network, env, words] of [
    ["baseSepolia", { TURNPIKE_RPC_URL: "" }, "Network baseSepolia needs TURNPIKE_RPC_URL"],
    ["baseSepolia", { TURNPIKE_DEPLOYER_KEY: "" }, "Network baseSepolia needs TURNPIKE_DEPLOYER_KEY"],
    ["custom", {}, "Network custom needs TURNPIKE_CHAIN_ID"],
    ["localhost", { TURNPIKE_DEPLOYER_KEY: KEY.slice(2) }, "TURNPIKE_DEPLOYER_KEY is not a private key"],
    ["base", { TURNPIKE_DEPLOYER_KEY: `0x${"00".repeat(32)}` }, "TURNPIKE_DEPLOYER_KEY is not a private key"],
    ["base", { TURNPIKE_RPC_URL: "rpc.example/secret" }, "TURNPIKE_RPC_URL is not one URL"],
    ["base", { TURNPIKE_RPC_URL: "wss://rpc.example/secret" }, "TURNPIKE_RPC_URL is not one URL"],
    ["localhost", { TURNPIKE_RPC_URL: `${URL},https://other.example` }, "TURNPIKE_RPC_URL is not one URL"],
  ] as const) {
    it(`are refused by name: ${network} with ${JSON.stringify(env)}`, () => {
      const sentence = missing(network, env);
      expect(sentence).to.contain(words).and.match(/\.$/);
      expect(sentence).to.not.contain("secret");
      expect(sentence).to.not.contain(KEY.slice(2));
    });
  }
});
