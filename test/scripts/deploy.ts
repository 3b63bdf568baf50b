import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Contract, Wallet } from "ethers";
import { lensAddressOf, lensInterface } from "turnpike/chain";
import { readArtifact } from "../../scripts/deploy/artifact";
import { CREATE2_DEPLOYER } from "../../scripts/deploy/create2";
import { type Chain, startChain, testKey } from "../support/chain";

const ROOT = path.resolve(__dirname, "../..");
const CLI = require.resolve("hardhat/internal/cli/cli.js");
const DEPLOY = ["run", "--no-compile", "scripts/deploy.ts", "--network"];
const TURNPIKE = "contracts/Turnpike.sol";

describe("scripts on a fresh node", function () {
  this.timeout(120_000);
  let chain: Chain;
  let directory: string;

  before(async () => {
    chain = await startChain({ chainId: 31_338 });
    directory = mkdtempSync(path.join(tmpdir(), "turnpike-deploy-"));
    await chain.wallet("deployer");
  });
  after(async () => {
    await chain.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  interface Run {
    readonly code: number;
    readonly stdout: string;
    readonly stderr: string;
  }
  /** Hardhat's command line, as a user would call it, with the chain and the key in the environment. */
  const hardhat = (...args: readonly string[]): Promise<Run> => hardhatWith({}, ...args);
  const hardhatWith = (env: Record<string, string>, ...args: readonly string[]): Promise<Run> =>
    new Promise((resolve) => {
      const all = {
        ...process.env,
        HARDHAT_NETWORK: "",
        TURNPIKE_RPC_URL: chain.rpcUrl,
        TURNPIKE_DEPLOYER_KEY: testKey("deployer"),
        TURNPIKE_DEPLOYMENTS: directory,
        ...env,
      };
      execFile(process.execPath, [CLI, ...args], { cwd: ROOT, env: all }, (error, stdout, stderr) => {
        resolve({ code: error ? 1 : 0, stdout, stderr });
      });
    });
  const account = new Wallet(testKey("deployer")).address;
  const record = () => JSON.parse(readFileSync(path.join(directory, "local-31338.json"), "utf8"));

  it("deploys both contracts and records their addresses", async () => {
    const { code, stderr } = await hardhat(...DEPLOY, "localhost");
    expect(code, stderr).to.equal(0);
    for (const [field, source, name] of [
      ["turnpike", TURNPIKE, "Turnpike"],
      ["batchSettler", "contracts/BatchSettler.sol", "BatchSettler"],
    ] as const) {
      const artifact = readArtifact(source, name);
      const { address, block, transaction, initCodeHash } = record()[field];
      const receipt = await chain.provider.getTransactionReceipt(transaction);
      expect(receipt).to.include({ blockNumber: block, to: CREATE2_DEPLOYER, status: 1 });
      expect(initCodeHash).to.equal(artifact.initCodeHash);
      expect(artifact.isRuntimeCode(await chain.provider.getCode(address))).to.equal(true);
    }
    expect(record().compiler).to.match(/^0\.8\.37\+commit\./);
  });

  it("changes nothing when it runs again, and finds the block again without a record", async () => {
    const before = record();
    const nonce = await chain.provider.getTransactionCount(account);
    expect(await hardhat(...DEPLOY, "localhost")).to.include({ code: 0 });
    expect(record()).to.deep.equal(before);
    rmSync(path.join(directory, "local-31338.json"));
    expect(await hardhat(...DEPLOY, "localhost")).to.include({ code: 0 });
    expect(record().turnpike.block).to.equal(before.turnpike.block);
    expect(await chain.provider.getTransactionCount(account)).to.equal(nonce);
  });

  it("creates a plan with a grace of its own choosing, once, deprecates it, and stops it", async () => {
    // Any account with code will do for a token here; Turnpike itself would be refused.
    const terms = ["--token", record().batchSettler.address, "--amount", "1000000", "--name", "Pro"];
    const first = await hardhat("plan:create", "--network", "localhost", ...terms);
    expect(first.code, first.stderr).to.equal(0);
    const planId = first.stdout.trim();
    expect(planId).to.match(/^0x[0-9a-f]{64}$/);
    const again = await hardhat("plan:create", "--network", "localhost", ...terms);
    expect(again).to.include({ code: 0, stdout: first.stdout });
    expect(again.stderr).to.contain("exists already");
    expect(await hardhat("plan:deprecate", "--network", "localhost", "--plan", planId)).to.include({ code: 0 });
    const twice = await hardhat("plan:deprecate", "--network", "localhost", "--plan", planId);
    expect(twice.code).to.not.equal(0);
    expect(twice.stderr).to.contain("PlanDeprecated");
    const stopped = await hardhat("plan:stop", "--network", "localhost", "--plan", planId);
    expect(stopped.code, stopped.stderr).to.equal(0);
    const lens = new Contract(lensAddressOf(record().turnpike.address), lensInterface, chain.provider);
    expect((await lens.getFunction("getPlan")(planId)).stopped).to.equal(true);
  });

  it("warns of a grace of zero", async () => {
    const terms = ["--token", record().batchSettler.address, "--amount", "1", "--grace", "0"];
    const { code, stderr } = await hardhat("plan:create", "--network", "localhost", ...terms);
    expect(code, stderr).to.equal(0);
    expect(stderr).to.contain("Warning: with a grace of 0");
  });

  it("names the argument of a plan that is wrong, without a stack trace", async () => {
    const token = record().batchSettler.address;
    for (const [words, ...args] of [
      ['--amount is "10.5": write whole base units', "plan:create", "--token", token, "--amount", "10.5"],
      ["field token", "plan:create", "--token", account, "--amount", "1"],
      ["months", "plan:create", "--token", token, "--amount", "1", "--months", "0"],
      ['--plan is "0x12": a plan\'s id is', "plan:deprecate", "--plan", "0x12"],
      ["UnknownPlan", "plan:operator", "--plan", `0x${"ab".repeat(32)}`, "--operator", account],
    ] as const) {
      const [task = "", ...rest] = args;
      const { code, stderr } = await hardhat(task, "--network", "localhost", ...rest);
      expect(code, stderr).to.equal(1);
      expect(stderr).to.contain("Error in plugin turnpike").and.contain(words).and.not.contain("unexpected error");
    }
  });

  it("states in one sentence what a network lacks, and only when that network is used", async () => {
    const { code, stderr } = await hardhatWith({ TURNPIKE_DEPLOYER_KEY: "" }, ...DEPLOY, "base");
    expect(code).to.not.equal(0);
    expect(stderr).to.contain("Network base needs TURNPIKE_DEPLOYER_KEY").and.not.contain("TURNPIKE_RPC_URL");
  });

  it("refuses a chain without Cancun", async () => {
    const old = await startChain({ chainId: 31_339, hardfork: "shanghai" });
    try {
      await old.wallet("deployer");
      const { code, stderr } = await hardhatWith({ TURNPIKE_RPC_URL: old.rpcUrl }, ...DEPLOY, "localhost");
      expect(code).to.equal(1);
      expect(stderr).to.contain("Chain 31339 does not run Cancun's opcodes");
    } finally {
      await old.stop();
    }
  });
});
