import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { createNarrator, mustBe } from "../../scripts/sandbox/narrate";
import type { World } from "../../scripts/sandbox/world";
import { until } from "../support/sandbox";

const ROOT = path.resolve(__dirname, "../..");

describe("end to end > the sandbox", function () {
  this.timeout(480_000);
  // Its own, so that a sandbox that somebody has running is left alone.
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-sandbox-"));
  const stateFile = path.join(folder, "state.json");

  after(() => rmSync(folder, { recursive: true, force: true }));

  /** As `npm start` calls it, the contracts being compiled. */
  function start(...args: readonly string[]): { child: ChildProcess; output: () => string } {
    const registers = ["-r", "ts-node/register/transpile-only", "-r", "tsconfig-paths/register"];
    const child = spawn(process.execPath, [...registers, "scripts/sandbox.ts", ...args], {
      cwd: ROOT,
      env: { ...process.env, TURNPIKE_SANDBOX_FOLDER: folder },
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (text += chunk));
    return { child, output: () => text };
  }

  it("walks every flow and leaves with 0, and nothing behind", async () => {
    const { child, output } = start("--exit", "--chain-id", "31340");
    const [code] = await once(child, "exit");
    expect(code, output()).to.equal(0);
    expect(output()).to.contain("All flows went as they must.").and.contain("Chain 31340");
    for (const title of [
      "A one-time payment",
      "Signup without gas",
      "A subscriber's request",
      "Several options at one gate",
      "Metered calls until the cap",
      "The cap is raised",
      "A larger plan",
      "Renewal by the clock alone",
      "Pause and resume",
      "Cancel",
      "A deprecated plan",
      "An agent that sells to agents",
      "A proof is good once",
      "Insufficient funds",
      "The Facilitator is down",
      "What the chain shows opens nothing",
      "The same purchase, retried ten times",
    ]) {
      expect(output()).to.contain(title);
    }
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  it("stays up, tells outside programs where everything is, and stops cleanly when it is interrupted", async () => {
    const { child, output } = start();
    await until("the state", async () => existsSync(stateFile), 240_000);
    const state = JSON.parse(readFileSync(stateFile, "utf8"));
    expect(state.chainId).to.equal(31_337);
    expect((await fetch(`${state.facilitatorUrl}/supported`)).status).to.equal(200);
    expect((await fetch(`${state.providerUrl}/quote`)).status).to.equal(402);
    expect(state.testKeys).to.have.length(3);
    const gone = once(child, "exit");
    child.kill("SIGINT");
    const [code] = await gone;
    expect(code, output()).to.equal(0);
    expect(readdirSync(folder)).to.deep.equal([]);
    const refused = await fetch(state.rpcUrl, { method: "POST" }).catch(() => "refused");
    expect(refused).to.equal("refused");
  });

  it("counts a step that is not as it must be, so that it leaves with 1", async () => {
    const provider = { getBlockNumber: async () => 0 };
    const contracts = { balanceOf: async () => 0n };
    const narrator = createNarrator({ chain: { provider }, contracts } as unknown as World, () => ({}));
    await narrator.step("Arithmetic", "It must hold.", async () => mustBe(1 + 1, 3, "the sum"));
    expect(narrator.failures).to.deep.equal(["1. Arithmetic: the sum must be 3, and is 2"]);
  });
});
