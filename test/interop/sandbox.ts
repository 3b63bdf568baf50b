import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { until } from "../../scripts/sandbox/observe";
import type { SandboxState } from "../../scripts/sandbox/state";
import { isEveryVariant } from "../support/variants";
import { clientsOf, testAccount } from "./support/clients";
import type { Hex } from "./support/stock";
import type { InteropWorld, Payer } from "./support/world";

const ROOT = path.resolve(__dirname, "../..");

describe("interop > the running sandbox", function () {
  this.timeout(480_000);
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-interop-sandbox-"));
  let sandbox: ChildProcess;
  let output = "";
  let state: SandboxState;

  before(async () => {
    const args = ["-r", "./tools/typescript.cjs", "scripts/sandbox.ts", "--port", "0", "--chain-id", "84532"];
    sandbox = spawn(process.execPath, [...args, "--folder", folder], { cwd: ROOT });
    for (const stream of [sandbox.stdout, sandbox.stderr]) stream?.on("data", (chunk) => (output += chunk));
    await until("the state", async () => existsSync(path.join(folder, "state.json")), 240_000);
    state = JSON.parse(readFileSync(path.join(folder, "state.json"), "utf8"));
  });
  after(async () => {
    const gone = once(sandbox, "exit");
    sandbox.kill("SIGTERM");
    await gone;
    rmSync(folder, { recursive: true, force: true });
  });

  async function pay(name: string): Promise<number> {
    const client = clientsOf({ chain: { rpcUrl: state.rpcUrl } } as unknown as InteropWorld)[name];
    const { address = "", privateKey = "" } = state.testKeys[0] ?? {};
    const key = privateKey as Hex;
    const payer: Payer = { kind: "key", address: address as Hex, key, account: testAccount(key) };
    const paid = await client?.pay(`${state.providerUrl}/quote?symbol=ETH`, payer, { unlimited: true });
    expect(paid?.receipt?.success, JSON.stringify(paid)).to.equal(true);
    return paid?.status ?? 0;
  }

  for (const name of ["x402-fetch", "@x402/fetch"]) {
    it(`HB5 a stock client pays the running sandbox: ${name}`, async () => {
      expect(await pay(name)).to.equal(200);
      if (!isEveryVariant) return;
      await until("the end of the walk", async () => output.includes("stays up"), 240_000);
      expect(await pay(name)).to.equal(200);
    });
  }
});
