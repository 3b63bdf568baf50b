import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import type { TurnpikeError } from "turnpike/protocol";
import { LogCells, type LogOptions } from "../../../../sdk/src/gate/cells/log";
import { framed } from "../../../../sdk/src/gate/cells/log/line";

describe("a log of cells", () => {
  let folder: string;
  const open: LogCells[] = [];
  let mend = (): void => undefined;

  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(tmpdir(), "turnpike-log-"));
  });
  afterEach(async () => {
    mend();
    await closed();
    fs.rmSync(folder, { recursive: true, force: true });
  });

  async function closed(): Promise<void> {
    for (const cells of open.splice(0)) await cells.close();
  }
  function opened(options: Partial<LogOptions> = {}): LogCells {
    const cells = new LogCells({ folder, name: "log", what: "claims", rotateBytes: 1_000_000, ...options });
    open.push(cells);
    return cells;
  }
  const file = (generation = 0): string => path.join(folder, `log-${generation}.log`);
  const put = (cells: LogCells, key: string, expected: string | undefined, next: string, isDurable = false) =>
    cells.swap([{ key, expected, next }], { isDurable });
  const textOf = async (cells: LogCells, key: string) => (await cells.read([key]))[0];
  const codeOf = (done: Promise<unknown>) => done.then(String, ({ code }: TurnpikeError) => code);

  /** Makes syncs fail as often as asked. */
  function breakSyncs(): void {
    const whole = fs.fdatasync;
    const fault = Object.assign(new TypeError("broken"), { code: "EIO" });
    (fs as { fdatasync: unknown }).fdatasync = (_fd: number, done: (error: Error) => void) => setImmediate(done, fault);
    mend = () => void Object.assign(fs, { fdatasync: whole });
  }

  it("is readable only by its owner", async () => {
    await put(opened(), "a", undefined, "1");
    expect(fs.statSync(file()).mode & 0o077).to.equal(0);
  });

  it("has what was made before a last line that is torn at any byte, and what is appended after it", async () => {
    const cells = opened();
    await put(cells, "a", undefined, "1");
    const whole = fs.statSync(file()).size;
    await put(cells, "a", "1", "2");
    await closed();
    const bytes = fs.readFileSync(file());
    for (let at = whole; at <= bytes.length; at++) {
      fs.writeFileSync(file(), bytes.subarray(0, at));
      // The line break at its end is no part of the line.
      const last = at >= bytes.length - 1 ? "2" : "1";
      expect(await put(opened(), "b", undefined, "3"), `torn at ${at}`).to.equal(true);
      expect(await opened().read(["a", "b"]), `torn at ${at}`).to.deep.equal([last, "3"]);
      await closed();
    }
  });

  it("is refused with a changed bit, also in its frame, rather than read in part", async () => {
    const cells = opened();
    for (const key of ["a", "b", "c"]) await put(cells, key, undefined, "12345");
    await closed();
    const sound = fs.readFileSync(file());
    // Lines have a line break before and after them: the last one is whole without its own.
    for (let bit = 0; bit < 8 * (sound.length - 1); bit++) {
      const bytes = Buffer.from(sound);
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
      fs.writeFileSync(file(), bytes);
      const read = new LogCells({ folder, name: "log", what: "claims", rotateBytes: 1_000 });
      try {
        read.open();
        expect(await read.read(["a", "b", "c"]), `bit ${bit}`).to.deep.equal(Array(3).fill("12345"));
      } catch (error) {
        expect((error as Error).message, `bit ${bit}`).to.match(/log-0\.log is damaged/);
      } finally {
        await read.close();
      }
    }
  });

  it("is used no more by a process that finds a sound line of an unknown kind", async () => {
    const cells = opened();
    await put(cells, "a", undefined, "1");
    fs.appendFileSync(file(), framed("Z\tof a later version"));
    expect(await codeOf(put(cells, "a", "1", "2"))).to.equal("Unavailable");
    expect(await codeOf(cells.read(["a"]))).to.equal("Unavailable");
    expect(() => cells.requireHealthy()).to.throw(/does not know/);
  });

  it("takes back what was refused because the disk failed, and is used no more until a restart", async () => {
    const failures: string[] = [];
    const cells = opened({ onFailure: ({ code }) => failures.push(code) });
    await put(cells, "a", undefined, "1", true);
    breakSyncs();
    const refused = [put(cells, "a", "1", "2", true), put(cells, "b", undefined, "3", true)];
    expect(await Promise.all(refused.map(codeOf))).to.deep.equal(["Unavailable", "Unavailable"]);
    mend();
    expect(await codeOf(put(cells, "a", "1", "2", true))).to.equal("Unavailable");
    expect(() => cells.requireHealthy()).to.throw(/cannot be written/);
    expect(failures).to.deep.equal(["Unavailable"]);
    expect(await opened().read(["a", "b"]), "for others").to.deep.equal(["1", undefined]);
    await closed();
    expect(await opened().read(["a", "b"]), "after a restart").to.deep.equal(["1", undefined]);
  });

  it("shares one sync among durable changes of a turn, and has each on disk before it is reported", async () => {
    const cells = opened();
    const whole = fs.fdatasync;
    let syncs = 0;
    (fs as { fdatasync: unknown }).fdatasync = (fd: number, done: (error: Error | null) => void) => {
      syncs++;
      whole(fd, done);
    };
    mend = () => void Object.assign(fs, { fdatasync: whole });
    await Promise.all(Array.from({ length: 100 }, (_, i) => put(cells, `k${i}`, undefined, "1", true)));
    expect(syncs).to.equal(1);
    await put(cells, "claim", undefined, "1");
    expect(syncs, "a claim survives the end of the process, and waits for no disk").to.equal(1);
  });

  it("is refused on a file system of another machine", () => {
    const whole = fs.statfsSync;
    (fs as { statfsSync: unknown }).statfsSync = () => ({ type: 0x6969 });
    mend = () => void Object.assign(fs, { statfsSync: whole });
    expect(() => opened().open()).to.throw(/network/);
  });

  it("leaves out what has expired by chain time when a generation is begun, and nothing by a clock that jumps", async () => {
    const cells = opened({ rotateBytes: 1 });
    const kept = (key: string, untilSec: number, nowSec: number) =>
      cells.swap([{ key, expected: undefined, next: "used", keepSec: 1, untilSec }], { nowSec, nowMs: 9e12 });
    await kept("a", 1_000, 500);
    await kept("b", 5_000, 500);
    for (let i = 0; i < 20; i++) {
      await kept(`n${i}`, 5_000, 900);
      await new Promise(setImmediate);
    }
    expect(await textOf(cells, "a")).to.equal("used");
    for (let i = 20; i < 80; i++) {
      await kept(`n${i}`, 5_000, 2_000);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await closed();
    expect(await opened().read(["a", "b"])).to.deep.equal([undefined, "used"]);
    expect(fs.existsSync(file(0)), "older generations are gone").to.equal(false);
  });

  interface Act {
    readonly user: number;
    readonly keys: readonly number[];
    readonly isRight: boolean;
    readonly isDurable: boolean;
    readonly act: "swap" | "read" | "reopen" | "wait";
  }

  const acts = fc.array(
    fc.record<Act>({
      user: fc.nat(2),
      keys: fc.uniqueArray(fc.nat(4), { minLength: 1, maxLength: 3 }),
      isRight: fc.boolean(),
      isDurable: fc.boolean(),
      act: fc.constantFrom("swap", "swap", "swap", "swap", "read", "reopen", "wait"),
    }),
    { minLength: 1, maxLength: 60 },
  );

  it("has what one map would have, for users that come, go and begin generations in any order", async function () {
    this.timeout(120_000);
    await fc.assert(
      fc.asyncProperty(acts, async (all) => {
        const home = fs.mkdtempSync(path.join(folder, "run-"));
        const make = () => new LogCells({ folder: home, name: "log", what: "claims", rotateBytes: 200 });
        const users = [make(), make(), make()];
        const model = new Map<string, string>();
        let turn = 0;
        for (const { user, keys, isRight, isDurable, act } of all) {
          const cells = users[user] as LogCells;
          const names = keys.map((key) => `k${key}`);
          if (act === "wait") await new Promise((resolve) => setTimeout(resolve, 2));
          if (act === "reopen") {
            await cells.close();
            users[user] = make();
          }
          if (act === "read") expect(await cells.read(names)).to.deep.equal(names.map((name) => model.get(name)));
          if (act !== "swap") continue;
          const next = `${++turn} of ${user}`;
          const changes = names.map((key, i) => {
            const expected = isRight || i < names.length - 1 ? model.get(key) : "of nobody";
            return { key, expected, next };
          });
          expect(await cells.swap(changes, { isDurable })).to.equal(isRight);
          if (isRight) for (const name of names) model.set(name, next);
        }
        for (const cells of [...users, make()]) {
          expect(await cells.read([...model.keys()])).to.deep.equal([...model.values()]);
          await cells.close();
        }
      }),
      { numRuns: 60 },
    );
  });

  it("counts every step of users that count together", async () => {
    const users = [opened({ rotateBytes: 2_000 }), opened({ rotateBytes: 2_000 }), opened({ rotateBytes: 2_000 })];
    const count = async (cells: LogCells): Promise<void> => {
      for (let made = 0; made < 60; ) {
        const before = await textOf(cells, "count");
        await new Promise(setImmediate);
        if (await put(cells, "count", before, String(Number(before ?? 0) + 1))) made++;
      }
    };
    await Promise.all([...users, ...users].map(count));
    expect(await textOf(opened(), "count")).to.equal("360");
  });
});
