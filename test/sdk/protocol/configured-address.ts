/** Addresses that people configure: mixed case carries a checksum, and a wrong one is a mistyped digit. */
import { expect } from "chai";
import { createAgent, walletFromKey } from "turnpike/agent";
import { createProvider, memoryClaims, type ProviderOptions } from "turnpike/gate";
import { addressSchema, type ConfigError, checksum, configuredAddress, requireNetwork } from "turnpike/protocol";

const RIGHT = checksum("0x52908400098527886e0f7030069857d2e4169ee7");
const OTHER = checksum("0xde709f2102306220921060314715629080e2fb77");
/** one digit of a checksummed address is another one */
const WRONG = checksum("0x8ba1f109551bd432803012645ac136ddd64dba72").replace("551", "561");

const problem = (act: () => unknown): string => {
  try {
    act();
    return "accepted";
  } catch (error) {
    return `${(error as ConfigError).code}: ${(error as Error).message}`;
  }
};

describe("configured addresses", () => {
  const gate = (more: Partial<ProviderOptions>) => () =>
    createProvider({
      network: "local-31337",
      token: { address: OTHER, name: "Test USD", version: "1" },
      payTo: OTHER,
      facilitator: { url: "http://127.0.0.1:1", signers: [OTHER] },
      secret: "a secret of this test, long enough to be one",
      claims: memoryClaims({ warn: false }),
      ...more,
    }).close();
  const agent =
    (more: object, policy: object = {}) =>
    () =>
      createAgent({
        wallet: walletFromKey(`0x${"11".repeat(32)}`),
        policy: { perPayment: 1, perDay: 1, ...policy },
        facilitators: ["http://127.0.0.1:1"],
        ...more,
      });
  const custom = (address: string) => [{ ...requireNetwork("local-31337"), token: { ...{}, address } }] as never;

  const settings: Readonly<Record<string, (address: string) => () => unknown>> = {
    payTo: (payTo) => gate({ payTo }),
    token: (token) => gate({ token }),
    "token.address": (address) => gate({ token: { address, name: "Test USD", version: "1" } }),
    turnpike: (turnpike) => gate({ turnpike }),
    "facilitator.signers": (address) => gate({ facilitator: { url: "http://127.0.0.1:1", signers: [address] } }),
    "facilitator.signers with an end": (address) =>
      gate({ facilitator: { url: "http://127.0.0.1:1", signers: [OTHER, { address, until: 1 }] } }),
    "networks of a gate": (address) => gate({ networks: custom(address) }),
    "policy.tokens": (token) => agent({}, { tokens: [token] }),
    "policy.payees": (payee) => agent({}, { payees: [payee] }),
    deployments: (turnpike) => agent({ deployments: [{ chainId: 31337, turnpike }] }),
    "facilitators' signers": (signer) => agent({ facilitators: [{ url: "http://127.0.0.1:1", signers: [signer] }] }),
    "networks of an agent": (address) => agent({ networks: custom(address) }),
  };
  for (const [name, configure] of Object.entries(settings)) {
    it(`J4 refuses a mistyped digit in ${name}, and accepts one case throughout`, () => {
      const refused = problem(configure(WRONG));
      expect(refused).to.match(/^ConfigError: /);
      expect(refused).to.include(`${WRONG} fails its checksum: a digit was mistyped`);
      const upper = `0x${RIGHT.slice(2).toUpperCase()}`;
      for (const accepted of [RIGHT, RIGHT.toLowerCase(), upper]) {
        expect(problem(configure(accepted)), accepted).to.equal("accepted");
      }
    });
  }

  it("J4 names the field", () => {
    expect(problem(gate({ payTo: WRONG }))).to.equal(
      `ConfigError: payTo ${WRONG} fails its checksum: a digit was mistyped`,
    );
    expect(problem(() => configuredAddress("0x12", "payTo", "no address"))).to.equal("ConfigError: no address");
  });

  it("accepts any case on the wire", () => {
    expect(addressSchema.parse(WRONG)).to.equal(checksum(WRONG));
  });
});
