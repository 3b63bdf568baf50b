/** Gates that share a folder of claims, and are paused at any call of their rotation while others rotate on. */
import { readdirSync } from "node:fs";
import { expect } from "chai";
import { openShop, PAYMENTS, sellAll, sellOne } from "../../../support/claim-shop";
import { useStoppedProcesses } from "../../../support/stopped-process";
import { until } from "../../../support/until";

/** Gates are paused at one call in so many; `npm run test:deep` has them paused at each. */
const STEP = Number(process.env.PAUSE_STEP ?? 3);

describe("claims of a gate that is paused while it rotates their file", function () {
  this.timeout(240_000);
  const gates = useStoppedProcesses("stopped-claims.ts");

  const newestIn = (folder: string) =>
    Math.max(-1, ...readdirSync(folder).map((name) => Number(/^gate-(\d+)\.log$/.exec(name)?.[1] ?? -1)));

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
    const folder = gates.folder();
    if (!isNew) {
      const store = openShop(folder);
      await sellOne(store, "before", "before");
      await store.close();
    }
    const first = await gates.start(folder, "first", at);
    const second = await gates.start(folder, "second", at);
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

  for (const isNew of [false, true]) {
    it(`serve no payment twice in ${isNew ? "a new folder" : "a folder in use"}, whichever call two gates are paused at`, async () => {
      const calls = await gates.calls(gates.folder(), "trial");
      expect(calls.length).to.be.within(10, 90);
      const some = calls.filter((at) => at % STEP === 0);
      const results = await Promise.allSettled(some.map((at) => scenario(at, isNew, at % 2 === 0)));
      const faults = results.flatMap((result) => (result.status === "rejected" ? [String(result.reason)] : []));
      expect(faults).to.deep.equal([]);
    });
  }
});
