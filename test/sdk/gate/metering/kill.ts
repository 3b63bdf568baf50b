import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import { type Chain, startChain } from "../../../support/chain";
import { type MeteredWorld, startMeteredWorld } from "../../../support/metered-world";
import { RUN_TYPESCRIPT } from "../../../support/typescript";

const ROOT = path.resolve(__dirname, "../../../..");
const SCRIPT = path.join(ROOT, "test/support/metered-process.ts");
const LIVES = 4;
const SMALL_CAP = 2_000n;
const PARALLEL_COST = 8n * 50n;

describe("Metering and kill -9", function () {
  this.timeout(240_000);
  let chain: Chain;
  let world: MeteredWorld;
  let folder: string;
  const children: ChildProcess[] = [];

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-kill-"));
    chain = await startChain({ blockMs: 150 });
    world = await startMeteredWorld(chain);
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    world?.close();
    await chain?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function launch(idHashes: readonly Hex[], drain: boolean) {
    const assignment = {
      rpcUrl: chain.rpcUrl,
      chainId: chain.chainId,
      turnpike: await world.turnpike.getAddress(),
      operatorKey: world.operator.privateKey,
      idHashes,
      drain,
      journal: path.join(folder, "journal"),
    };
    // A file, not a pipe: it keeps what the child wrote before it was killed.
    const outputFile = path.join(folder, `output-${children.length}`);
    const errors = path.join(folder, `errors-${children.length}`);
    const [out, err] = [openSync(outputFile, "a"), openSync(errors, "a")];
    const child = spawn(process.execPath, [...RUN_TYPESCRIPT, SCRIPT, JSON.stringify(assignment)], {
      cwd: ROOT,
      stdio: ["ignore", out, err],
    });
    children.push(child);
    closeSync(out);
    closeSync(err);
    const read = (file: string) => () => readFileSync(file, "utf8");
    return { child, output: read(outputFile), errors: read(errors), ended: once(child, "exit") };
  }

  const sumOf = (text: string, word: string): bigint =>
    [...text.matchAll(new RegExp(`^${word} (\\d+)$`, "gm"))].reduce((sum, [, amount]) => sum + BigInt(amount ?? 0), 0n);

  it("A28 charges are debited exactly once by a provider that is killed repeatedly under load", async () => {
    const ids: Hex[] = [];
    for (let i = 0; i < 4; i++) {
      ids.push(await world.subscribe(await chain.wallet(`killed ${i}`), i === 0 ? SMALL_CAP : 10n ** 12n));
    }
    const before = await world.token.getFunction("balanceOf")(world.payTo);
    let [acknowledged, asked] = [0n, 0n];
    let lives = 0;
    // A slow machine needs more lives to reach a significant load.
    for (; lives < LIVES || acknowledged <= 10_000n; lives++) {
      const { child, output, errors, ended } = await launch(ids, false);
      const lifeMs = 100 + Math.floor(Math.random() * 900);
      while (!output().includes("ready")) {
        expect(child.exitCode, errors()).to.equal(null);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      // A timer, so that no step determines when the process dies.
      await new Promise((resolve) => setTimeout(resolve, lifeMs));
      child.kill("SIGKILL");
      await ended;
      expect(errors()).to.equal("");
      acknowledged += sumOf(output(), "charged");
      asked += sumOf(output(), "asked");
    }
    const { output, errors, ended } = await launch(ids, true);
    await ended;
    const report = /^report (\d+) (\d+) (\d+) (\d+)$/m.exec(output());
    expect(report, errors()).to.not.equal(null);
    const [charged, settled, lost, unsettled] = (report ?? []).slice(1).map(BigInt);

    const debited = await world.debited();
    const sum = debited.reduce((total, { amount }) => total + amount, 0n);
    expect([lost, unsettled]).to.deep.equal([0n, 0n]);
    expect(charged, "the journal's charges").to.equal(sum);
    expect(settled).to.equal(sum);
    expect((await world.token.getFunction("balanceOf")(world.payTo)) - before).to.equal(sum);
    expect(sum >= acknowledged, `acknowledged ${acknowledged}, debited ${sum}`).to.equal(true);
    expect(
      sum <= acknowledged + BigInt(lives) * PARALLEL_COST,
      `acknowledged ${acknowledged}, debited ${sum}, asked ${asked}`,
    ).to.equal(true);
    const ofSmall = debited.filter(({ idHash }) => idHash === ids[0]).reduce((total, { amount }) => total + amount, 0n);
    expect(ofSmall, "C13 the cap, to the unit").to.equal(SMALL_CAP);
  });
});
