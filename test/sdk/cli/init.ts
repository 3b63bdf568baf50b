import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { isAddress } from "turnpike/protocol";
import { closeAll, type StandIn, serve } from "../agent/support/servers";
import { addressOf, CHAIN_ID, NETWORK, TOKEN, TURNPIKE } from "../agent/support/world";
import { expectCode, removeTerminals, type Terminal, terminal } from "./support/run";

describe("command line > init", () => {
  let facilitator: StandIn;
  let shell: Terminal;
  let tokenName: string;
  beforeEach(async () => {
    tokenName = "Test USD";
    const json = () => ({
      kinds: [],
      extensions: [],
      signers: {},
      network: NETWORK,
      chainId: CHAIN_ID,
      turnpike: TURNPIKE,
      batchSettler: TURNPIKE,
      proofSigners: [addressOf("facilitator")],
      relayers: [],
      tokens: [{ address: TOKEN, name: tokenName, version: "1", decimals: 6 }],
    });
    facilitator = await serve(() => ({ status: 200, json: json() }));
    shell = terminal();
  });
  afterEach(async () => {
    removeTerminals();
    await closeAll();
  });
  const init = (...words: string[]) => shell.run("init", ...words, "--facilitator", facilitator.url);
  const read = (...path: string[]) => readFileSync(join(shell.folder, ...path), "utf8");

  it("writes a provider that is configured for the Facilitator, with a secret of its own", async () => {
    const ran = await init("provider", "My Shop", "--pay-to", addressOf("treasury"), "--json");
    expectCode(ran, 0);
    expect(ran.json().files).to.have.members(readdirSync(join(shell.folder, "My Shop")));
    const settings = Object.fromEntries(
      read("My Shop", ".env")
        .split("\n")
        .flatMap((line) => (line.startsWith("#") || line === "" ? [] : [line.split(/=(.*)/s).slice(0, 2)])),
    );
    expect(settings).to.include({
      TURNPIKE_NETWORK: NETWORK,
      TURNPIKE_PAY_TO: addressOf("treasury"),
      TURNPIKE_FACILITATOR_URL: facilitator.url,
      TURNPIKE_FACILITATOR_SIGNERS: addressOf("facilitator"),
      TURNPIKE_TOKEN: TOKEN,
    });
    expect(settings.TURNPIKE_SECRET).to.have.length.greaterThan(40);
    expect(statSync(join(shell.folder, "My Shop", ".env")).mode & 0o077).to.equal(0);
    const { name, dependencies } = JSON.parse(read("My Shop", "package.json"));
    expect({ name, dependencies }).to.deep.equal({
      name: "my-shop",
      dependencies: { turnpike: `file:${join(__dirname, "../../../sdk")}` },
    });
  });

  it("CL2 writes an agent with a new wallet, whose key only its owner can read and no output shows", async () => {
    delete shell.env.TURNPIKE_WALLET_KEY;
    const ran = await init("agent", "buyer");
    expectCode(ran, 0);
    const key = read("buyer", "wallet.key").trim();
    expect(key).to.match(/^0x[0-9a-f]{64}$/);
    expect(statSync(join(shell.folder, "buyer", "wallet.key")).mode & 0o077).to.equal(0);
    expect(ran.out + ran.err).not.to.contain(key.slice(2));
    expect(isAddress(/Its wallet is (0x\w+)/.exec(ran.out)?.[1])).to.equal(true);
    expect(read("buyer", ".gitignore")).to.contain("wallet.key").and.to.contain(".env");
    expect(JSON.parse(read("buyer", "policy.json"))).to.deep.include({ tokens: [TOKEN], networks: [NETWORK] });
  });

  for (const name of ['USD"\nNODE_OPTIONS=--import=data:text/javascript,0', "USD\r\nPORT=1", "`id`", "$HOME"]) {
    it(`CL10 writes no settings that a Facilitator made up in the token name ${JSON.stringify(name)}`, async () => {
      tokenName = name;
      expectCode(await init("provider", "shop", "--pay-to", addressOf("treasury")), 1);
      expectCode(await init("agent", "buyer"), 1);
      expect(readdirSync(shell.folder)).to.deep.equal(["wallet.key"]);
    });
  }

  it("writes no key where the environment names a wallet", async () => {
    expectCode(await init("agent", "buyer"), 0);
    expect(readdirSync(join(shell.folder, "buyer"))).not.to.include("wallet.key");
    expect(read("buyer", ".env")).not.to.contain("TURNPIKE_WALLET_KEY");
  });

  it("CL7 writes into no folder that exists, and leaves nothing behind when it fails", async () => {
    mkdirSync(join(shell.folder, "mine"));
    writeFileSync(join(shell.folder, "mine", "server.mjs"), "my own");
    writeFileSync(join(shell.folder, "file"), "my own");
    const before = readdirSync(shell.folder);
    for (const folder of ["mine", "file", "none/there"]) {
      const ran = await init("provider", folder, "--pay-to", addressOf("treasury"));
      expectCode(ran, 2);
    }
    expectCode(await init("provider", "shop"), 2);
    expectCode(await init("provider", "shop", "--pay-to", "0x1234"), 2);
    const nobody = await init("provider", "shop", "--pay-to", `0x${"0".repeat(40)}`);
    expectCode(nobody, 2);
    expect(nobody.err).to.contain("zero address");
    await facilitator.close();
    expectCode(await init("provider", "shop", "--pay-to", addressOf("treasury")), 5);
    expect(readdirSync(shell.folder)).to.deep.equal(before);
    expect([read("mine", "server.mjs"), read("file")]).to.deep.equal(["my own", "my own"]);
  });
});
