import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { anvilChain, findAnvil } from "../../scripts/sandbox/anvil";
import { findAnvil as ownAnvil } from "../support/anvil";
import { until } from "../support/until";

const exec = promisify(execFile);

describe("Foundry's node as the sandbox's chain", function () {
  this.timeout(120_000);
  const anvil = ownAnvil();
  if (!anvil) return void it.skip("which npm has no anvil for");
  const start = anvilChain(anvil);

  /** The processes whose command lines have all the words. */
  async function processesWith(...words: readonly string[]): Promise<number[]> {
    const { stdout } = await exec("ps", ["-eo", "pid,args"]);
    const lines = stdout.split("\n").filter((line) => words.every((word) => line.includes(word)));
    return lines.map((line) => Number.parseInt(line, 10));
  }

  it("is the package's, or a program in PATH", () => {
    const home = realpathSync(mkdtempSync(path.join(tmpdir(), "turnpike-anvil-")));
    try {
      expect(findAnvil(home, "")).to.equal(anvil);
      mkdirSync(path.join(home, "bin"));
      writeFileSync(path.join(home, "bin", path.basename(anvil)), "");
      expect(findAnvil(home, [path.join(home, "none"), path.join(home, "bin")].join(path.delimiter))).to.equal(anvil);
    } finally {
      rmSync(home, { recursive: true });
    }
  });

  it("mines each transaction at once until it has an interval, and ends when it is stopped", async () => {
    const chain = await start({ chainId: 31_341 });
    const port = new URL(chain.rpcUrl).port;
    expect((await chain.provider.getNetwork()).chainId).to.equal(31_341n);
    const wallet = await chain.wallet("one");
    expect((await (await wallet.sendTransaction({ to: wallet.address })).wait())?.status).to.equal(1);
    await chain.mineEvery(1_000);
    const block = await chain.provider.getBlockNumber();
    await until(async () => (await chain.provider.getBlockNumber()) > block, "a block comes by itself");
    await chain.stop();
    await until(async () => (await processesWith("anvil", port)).length === 0, "its processes end");
  });

  it("ends also where its guard was killed alone", async () => {
    const chain = await start();
    const port = new URL(chain.rpcUrl).port;
    const [guard] = await processesWith("with-parent.cjs", port);
    const errors: unknown[] = [];
    const { error } = console;
    console.error = (...said: unknown[]) => void errors.push(...said);
    try {
      process.kill(guard as number, "SIGKILL");
      await until(async () => (await processesWith("anvil", port)).length === 0, "its processes end");
      await until(async () => errors.length > 0, "the end is reported");
    } finally {
      console.error = error;
      await chain.stop();
    }
    expect(String(errors[0])).to.match(/^The local chain ended by itself \(SIGKILL\)/);
  });
});
