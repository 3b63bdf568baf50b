/** What the Facilitator makes of the variables that an operator wrote. */
import { expect } from "chai";
import { checksum } from "turnpike/protocol";
import { loadConfig, loadDatabase } from "../../../facilitator/src/config";
import { testKey } from "../../support/chain";

const RIGHT = checksum(`0x${"8ba1f109551bd432803012645ac136ddd64dba72"}`);
const WRONG = RIGHT.replace("551", "561");
const token = (address: string) => JSON.stringify([{ address, name: "Test USD", version: "1" }]);

const environment = {
  CHAIN_ID: "31337",
  RPC_URLS: "http://127.0.0.1:8545",
  TURNPIKE: RIGHT,
  BATCH_SETTLER: RIGHT,
  TOKENS: token(RIGHT),
  RELAYER_KEYS: testKey("relayer"),
  PROOF_KEY: testKey("proof signer"),
};

const problem = (change: Readonly<Record<string, string>>): string => {
  try {
    loadConfig({ ...environment, ...change });
    return "accepted";
  } catch (error) {
    return (error as Error).message;
  }
};

describe("Facilitator: settings", () => {
  const written: Readonly<Record<string, (address: string) => string>> = {
    TURNPIKE: (address) => address,
    BATCH_SETTLER: (address) => address,
    TOKENS: token,
    PAY_TO: (address) => `${RIGHT},${address}`,
    OPERATORS: (address) => address,
    PROOF_SIGNERS: (address) => `${address}@1790000000`,
  };
  for (const [name, write] of Object.entries(written)) {
    it(`J4 refuse a mistyped digit in ${name}, and accept one case throughout`, () => {
      expect(problem({ [name]: write(WRONG) })).to.match(
        new RegExp(`^${name} ${WRONG} fails its checksum: a digit was mistyped`),
      );
      for (const accepted of [RIGHT, RIGHT.toLowerCase(), `0x${RIGHT.slice(2).toUpperCase()}`]) {
        expect(problem({ [name]: write(accepted) }), accepted).to.equal("accepted");
      }
    });
  }

  it("A8 refuse contracts of the service as WALLET_FACTORIES, because the relayer calls those with a payer's data", () => {
    const other = checksum(`0x${"12".repeat(20)}`);
    expect(problem({ WALLET_FACTORIES: other })).to.equal("accepted");
    expect(problem({ WALLET_FACTORIES: `${other},${RIGHT.toLowerCase()}` })).to.contain(
      `WALLET_FACTORIES names ${RIGHT}`,
    );
  });

  const contradictions: Readonly<Record<string, readonly [Readonly<Record<string, string>>, RegExp]>> = {
    "a token twice": [{ TOKENS: JSON.stringify([RIGHT, RIGHT].flatMap((one) => JSON.parse(token(one)))) }, /^TOKENS /],
    "a relayer key twice": [{ RELAYER_KEYS: [1, 2].map(() => testKey("relayer")).join() }, /^RELAYER_KEYS names a key/],
    "a batch below one payment": [{ BATCH_GAS: "500000", GAS_PER_ITEM: "450000" }, /^BATCH_GAS 500000 .* 550000/],
    "windows that end before they may begin": [{ MIN_WINDOW_SEC: "60", MAX_WINDOW_SEC: "60" }, /^MIN_WINDOW_SEC 60/],
    "a tip above the ceiling": [{ PRIORITY_FEE_WEI: "9", MAX_FEE_PER_GAS_WEI: "8" }, /^PRIORITY_FEE_WEI 9 is above/],
    "one port for both": [{ PORT: "8402", METRICS_PORT: "8402" }, /^METRICS_PORT and PORT are both 8402/],
  };
  for (const [what, [change, message]] of Object.entries(contradictions))
    it(`J10 refuse ${what}, and name the settings`, () => {
      expect(problem(change)).to.match(message);
      expect(problem(change)).not.to.include(testKey("relayer").slice(2));
    });

  it("J10 accept the bounds of the same settings", () => {
    const bounds = { BATCH_GAS: "500000", GAS_PER_ITEM: "400000", MIN_WINDOW_SEC: "59", MAX_WINDOW_SEC: "60" };
    const more = { PRIORITY_FEE_WEI: "8", MAX_FEE_PER_GAS_WEI: "8", PORT: "0", METRICS_PORT: "0" };
    expect(problem({ ...bounds, ...more })).to.equal("accepted");
  });

  it("J10 name every one that is wrong, each in a line", () => {
    const both = problem({ BATCH_GAS: "500000", GAS_PER_ITEM: "450000", MIN_WINDOW_SEC: "60", MAX_WINDOW_SEC: "60" });
    expect(both.split("\n").map((line) => line.split(" ")[0])).to.deep.equal(["BATCH_GAS", "MIN_WINDOW_SEC"]);
    const low = problem({ BATCH_GAS: "1", MIN_WINDOW_SEC: "0", PORT: "x" });
    expect(low.split("\n").map((line) => line.split(" ")[0])).to.deep.equal(["BATCH_GAS", "MIN_WINDOW_SEC", "PORT"]);
  });

  it("serve the metrics on a port of their own, unless they are to be public", () => {
    const portOf = (change: Readonly<Record<string, string>>) => loadConfig({ ...environment, ...change }).metricsPort;
    expect([portOf({}), portOf({ METRICS_PORT: "0" }), portOf({ METRICS_PORT: "public" })]).to.deep.equal([
      9_464,
      0,
      undefined,
    ]);
    expect(problem({ METRICS_PORT: "yes" })).to.match(/^METRICS_PORT must be a port, or public/);
  });

  it("take away the quotes that a shell would, and readers of env files leave", () => {
    expect(problem({ TOKENS: `'${token(RIGHT)}'` })).to.equal("accepted");
    expect(problem({ TOKENS: `'${token(RIGHT)}` })).to.match(/^TOKENS must be JSON/);
  });

  it("of the database are enough to migrate", () => {
    const { database } = loadDatabase({ DATABASE_URL: "postgres://x@127.0.0.1/y" });
    expect(database.kind).to.equal("postgres");
    expect(() => loadDatabase({ DATABASE_POOL_SIZE: "0" })).to.throw(/^DATABASE_POOL_SIZE must be at least 2/);
  });

  it("name what is no address as that", () => {
    expect(problem({ TURNPIKE: "0x12" })).to.match(/^TURNPIKE must be an address/);
  });

  it("name a key that the curve does not have", () => {
    expect(problem({ PROOF_KEY: `0x${"00".repeat(32)}` })).to.match(/^PROOF_KEY must be a private key .*not all zeros/);
  });

  it("name the key file that is missing or holds no key, and no key", () => {
    expect(problem({ PROOF_KEY: "file:/nowhere/proof_key" })).to.match(
      /^PROOF_KEY names the file \/nowhere\/proof_key, which does not exist/,
    );
    expect(problem({ PROOF_KEY: `file:${__filename}` })).to.match(/settings\.ts, which holds no private key/);
    expect(problem({ PROOF_KEY: `file:${environment.PROOF_KEY}` })).to.not.include(environment.PROOF_KEY.slice(2));
  });

  it("name every variable that is missing at once", () => {
    expect(problem({ TURNPIKE: "", TOKENS: "", CHAIN_ID: "" })).to.match(
      /^3 settings are missing: CHAIN_ID, TURNPIKE, TOKENS\. /,
    );
    expect(problem({ TURNPIKE: "" })).to.match(/^TURNPIKE is missing: /);
    expect(problem({ RELAYER_KEYS: "", PROOF_KEY: "" })).to.match(
      /^2 settings are missing: RELAYER_KEYS, PROOF_KEY\. /,
    );
  });
});
