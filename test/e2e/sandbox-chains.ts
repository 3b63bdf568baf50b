import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { Readiness } from "turnpike/facilitator";
import { quoteOf } from "../../scripts/sandbox/by-hand";
import { chainTime } from "../../scripts/sandbox/clock";
import type { SandboxState } from "../../scripts/sandbox/state";
import { DAY_SEC, until } from "../support/sandbox";
import { RUN_TYPESCRIPT } from "../support/typescript";

const ROOT = path.resolve(__dirname, "../..");

const PATIENCE_MS = 840_000;

describe("end to end > the sandbox on two chains", function () {
  this.timeout(900_000);
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-sandbox-"));
  const stateFile = path.join(folder, "state.json");
  let running: ChildProcess;
  let output = "";
  let state: SandboxState;

  /** As `npm run sandbox -- ...` calls it. */
  function command(...args: readonly string[]): ChildProcess {
    const env = { ...process.env, TURNPIKE_SANDBOX_FOLDER: folder };
    return spawn(process.execPath, [...RUN_TYPESCRIPT, "scripts/sandbox-command.ts", ...args], { cwd: ROOT, env });
  }
  async function ended(...args: readonly string[]): Promise<{ code: unknown; text: string }> {
    const child = command(...args);
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (text += chunk));
    const [code] = await once(child, "close");
    return { code, text };
  }

  before(async () => {
    running = command("--chains", "2", "--port", "0");
    for (const stream of [running.stdout, running.stderr]) stream?.on("data", (chunk) => (output += chunk));
    await until(
      "the end of the walk",
      async () => output.includes("stays up") || running.exitCode !== null,
      PATIENCE_MS,
    );
    expect(existsSync(stateFile), output).to.equal(true);
    state = JSON.parse(readFileSync(stateFile, "utf8"));
  });
  after(() => {
    running?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  it("HD36 walks flows on both, and an outage of one in which the other goes on", () => {
    expect(output).to.contain("All flows went as they must.");
    expect(output).to.contain("Chain 31337 at ").and.contain("Chain 31338 at ");
    for (const title of [
      "One route, two chains",
      "A proof of one chain at a gate of the other",
      "A subscriber on each chain",
      "The node of local-31338 stops",
      "The node of local-31338 is back",
    ])
      expect(output).to.contain(title);
    for (const title of ["A one-time payment", "Metered calls until the cap", "Signup without gas", "Cancel"])
      expect(output.split(` ${title}\n`), title).to.have.length(3);
  });

  it("HD36 publishes the facts of each, and one route is sold on both", async () => {
    const { chains = [] } = state;
    expect(chains.map(({ network }) => network)).to.deep.equal(["local-31337", "local-31338"]);
    expect(chains[0]).to.include({ rpcUrl: state.rpcUrl, chainId: state.chainId, providerUrl: state.providerUrl });
    const { accepts } = await quoteOf(`${state.providerUrl}${state.routes.anywhere?.replace("GET ", "")}`);
    expect(accepts.map(({ network }) => network).sort()).to.deep.equal(["local-31337", "local-31338"]);
    const readiness = (await (await fetch(`${state.facilitatorUrl}/readyz`)).json()) as Readiness;
    for (const { network } of chains)
      expect(
        readiness.checks.some(({ name, ok }) => ok && name === `${network}: chain`),
        network,
      ).to.equal(true);
  });

  it("HD36 moves the clock of the chain that is named, and plays its scenarios there", async () => {
    const [first, second] = state.chains ?? [];
    if (!first || !second) throw new Error("there are no two chains");
    const times = () => Promise.all([first, second].map(chainTime));
    const before = await times();
    const moved = await ended("advance", "2d", "--network", second.network);
    expect(moved.code, moved.text).to.equal(0);
    const after = await times();
    expect((after[0] ?? 0) - (before[0] ?? 0)).to.be.lessThan(DAY_SEC);
    expect((after[1] ?? 0) - (before[1] ?? 0)).to.be.at.least(2 * DAY_SEC);
    const played = await ended("scenario", "closed-plan", "--network", second.network);
    expect(played).to.deep.include({ code: 0 });
    expect(played.text).to.contain("Its successor is open: the report answers 200.");
    const unknown = await ended("advance", "1d", "--network", "base-mainnet");
    expect(unknown.code).to.equal(1);
    expect(unknown.text).to.equal("--network is base-mainnet: use local-31337 or local-31338.\n");
  });

  it("HD36 HB2 stops everything, and leaves nothing behind", async () => {
    const gone = once(running, "exit");
    running.kill("SIGINT");
    const [code] = await gone;
    expect(code, output).to.equal(0);
    expect(readdirSync(folder)).to.deep.equal([]);
    for (const { rpcUrl, providerUrl } of state.chains ?? [])
      for (const url of [rpcUrl, providerUrl])
        await until(`the end of ${url}`, async () =>
          fetch(url).then(
            () => false,
            () => true,
          ),
        );
  });
});
