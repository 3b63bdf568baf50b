import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Wallet } from "ethers";
import {
  type Address,
  encodeJsonHeader,
  HEADER,
  type Hex,
  randomBytes,
  signDigest,
  toHex,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { oneTimeOption, quoteOf } from "../../scripts/sandbox/by-hand";
import { chainTime } from "../../scripts/sandbox/clock";
import { createNarrator, mustBe } from "../../scripts/sandbox/narrate";
import type { SandboxState } from "../../scripts/sandbox/state";
import type { World } from "../../scripts/sandbox/world";
import { DAY_SEC, until } from "../support/sandbox";
import { RUN_TYPESCRIPT } from "../support/typescript";
import { variants } from "../support/variants";

const ROOT = path.resolve(__dirname, "../..");

describe("end to end > the sandbox", function () {
  this.timeout(480_000);
  // Its own, so that a sandbox that somebody has running is left alone.
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-sandbox-"));
  const stateFile = path.join(folder, "state.json");

  const env = { ...process.env, TURNPIKE_SANDBOX_FOLDER: folder };

  after(() => rmSync(folder, { recursive: true, force: true }));

  /** As `npm start` calls it, the contracts being compiled. */
  function start(...args: readonly string[]): { child: ChildProcess; output: () => string } {
    const child = spawn(process.execPath, [...RUN_TYPESCRIPT, "scripts/sandbox.ts", ...args], {
      cwd: ROOT,
      env,
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (text += chunk));
    return { child, output: () => text };
  }

  describe("while it stays up", () => {
    let running: ReturnType<typeof start>;
    let state: SandboxState;

    before(async () => {
      running = start("--chain-id", "84532", "--port", "0");
      await until("the state", async () => existsSync(stateFile), 240_000);
      state = JSON.parse(readFileSync(stateFile, "utf8"));
    });
    after(() => running?.child.kill("SIGKILL"));

    const walked = () => until("the end of the walk", async () => running.output().includes("stays up"), 240_000);

    it("publishes its addresses to other programs, and its progress while it starts", async () => {
      expect(state.chainId).to.equal(84_532);
      expect((await fetch(`${state.facilitatorUrl}/supported`)).status).to.equal(200);
      expect((await fetch(`${state.providerUrl}/quote`)).status).to.equal(402);
      expect(state.testKeys).to.have.length(3);
      const headers = { authorization: `Bearer ${state.providerApiKey}` };
      const { provider } = await (await fetch(`${state.facilitatorUrl}/keys/current`, { headers })).json();
      expect(new Wallet(state.providerTestKey.privateKey).address).to.equal(provider);
      await until("the payment page's address", async () => running.output().includes("Payment page at"), 60_000);
      const [, page = ""] = /Payment page at (\S+)/.exec(running.output()) ?? [];
      const asked = await fetch(page, { headers: { accept: "text/html" } });
      expect([asked.status, asked.headers.get("content-type")]).to.deep.equal([402, "text/html; charset=utf-8"]);
      const steps = ["Load the Facilitator", "Start a chain", "Start the contracts", "Start the Facilitator"];
      const places = steps.map((step) => running.output().indexOf(step));
      expect(places, running.output()).to.deep.equal([...places].sort((one, other) => one - other));
      expect(places[0]).to.be.at.least(0);
      await until("the documentation's address", async () => running.output().includes("Documentation at"), 60_000);
      const [, documentation = ""] = /Documentation at (http:\/\/127\.0\.0\.1:\d+)\//.exec(running.output()) ?? [];
      expect(documentation).to.not.equal(state.facilitatorUrl);
      expect((await fetch(`${documentation}/no-such-page`)).status).to.equal(404);
    });

    it("HB5 sells to a standard client that goes by its own clock, during the walk and after it", async () => {
      expect(await paidByTheWall(state, 0)).to.equal(200);
      await walked();
      expect(running.output()).to.contain("Renewal by the clock alone").and.contain("All flows went as they must.");
      expect(await paidByTheWall(state, 1)).to.equal(200);
      expect(Math.abs((await chainTime(state)) - Date.now() / 1_000)).to.be.lessThan(DAY_SEC);
    });

    it("walks every flow", async () => {
      await walked();
      const { output } = running;
      expect(output()).to.contain("All flows went as they must.").and.contain("Chain 84532");
      for (const title of [
        "A one-time payment",
        "A refund",
        "Signup without gas",
        "A subscriber's request",
        "Several options at one gate",
        "Metered calls until the cap",
        "The cap is raised",
        "A larger plan",
        "A maximum, charged as used",
        "A tool of an MCP server",
        "A stream of tokens that ends at its cap",
        "An overcharge that an audit names",
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
        "A trial that converts",
        "A month plan over February",
      ]) {
        expect(output()).to.contain(title);
      }
      expect(output())
        .to.match(/^ {3}error InsufficientFunds: The wallet 0x/m)
        .and.match(/^ {3}error PlanDeprecated: /m)
        .and.match(/^ {3}20\d\d-02-2[89] is followed by 20\d\d-03-31$/m);
    });

    it("shows on its dashboard what the walk paid, also after it", async () => {
      await walked();
      const headers = { authorization: `Bearer ${state.providerApiKey}` };
      const { payments } = (await (await fetch(`${state.facilitatorUrl}/analytics/payments`, { headers })).json()) as {
        payments: unknown[];
      };
      expect(payments.length).to.be.greaterThan(3);
    });

    it("HB2 refuses a second sandbox in its folder, and goes on", async () => {
      const before = readFileSync(stateFile, "utf8");
      const second = start("--port", "0");
      const [code] = await once(second.child, "exit");
      expect(code).to.equal(1);
      expect(second.output()).to.match(
        /^A sandbox is already running in .* \(process \d+\)\. Stop it .*--folder PATH\.\n$/,
      );
      expect(readFileSync(stateFile, "utf8")).to.equal(before);
      expect((await fetch(`${state.facilitatorUrl}/supported`)).status).to.equal(200);
    });

    it("HB2 refuses a port that is named and in use, and does not start", async () => {
      const other = mkdtempSync(path.join(tmpdir(), "turnpike-sandbox-"));
      const port = new URL(state.facilitatorUrl).port;
      const second = start("--folder", other, "--facilitator-port", port);
      const [code] = await once(second.child, "exit");
      expect([code, second.output()]).to.deep.equal([
        1,
        `Port ${port} for the facilitator is in use. Name another one with --facilitator-port.\n`,
      ]);
      expect(readdirSync(other)).to.deep.equal([]);
      rmSync(other, { recursive: true });
    });

    it("stops cleanly when it is interrupted, also twice at once as npm and the terminal do", async () => {
      const gone = once(running.child, "exit");
      running.child.kill("SIGINT");
      running.child.kill("SIGINT");
      const [code] = await gone;
      expect(code, running.output()).to.equal(0);
      expect(readdirSync(folder)).to.deep.equal([]);
      expect(await isAnswering(state.rpcUrl)).to.equal(false);
    });
  });

  const ends = [
    ["npm is killed", ({ pid }) => process.kill(pid ?? 0, "SIGKILL")],
    ["npm is sent SIGTERM", ({ pid }) => process.kill(pid ?? 0, "SIGTERM")],
    ["npm is sent SIGINT", ({ pid }) => process.kill(pid ?? 0, "SIGINT")],
  ] as readonly (readonly [string, (npm: ChildProcess) => void])[];
  for (const [how, end] of variants(ends, 0)) {
    it(`HB2 stops everything that npm start started when ${how}`, async () => {
      const npm = spawn("npm", ["start", "--silent", "--", "--port", "0"], { cwd: ROOT, env, stdio: "ignore" });
      await until("the state", async () => existsSync(stateFile), 240_000);
      const state: SandboxState = JSON.parse(readFileSync(stateFile, "utf8"));
      end(npm);
      await until("the folder to be empty", async () => readdirSync(folder).length === 0, 60_000);
      for (const url of [state.rpcUrl, state.facilitatorUrl, state.providerUrl, state.specialistUrl])
        await until(`the end of ${url}`, async () => !(await isAnswering(url)), 60_000);
    });
  }

  it("HB2 stops without a stack trace when nobody reads its output any more", async () => {
    const { child } = start("--port", "0");
    let errors = "";
    child.stderr?.on("data", (chunk) => (errors += chunk));
    child.stdout?.once("data", () => child.stdout?.destroy());
    const [code] = await once(child, "close");
    expect([code, errors]).to.deep.equal([130, ""]);
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  it("HB2 leaves no chain behind when the sandbox itself is killed, and the next one starts in its folder", async () => {
    const { child } = start("--port", "0");
    await until("the state", async () => existsSync(stateFile), 240_000);
    const { rpcUrl }: SandboxState = JSON.parse(readFileSync(stateFile, "utf8"));
    child.kill("SIGKILL");
    await until("the end of the chain", async () => !(await isAnswering(rpcUrl)), 60_000);
    expect(readdirSync(folder)).to.include("state.json");
    const next = start("--port", "0");
    await until("its removal", async () => !existsSync(stateFile), 60_000);
    const gone = once(next.child, "exit");
    next.child.kill("SIGTERM");
    await gone;
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  it("HB2 prints its options, and refuses others with a sentence, before it starts anything", async () => {
    for (const [flag, wanted, sentence] of [
      ["--help", 0, "--facilitator-port N"],
      ["--prot", 1, "Unknown option '--prot'. Run npm start -- --help to see the options.\n"],
    ] as const) {
      const { child, output } = start(flag);
      const [code] = await once(child, "exit");
      expect(code, output()).to.equal(wanted);
      expect(output()).to.contain(sentence);
    }
  });

  it("counts a step that is not as it must be, so that it leaves with 1", async () => {
    const provider = { getBlockNumber: async () => 0 };
    const contracts = { balanceOf: async () => 0n };
    const narrator = createNarrator({ chain: { provider }, contracts } as unknown as World, () => ({}));
    await narrator.step("Arithmetic", "It must hold.", async () => mustBe(1 + 1, 3, "the sum"));
    expect(narrator.failures).to.deep.equal(["1. Arithmetic: the sum must be 3, and is 2"]);
  });
});

/** The status of the paid request of a client that signs by the wall's clock, as stock clients do. */
async function paidByTheWall(state: SandboxState, visitor: number): Promise<number> {
  const url = `${state.providerUrl}/quote?symbol=WALL${visitor}`;
  const entry = oneTimeOption(await quoteOf(url));
  const nowSec = Math.floor(Date.now() / 1_000);
  const { address, privateKey } = state.testKeys[visitor] ?? { address: "", privateKey: "" };
  const authorization = {
    from: address as Address,
    to: entry.payTo as Address,
    value: BigInt(entry.amount ?? 0),
    validAfter: BigInt(nowSec - 600),
    validBefore: BigInt(nowSec + 60),
    nonce: toHex(randomBytes(32)) as Hex,
  };
  const token = { chainId: state.chainId, token: state.token, name: state.tokenName, version: state.tokenVersion };
  const signature = signDigest(typedDataDigest(transferTypedData(token, authorization)), privateKey as Hex);
  const wire = Object.fromEntries(Object.entries(authorization).map(([name, value]) => [name, String(value)]));
  const payload = { signature, authorization: wire };
  const paid = { x402Version: 1, scheme: "exact", network: entry.network, payload };
  return (await fetch(url, { headers: { [HEADER.payment]: encodeJsonHeader(paid) } })).status;
}

async function isAnswering(url: string): Promise<boolean> {
  return fetch(url, { method: "POST" }).then(
    () => true,
    () => false,
  );
}
