/** `npx turnpike sandbox` as somebody runs it who has the package and no clone. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, symlink } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { createAgent, walletFromKey } from "turnpike/agent";
import type { SubscriptionWire } from "turnpike/facilitator";
import type { Hex } from "turnpike/protocol";
import { moveClock } from "../../scripts/sandbox/move-clock";
import type * as packaged from "../../scripts/sandbox/packaged";
import type { SandboxState } from "../../scripts/sandbox/state";
import type { SandboxProgram } from "../../sdk/src/cli/commands/sandbox";
import { findAnvil } from "../support/anvil";
import { DAY_SEC, INTERVAL_SEC } from "../support/sandbox";
import { until } from "../support/until";
import { emptyProject, type Project } from "./support/packed";

const exec = promisify(execFile);

const START_MS = 300_000;

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

describe("the sandbox of the package in an empty project", function () {
  this.timeout(600_000);
  if (!findAnvil()) return void it.skip("which npm has no anvil for");
  let project: Project;
  let sandbox: ChildProcess | undefined;

  before(async () => {
    project = await emptyProject();
    // As npm installs the program of a package.
    await mkdir(join(project.folder, "node_modules/.bin"));
    await symlink("../turnpike/dist/cli.js", join(project.folder, "node_modules/.bin/turnpike"));
  });
  after(async () => {
    if (sandbox && sandbox.exitCode === null && sandbox.signalCode === null) signalAll(sandbox, "SIGKILL");
    await project?.remove();
  });

  /** To npx, its shell and the program, as a terminal sends it. */
  const signalAll = ({ pid }: ChildProcess, signal: NodeJS.Signals) => process.kill(-(pid as number), signal);

  /** Without another anvil than the project's. */
  const searchPath = (process.env.PATH ?? "").split(delimiter).filter((each) => !existsSync(join(each, "anvil")));

  const environment = () => ({
    ...process.env,
    PATH: searchPath.join(delimiter),
    TURNPIKE_HOME: join(project.folder, "home"),
  });

  async function run(file: string, args: readonly string[]): Promise<Ended> {
    return new Promise((resolve) => {
      execFile(file, args, { cwd: project.folder, env: environment() }, (error, out, err) =>
        resolve({ code: error ? Number(error.code) : 0, out, err }),
      );
    });
  }
  const npx = (...args: string[]) => run("npx", ["--no-install", "turnpike", ...args]);

  /** @returns what it has said until it is up */
  async function start(): Promise<string> {
    let said = "";
    const child = spawn("npx", ["--no-install", "turnpike", "sandbox", "--port", "0"], {
      cwd: project.folder,
      env: environment(),
      detached: true,
    });
    sandbox = child;
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (said += chunk));
    await until(async () => said.includes("stays up") || child.exitCode !== null, "it is up", START_MS);
    expect(child.exitCode, said).to.equal(null);
    return said;
  }

  const inFolder = (name: string) => join(project.folder, ".sandbox", name);

  /** The processes that have a path of the project in their command line, this one's own children in the end. */
  async function processesOf(folder: string): Promise<string[]> {
    const { stdout } = await exec("ps", ["-eo", "args"]);
    return stdout.split("\n").filter((line) => line.includes(folder));
  }

  it("names what is to be installed for it, exactly, and what is wrong with an option", async () => {
    const away = async (name: string, act: () => Promise<Ended>): Promise<Ended> => {
      const folder = join(project.folder, "node_modules", name);
      await rename(folder, `${folder}-away`);
      return act().finally(() => rename(`${folder}-away`, folder));
    };
    const { err, code } = await away("@electric-sql", () => npx("sandbox"));
    expect([code, err]).to.deep.equal([
      2,
      "error: The sandbox needs packages that are not installed: @electric-sql/pglite. (Usage)\n" +
        `next:  Run: npm install --save-dev @electric-sql/pglite@${versionOf("@electric-sql/pglite")}\n`,
    ]);
    const both = await away("@electric-sql", () => away("@foundry-rs", () => npx("sandbox", "--json")));
    expect(JSON.parse(both.out).error.remedy).to.match(/@electric-sql\/pglite@\S+ @foundry-rs\/anvil@\S+, or have /);
    for (const [args, said] of [
      [["--prot", "1"], "--prot is not known."],
      [["--port", "many"], '--port takes a whole number up to 65530, not "many".'],
      [["--chains", "3"], '--chains takes 1 or 2, not "3".'],
    ] as const) {
      const wrong = await npx("sandbox", ...args);
      expect([wrong.code, wrong.out], wrong.err).to.deep.equal([2, ""]);
      expect(wrong.err).to.contain(said).and.contain("npx turnpike sandbox --help");
    }
    expect(await readdir(project.folder)).to.not.include(".sandbox");
  });

  const versionOf = (name: string) => project.manifest.peerDependencies[name]?.replace("^", "");

  it("is up with a Facilitator and its dashboard, and a printed key pays once", async () => {
    const said = await start();
    const [settings = ""] = /(?<=^ {2})export TURNPIKE_WALLET_KEY=.*$/m.exec(said) ?? [];
    const [purchase = ""] = /(?<=^ {2}npx )turnpike pay .*$/m.exec(said) ?? [];
    const paid = await run("bash", ["-c", `${settings}\nnpx --no-install ${purchase}`]);
    expect([paid.code, paid.out], paid.err).to.deep.equal([0, '{"symbol":"ETH","price":"1234.56"}\n']);
    expect(paid.err).to.contain("paid 0.50");
    const { dashboardUrl } = await state();
    const page = await fetch(dashboardUrl, { headers: { accept: "text/html" } });
    expect(await page.text()).to.match(/<script[^>]+src=/);
  });

  it("renews a subscription when its clock moves", async () => {
    const { facilitatorUrl, network, chainId, turnpike, token, rpcUrl, plans, providerUrl, ...facts } = await state();
    const agent = createAgent({
      wallet: walletFromKey(facts.testKeys[1]?.privateKey as Hex),
      policy: { perPayment: 0, perDay: 100_000_000, perSubscription: 50_000_000, tokens: [token] },
      facilitators: [facilitatorUrl],
      deployments: [{ chainId, turnpike }],
      rpc: rpcUrl,
    });
    try {
      const { idHash, paidThroughSec } = await agent.subscribe({ planId: plans.reader, origins: [providerUrl] });
      await moveClock({ facilitatorUrl, network, apiKey: facts.providerApiKey }, INTERVAL_SEC + DAY_SEC);
      const renewed = await fetch(`${facilitatorUrl}/subscriptions/${idHash}`);
      const { paidThrough } = (await renewed.json()) as SubscriptionWire;
      expect(paidThrough - paidThroughSec).to.equal(INTERVAL_SEC);
    } finally {
      await agent.close();
    }
  });

  it("has its folder to itself, and leaves no process and no state when it is interrupted", async () => {
    const second = await npx("sandbox", "--port", "0");
    expect(second.code, second.out).to.equal(2);
    expect(second.err).to.contain("is already running").and.contain("npx turnpike sandbox --folder PATH");
    const { rpcUrl, facilitatorUrl, providerUrl } = await state();
    const child = sandbox as ChildProcess;
    expect(await processesOf(project.folder)).to.not.deep.equal([]);
    const gone = once(child, "exit");
    signalAll(child, "SIGINT");
    await gone;
    await isGone(rpcUrl, facilitatorUrl, providerUrl);
    expect(await readdir(join(project.folder, ".sandbox"))).to.deep.equal([]);
  });

  it("ends with npx when that alone is killed", async () => {
    await start();
    const { rpcUrl, facilitatorUrl, providerUrl } = await state();
    (sandbox as ChildProcess).kill("SIGKILL");
    await isGone(rpcUrl, facilitatorUrl, providerUrl);
    expect(await readdir(join(project.folder, ".sandbox"))).to.deep.equal([]);
  });

  async function isGone(...urls: readonly string[]): Promise<void> {
    await until(async () => (await processesOf(project.folder)).length === 0, "its processes end");
    for (const url of urls) expect(await fetch(url).then(String, () => "no answer"), url).to.equal("no answer");
  }

  const state = async (): Promise<SandboxState> => JSON.parse(await readFile(inFolder("state.json"), "utf8"));
});

/** What the command calls is what the bundle has. */
type Agreed = typeof packaged extends SandboxProgram ? true : never;
const agreed: Agreed = true;
void agreed;
