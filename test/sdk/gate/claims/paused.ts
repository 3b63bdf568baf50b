/** Gates that share a folder of claims, and are paused at any call of their rotation while others rotate on. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { bundled } from "../../../support/bundled";
import { openShop, PAYMENTS, sellAll, sellOne } from "../../../support/claim-shop";
import { until } from "../../../support/until";

describe("claims of a gate that is paused while it rotates their file", function () {
  this.timeout(240_000);
  let home: string;
  let script: string;
  const children = new Set<ChildProcess>();
  before(() => {
    home = mkdtempSync(path.join(tmpdir(), "turnpike-paused-"));
    script = bundled(path.join(__dirname, "../../../support/stopped-claims.ts"), home);
  });
  after(() => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });

  const newestIn = (folder: string) =>
    Math.max(-1, ...readdirSync(folder).map((name) => Number(/^claims-(\d+)\.log$/.exec(name)?.[1] ?? -1)));

  /** Starts a gate that stops before its n-th call, and waits for that, or for its end. */
  async function startGate(folder: string, name: string, at: number) {
    const child = spawn(process.execPath, [script, folder, name, String(at)], { stdio: ["ignore", "pipe", "inherit"] });
    children.add(child);
    let text = "";
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    const closed = once(child, "close");
    let isClosed = false;
    closed.then(() => {
      isClosed = true;
    });
    await until(async () => isClosed || text.includes("stopped"), `gate ${name} stops before call ${at}`);
    return {
      /** @returns what it printed */
      async goOn(): Promise<string> {
        child.kill("SIGCONT");
        await closed;
        children.delete(child);
        return text;
      },
    };
  }

  /** Another gate: after three rotations the generation that a stopped one is about to make was made and deleted. */
  async function sellOn(folder: string): Promise<readonly number[]> {
    const store = openShop(folder);
    let others = 0;
    for (let i = 0; i < 3; i++) {
      const before = newestIn(folder);
      await until(
        async () => {
          await sellOne(store, `other ${others++}`, "another").catch(() => undefined);
          return newestIn(folder) > before;
        },
        "another gate rotates",
        30_000,
      );
    }
    const sold = await sellAll(store, "another");
    await store.close();
    return sold;
  }

  const soldIn = (text: string): number[] => [...text.matchAll(/^sold (\d+)$/gm)].map((match) => Number(match[1]));

  async function scenario(at: number, isNew: boolean, isFirstFirst: boolean): Promise<void> {
    const folder = mkdtempSync(path.join(home, `at-${at}-`));
    if (!isNew) {
      const store = openShop(folder);
      await sellOne(store, "before", "before");
      await store.close();
    }
    const first = await startGate(folder, "first", at);
    const second = await startGate(folder, "second", at);
    const sold = [...(await sellOn(folder))];
    const texts: string[] = [];
    for (const gate of isFirstFirst ? [first, second] : [second, first]) texts.push(await gate.goOn());
    for (const text of texts) sold.push(...soldIn(text));
    const late = openShop(folder);
    sold.push(...(await sellAll(late, "late")));
    await late.close();
    const where = `${texts.map((text) => text.split("\n")[0]).join(", ")}; call ${at}`;
    expect(
      sold.sort((a, b) => a - b),
      where,
    ).to.deep.equal(Array.from({ length: PAYMENTS }, (_, i) => i));
  }

  for (const { folder, isNew, order, isFirstFirst } of [
    { folder: "a folder in use", isNew: false, order: "first", isFirstFirst: true },
    { folder: "a folder in use", isNew: false, order: "second", isFirstFirst: false },
    { folder: "a new folder", isNew: true, order: "second", isFirstFirst: false },
  ]) {
    it(`serve no payment twice in ${folder}, at whichever call two gates stop; the ${order} goes on first`, async () => {
      const trial = mkdtempSync(path.join(home, "trial-"));
      const calls = Number(/^calls (\d+)$/m.exec(await (await startGate(trial, "trial", 0)).goOn())?.[1]);
      expect(calls).to.be.within(10, 60);
      const points = Array.from({ length: calls + 1 }, (_, i) => i + 1);
      const results = await Promise.allSettled(points.map((at) => scenario(at, isNew, isFirstFirst)));
      const faults = results.flatMap((result) => (result.status === "rejected" ? [String(result.reason)] : []));
      expect(faults).to.deep.equal([]);
    });
  }
});
