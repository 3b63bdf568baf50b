import { chmod, chown, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { readWalletConfig } from "../../../sdk/src/mcp/wallet/config";
import { Wallet } from "../../../sdk/src/mcp/wallet/wallet";
import { testKey } from "../agent/support/world";

const GOOD = {
  keyFile: "key",
  policy: { perPayment: "$0.50", perDay: 2_000_000, askAbove: "0.25" },
  facilitators: ["https://facilitator.example"],
};

describe("mcp wallet > file", () => {
  let folder: string;
  let file: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-wallet-file-"));
    file = join(folder, "wallet.json");
    await writeFile(join(folder, "key"), testKey("payer"), { mode: 0o600 });
    await writeFile(file, JSON.stringify(GOOD), { mode: 0o600 });
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const faultOf = (path: string | undefined = file): Promise<string> =>
    readWalletConfig(path, {}).then(
      () => "accepted",
      (error: { code?: string; message: string }) => `${error.code}: ${error.message}`,
    );
  const faultWith = async (config: object): Promise<string> => {
    await writeFile(file, JSON.stringify(config));
    return faultOf();
  };

  it("reads prices as dollars, whole numbers as base units, and paths from the file's folder", async () => {
    const { agent, ledgerFile, reach } = await readWalletConfig(file, {});
    expect(agent.policy).to.deep.include({ perPayment: 500_000n, perDay: 2_000_000n, askAbove: 250_000n });
    expect(ledgerFile).to.equal(join(folder, "wallet-ledger.jsonl"));
    expect(reach).to.deep.include({ allowHttp: false, origins: undefined, maxBytes: 262_144 });
  });

  it("takes the key from the environment where no keyFile is named", async () => {
    const { keyFile: _none, ...withoutKey } = GOOD;
    await writeFile(file, JSON.stringify(withoutKey));
    expect(await faultOf()).to.contain("TURNPIKE_WALLET_KEY");
    const { agent } = await readWalletConfig(file, { TURNPIKE_WALLET_KEY: testKey("payer") });
    expect(agent.wallet).to.have.property("getAddress");
  });

  it("MW3 refuses no file, an unreadable one, a folder, and what is not JSON", async () => {
    expect(await readWalletConfig(undefined, {}).catch(({ message }) => message)).to.contain("TURNPIKE_WALLET_CONFIG");
    expect(await faultOf(join(folder, "none.json"))).to.match(/^ConfigError: .*ENOENT/);
    expect(await faultOf(folder)).to.contain("no regular file");
    await writeFile(file, "{");
    expect(await faultOf()).to.contain("is not JSON");
    const twice = '"perDay": "$2.00", "perDay": "$2000.00"';
    await writeFile(
      file,
      `{"keyFile": "key", "policy": {"perPayment": "$1.00", ${twice}}, "facilitators": ["https://f.example"]}`,
    );
    expect(await faultOf()).to.contain("repeats a field");
  });

  it("MW3 refuses a file that others can change or put another in the place of", async () => {
    for (const mode of [0o666, 0o602, 0o620]) {
      await chmod(file, mode);
      expect(await faultOf(), mode.toString(8)).to.contain("can be changed by other users");
    }
    await chmod(file, 0o644);
    expect(await faultOf()).to.equal("accepted");
    await chmod(folder, 0o770);
    expect(await faultOf(), "its group").to.contain("chmod go-w");
    await chmod(folder, 0o777);
    expect(await faultOf()).to.contain("a folder that other users can write to");
    await chmod(folder, 0o700);
    const open = join(folder, "open");
    await mkdir(open);
    await chmod(open, 0o777);
    await writeFile(join(open, "wallet.json"), JSON.stringify(GOOD), { mode: 0o600 });
    await symlink(join(open, "wallet.json"), join(folder, "link.json"));
    expect(await faultOf(join(folder, "link.json")), "behind a link").to.contain("other users can write to");
    const elsewhere = { ...GOOD, keyFile: join(folder, "key"), ledger: join(folder, "ledger") };
    await writeFile(file, JSON.stringify(elsewhere), { mode: 0o600 });
    await symlink(file, join(open, "link.json"));
    expect(await faultOf(join(open, "link.json")), "whose link others can change").to.contain("other users can write");
    await writeFile(file, JSON.stringify({ ...GOOD, ledger: "open/ledger.jsonl" }));
    expect(await faultOf(), "the ledger")
      .to.contain("the ledger")
      .and.to.contain("other users can write to");
    await writeFile(file, JSON.stringify(GOOD));
    await chmod(join(folder, "key"), 0o640);
    expect(await faultOf())
      .to.contain("keyFile")
      .and.to.contain("chmod 600");
  });

  it("MW3 refuses a file of another user", async () => {
    // Only root can give a file away: for others it stays their own.
    const isRoot = process.getuid?.() === 0;
    if (isRoot) await chown(file, 12_345, 12_345);
    expect(await faultOf()).to.contain(isRoot ? "belongs to another user" : "accepted");
  });

  it("MW3 refuses unknown fields at every level, and limits that are missing or unclear", async () => {
    expect(await faultWith({ ...GOOD, budget: 1 })).to.contain('"budget"');
    expect(await faultWith({ ...GOOD, policy: { ...GOOD.policy, perHour: "$1.00" } })).to.contain(
      'policy: Unrecognized key: "perHour"',
    );
    expect(await faultWith({ ...GOOD, content: { maxBytes: 2_000_000_000 } })).to.contain("content.maxBytes");
    expect(await faultWith({ ...GOOD, policy: { perPayment: "$1.00" } })).to.contain("policy.perDay");
    expect(await faultWith({ ...GOOD, policy: { ...GOOD.policy, perDay: "10" } })).to.contain("policy.perDay");
    expect(await faultWith({ ...GOOD, policy: { ...GOOD.policy, perDay: -1 } })).to.contain("policy.perDay");
    expect(await faultWith({ ...GOOD, privateOrigins: ["http://127.0.0.1:4021/"] })).to.contain("privateOrigins.0");
    expect(await faultWith({ ...GOOD, facilitators: [] })).to.contain("facilitators");
    expect(await faultWith({ ...GOOD, policy: { perPayment: "$1.00" } })).to.contain("policy.perDay: is required");
    expect(await faultWith({ ...GOOD, policy: { ...GOOD.policy, perDay: "10" } })).to.contain('write "$10.00"');
  });

  it("names the field, the value and the remedy of what cannot be an address", async () => {
    for (const entry of [
      "api.example.com",
      "*",
      "https://*",
      "https://api.example.com/",
      "",
      "ftp://api.example.com",
    ]) {
      for (const field of ["origins", "privateOrigins"]) {
        const fault = await faultWith({ ...GOOD, [field]: ["https://fine.example", entry] });
        const named = `ConfigError: ${file}: ${field}.1: is ${JSON.stringify(entry)}, and must be an origin`;
        expect(fault).to.satisfy((text: string) => text.startsWith(named), fault);
      }
    }
    for (const entry of ["facilitator.example", 7, null]) {
      expect(await faultWith({ ...GOOD, facilitators: [entry] }))
        .to.contain("facilitators.0: is")
        .and.contain("http");
      expect(await faultWith({ ...GOOD, rpc: entry }))
        .to.contain("rpc: is")
        .and.contain("http");
    }
    for (const rpc of ["http://127.0.0.1:8545", { 8453: "https://rpc.example" }]) {
      await writeFile(file, JSON.stringify({ ...GOOD, rpc }));
      expect((await readWalletConfig(file, {})).agent.rpc).to.deep.equal(rpc);
    }
    // Whatever is wrong is an error of the configuration: the wallet then starts, and every tool names it.
    const wrong = [
      ...[
        { origins: "x" },
        { privateOrigins: [1] },
        { rpc: { base: "https://rpc.example" } },
        { keyFile: 1 },
        { ledger: "" },
      ],
      ...[
        { deployments: [{ chainId: 8453, turnpike: "0x12" }] },
        { tokens: [{ chainId: 8453, address: "x", name: "a", version: "1" }] },
      ],
      ...[{ policy: { ...GOOD.policy, networks: ["nowhere"] } }, { policy: { ...GOOD.policy, payees: ["x"] } }],
      ...[{ rpc: "https://one.example" }, { facilitators: ["http://facilitator.example"] }],
    ];
    for (const more of wrong) {
      await writeFile(file, JSON.stringify({ ...GOOD, ...more }));
      const opened = readWalletConfig(file, {}).then((config) => new Wallet(config, () => undefined));
      const fault = await opened.then(
        () => "accepted",
        (error: { code?: string }) => error.code,
      );
      expect(fault, JSON.stringify(more)).to.equal("ConfigError");
    }
  });
});
