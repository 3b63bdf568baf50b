/** Processes that have a lock, and are paused at any of their calls while others take it over and write. */
import path from "node:path";
import { expect } from "chai";
import { useStoppedProcesses } from "../../support/stopped-process";
import { variants } from "../../support/variants";
import { openWriter, type WriterKind } from "../../support/writers";

describe("a file whose owner is paused", function () {
  this.timeout(240_000);
  const owners = useStoppedProcesses("stopped-writer.ts");

  /** Two stop at the same call, one after the other; a third takes over, and they go on beside it. */
  async function scenario(kind: WriterKind, at: number, isFirstFirst: boolean): Promise<void> {
    const file = path.join(owners.folder(), "file");
    const kept = ["before", "third"];
    const before = await openWriter(kind, file);
    await before.keep("before");
    await before.close();
    const first = await owners.start(kind, file, "first", at);
    const second = await owners.start(kind, file, "second", at);
    const third = await openWriter(kind, file);
    await third.keep("third");
    const stopped = isFirstFirst ? [first, second] : [second, first];
    const texts: string[] = [];
    for (const owner of stopped) texts.push(await owner.goOn());
    // It may have lost its lock to one that was paused as it released its own: then it refuses, and loses nothing.
    await third.keep("third, later").then(
      () => kept.push("third, later"),
      (error: { code: string }) => expect(error.code).to.be.oneOf(["LedgerLocked", "Unavailable"]),
    );
    await third.close();
    for (const text of texts) kept.push(...[...text.matchAll(/^kept (.+)$/gm)].map((match) => String(match[1])));
    const last = await openWriter(kind, file);
    const missing = kept.filter((name) => !last.has(name));
    await last.close();
    const where = texts.map((text) => text.split("\n")[0]).join(", ");
    expect(missing, `${where}; call ${at}`).to.deep.equal([]);
  }

  for (const kind of variants(["ledger", "journal"] as const)) {
    it(`loses nothing that was kept, at whichever call of its two are paused: ${kind}`, async () => {
      const calls = await owners.calls(kind, path.join(owners.folder(), "file"), "trial");
      expect(calls.length).to.be.within(10, 150);
      const results = await Promise.allSettled(calls.map((at) => scenario(kind, at, at % 2 === 0)));
      const faults = results.flatMap((result) => (result.status === "rejected" ? [String(result.reason)] : []));
      expect(faults).to.deep.equal([]);
    });
  }
});
