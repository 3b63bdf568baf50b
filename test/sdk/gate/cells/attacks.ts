/** Faults of disks, of other programs and of operators, which must not sell a payment twice or lose a charge. */
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { TurnpikeError } from "turnpike/protocol";
import { memoryCells } from "../../../../sdk/src/gate/cells/cells";
import { LogCells, type LogOptions } from "../../../../sdk/src/gate/cells/log";
import { CellTable } from "../../../../sdk/src/gate/cells/log/line";
import { claimsOn } from "../../../../sdk/src/gate/purchases/store";
import { attempt, idOf, NOW_MS } from "../support/claim-store";

describe("a log of cells under attack", () => {
  let folder: string;
  const open: LogCells[] = [];
  const plain = { ...fs };

  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(tmpdir(), "turnpike-attack-"));
  });
  afterEach(async () => {
    const { fdatasync, openSync, writeSync } = plain;
    Object.assign(fs, { fdatasync, openSync, writeSync });
    for (const cells of open.splice(0)) await cells.close();
    fs.rmSync(folder, { recursive: true, force: true });
  });

  function opened(options: Partial<LogOptions> = {}): LogCells {
    const cells = new LogCells({
      ...{ folder, name: "log", what: "claims", rotateBytes: 1_000_000, onFailure: () => undefined },
      ...options,
    });
    cells.open();
    open.push(cells);
    return cells;
  }
  const file = (generation = 0): string => path.join(folder, `log-${generation}.log`);
  const put = (cells: LogCells, key: string, expected: string | undefined, next: string, isDurable = false) =>
    cells.swap([{ key, expected, next }], { isDurable });
  const textOf = async (cells: LogCells, key: string) => (await cells.read([key]))[0];
  const resultOf = (done: Promise<unknown>) => done.then(String, ({ code }: TurnpikeError) => code);

  it("takes back no change of another process that was on disk before it was acknowledged", async () => {
    const [first, second] = [opened(), opened()];
    await put(first, "account", undefined, "0", true);
    // Only the first process's syncs fail: the disk reports a fault once for each that has the file open.
    let isBroken = true;
    let hold: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      hold = resolve;
    });
    (fs as { fdatasync: unknown }).fdatasync = (fd: number, done: (error: Error | null) => void) => {
      if (!isBroken) return plain.fdatasync(fd, done);
      isBroken = false;
      void held.then(() => done(Object.assign(new Error("broken"), { code: "EIO" })));
    };
    const refused = [resultOf(put(first, "account", "0", "10", true))];
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(isBroken).to.equal(false);
    expect(await put(second, "account", "10", "20 acknowledged", true)).to.equal(true);
    await first.read(["account"]);
    refused.push(resultOf(put(first, "account", "20 acknowledged", "30", true)));
    await new Promise((resolve) => setTimeout(resolve, 20));
    hold();
    expect(await Promise.all(refused)).to.deep.equal(["Unavailable", "Unavailable"]);
    expect(await textOf(opened(), "account")).to.equal("20 acknowledged");
  });

  it("survives a moment without file descriptors: it is no fault of the disk", async () => {
    const cells = opened();
    (fs as { openSync: unknown }).openSync = (name: string, ...rest: unknown[]) => {
      if (name === folder) throw Object.assign(new Error("too many"), { code: "EMFILE" });
      return (plain.openSync as (...all: unknown[]) => number)(name, ...rest);
    };
    const first = resultOf(put(cells, "a", undefined, "1", true));
    await new Promise((resolve) => setTimeout(resolve, 50));
    Object.assign(fs, { openSync: plain.openSync });
    await first;
    expect(await resultOf(put(cells, "b", undefined, "1", true))).to.equal("true");
  });

  it("makes no change that was refused, whichever byte was the first that the disk did not take", async () => {
    const cells = opened();
    await put(cells, "a", undefined, "1");
    let missing = 1;
    (fs as { writeSync: unknown }).writeSync = (fd: number, line: string, ...rest: unknown[]) => {
      const length = missing;
      missing = 0;
      return (plain.writeSync as (...all: unknown[]) => number)(fd, line.slice(0, line.length - length), ...rest);
    };
    const text = (await resultOf(put(cells, "a", "1", "2"))) === "true" ? "2" : "1";
    await put(cells, "b", undefined, "1");
    expect(await textOf(cells, "a")).to.equal(text);
    expect(await textOf(opened(), "a"), "for others").to.equal(text);
  });

  it("makes a change once that the disk took but for its last byte, and then, with an answer less, whole", async () => {
    const cells = opened({ answersBytes: 1_000_000 });
    await cells.swap([
      { key: "x", expected: undefined, next: "used" },
      { key: "answer@x", expected: undefined, next: "old", keepSec: 600, untilSec: 1 },
    ]);
    let missing = 1;
    (fs as { writeSync: unknown }).writeSync = (fd: number, line: string, ...rest: unknown[]) => {
      const length = missing;
      missing = 0;
      return (plain.writeSync as (...all: unknown[]) => number)(fd, line.slice(0, line.length - length), ...rest);
    };
    expect(await put(cells, "a", undefined, "1")).to.equal(true);
  });

  it("refuses a key that would damage the file for everybody", async () => {
    for (const key of ["a\tb", "a\nb", "ключ", "\0"]) {
      const cells = opened();
      await resultOf(put(cells, key, undefined, "1"));
      expect(await resultOf(put(opened(), `after${open.length}`, undefined, "1")), JSON.stringify(key)).to.equal(
        "true",
      );
    }
  });

  for (const [name, harm] of [
    ["deleted", () => fs.rmSync(file())],
    ["emptied", () => fs.truncateSync(file(), 0)],
    [
      "replaced by a copy",
      () => {
        fs.cpSync(file(), path.join(folder, "copy"));
        fs.renameSync(path.join(folder, "copy"), file());
      },
    ],
  ] as const) {
    it(`sells nothing twice where its file is ${name} under a running process`, async () => {
      const old = opened();
      for (let i = 0; i < 20; i++) await put(old, `k${i}`, undefined, "used");
      harm();
      const young = opened();
      const sold: string[] = [];
      for (const [by, cells] of [
        ["young", young],
        ["old", old],
      ] as const) {
        for (let i = 0; i < 60; i++) {
          const key = `payment ${i}`;
          // As a claim does: it looks, and then swaps.
          if ((await resultOf(put(cells, key, undefined, by))) === "true") sold.push(key);
        }
      }
      expect(sold.length).to.equal(new Set(sold).size);
      expect(sold.length, "one of them sells").to.equal(60);
    });
  }

  it("finds a cell that was swept swept, though an earlier moment is swept right after", async () => {
    const table = new CellTable();
    for (let i = 0; i < 3_000; i++) table.replay(["C", `k${i}`, "1", "", "950", "free"]);
    const first = table.sweep(1_000);
    expect(table.find("k2999")).to.equal(undefined);
    const second = table.sweep(900);
    expect(table.find("k2999")).to.equal(undefined);
    await Promise.all([first, second]);
    expect(table.find("k2999")).to.equal(undefined);
  });

  it("sells no payment whose record it cannot read", async () => {
    const cells = memoryCells();
    await cells.swap([{ key: idOf(1), expected: undefined, next: "S used  1 0 2000000000 of a later version;" }]);
    const store = claimsOn(cells);
    const found = await attempt(store, idOf(1), NOW_MS).then(
      ({ kind }) => kind,
      ({ code }: TurnpikeError) => code,
    );
    expect(found).to.not.equal("acquired");
  });
});
