/** A loss of power at any call: what was not synced may be gone, of files and of names. */
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import type { TurnpikeError } from "turnpike/protocol";
import { LogCells } from "../../../../sdk/src/gate/cells/log";

const CALLS = ["writeSync", "linkSync", "rmSync", "fdatasync", "fsync", "openSync"] as const;

const plan = fc.record({
  acts: fc.array(fc.record({ user: fc.nat(1), key: fc.nat(3), isDurable: fc.boolean(), waits: fc.boolean() }), {
    minLength: 5,
    maxLength: 40,
  }),
  /** at which call the power is lost */
  at: fc.nat(200),
  /** which calls of fdatasync fail, after which the system counts the bytes as written */
  broken: fc.array(fc.nat(30), { maxLength: 2 }),
  /** which of the unsynced names, and how much of the unsynced bytes, is there nevertheless */
  luck: fc.array(fc.nat(100), { minLength: 16, maxLength: 16 }),
});

describe("a log of cells after a loss of power", () => {
  it("has every durable change that was acknowledged, and no later one than was asked for", async function () {
    this.timeout(300_000);
    const home = fs.mkdtempSync(path.join(tmpdir(), "turnpike-power-"));
    const plain = { ...fs };
    try {
      await fc.assert(
        fc.asyncProperty(plan, async ({ acts, at, broken, luck }) => {
          const folder = plain.mkdtempSync(path.join(home, "run-"));
          const after = plain.mkdtempSync(path.join(home, "after-"));
          const acked = new Map<string, number>();
          const asked = new Map<string, number>();
          /** bytes on disk, by inode */
          const synced = new Map<number, number>();
          /** bytes that never will be, though later syncs succeed */
          const holes = new Map<number, (readonly [from: number, to: number])[]>();
          /** descriptors that were open at a failure, which each gets once */
          const failing = new Set<number>();
          const opened = new Set<number>();
          let names = new Map<string, number>();
          /** contents of what has no name any more */
          const ghosts = new Map<number, Buffer>();
          let [calls, syncs, isLost, lucky] = [0, 0, false, 0];
          let ackedThen = new Map<string, number>();
          let askedThen = new Map<string, number>();
          const listed = () =>
            new Map(
              plain.readdirSync(folder).flatMap((name) => {
                const stat = plain.statSync(path.join(folder, name), { throwIfNoEntry: false });
                return stat?.isFile() ? [[name, stat.ino] as const] : [];
              }),
            );
          const inodeOf = (fd: number): number | undefined => {
            try {
              return plain.fstatSync(fd).ino;
            } catch {
              return undefined;
            }
          };
          const chance = () => luck[lucky++ % luck.length] as number;

          function lose(): void {
            isLost = true;
            [ackedThen, askedThen] = [new Map(acked), new Map(asked)];
            const now = listed();
            const found = new Map<string, number>();
            for (const name of new Set([...names.keys(), ...now.keys()])) {
              const [old, young] = [names.get(name), now.get(name)];
              const ino = old === young ? old : chance() < 50 ? old : young;
              if (ino !== undefined) found.set(name, ino);
            }
            for (const [name, ino] of found) {
              const current = [...now].find(([, one]) => one === ino)?.[0];
              const bytes = current === undefined ? ghosts.get(ino) : plain.readFileSync(path.join(folder, current));
              if (!bytes) continue;
              for (const [from, to] of holes.get(ino) ?? []) bytes.fill(0, from, to);
              const least = Math.min(synced.get(ino) ?? 0, bytes.length);
              const length = least + Math.floor(((bytes.length - least) * chance()) / 100);
              plain.writeFileSync(path.join(after, name), bytes.subarray(0, length));
            }
          }

          const api = fs as unknown as Record<string, (...args: never[]) => unknown>;
          for (const name of CALLS) {
            api[name] = (...args: never[]) => {
              if (++calls === at && !isLost) lose();
              const target = args[0] as unknown as string;
              if (name === "rmSync" && plain.existsSync(target)) {
                const found = plain.statSync(target);
                if (found.nlink === 1 && found.isFile()) ghosts.set(found.ino, plain.readFileSync(target));
              }
              if (name === "fdatasync" || name === "fsync") {
                const [fd, done] = args as unknown as [number, (error: Error | null) => void];
                const { ino, size } = plain.fstatSync(fd);
                const then = listed();
                if (name === "fdatasync" && broken.includes(syncs++)) {
                  holes.set(ino, [...(holes.get(ino) ?? []), [synced.get(ino) ?? 0, size]]);
                  synced.set(ino, Math.max(size, synced.get(ino) ?? 0));
                  for (const other of opened) if (inodeOf(other) === ino) failing.add(other);
                }
                return setImmediate(() => {
                  if (failing.delete(fd)) return done(Object.assign(new Error("broken"), { code: "EIO" }));
                  if (name === "fdatasync") synced.set(ino, Math.max(size, synced.get(ino) ?? 0));
                  else names = then;
                  done(null);
                });
              }
              const result = (plain as unknown as typeof api)[name]?.(...args);
              if (name === "openSync") {
                opened.add(result as number);
                const { ino, size } = plain.fstatSync(result as number);
                // The system gives the number of a deleted file to a new one.
                if (size === 0) for (const known of [synced, holes]) known.delete(ino);
              }
              return result;
            };
          }
          const onFailure = () => undefined;
          const make = () => new LogCells({ folder, name: "log", what: "meterFolder", rotateBytes: 150, onFailure });
          const users = [make(), make()];
          try {
            await Promise.all(
              acts.map(async ({ user, key: n, isDurable, waits }, i) => {
                if (waits) for (let turns = i; turns > 0; turns--) await new Promise(setImmediate);
                const key = `k${n}`;
                for (let tries = 0; tries < 30; tries++) {
                  const cells = users[user] as LogCells;
                  try {
                    const [text] = await cells.read([key]);
                    const next = Number(text ?? 0) + 1;
                    asked.set(key, Math.max(asked.get(key) ?? 0, next));
                    const isMade = await cells.swap([{ key, expected: text, next: String(next) }], { isDurable });
                    if (!isMade) continue;
                    if (isDurable) acked.set(key, Math.max(acked.get(key) ?? 0, next));
                    return;
                  } catch (error) {
                    // It stops after a failed sync, and is started again.
                    if ((error as TurnpikeError).code !== "Unavailable") throw error;
                    if (users[user] === cells) users[user] = make();
                  }
                }
              }),
            );
            for (const cells of users) await cells.close();
            if (!isLost) lose();
          } finally {
            for (const name of CALLS) api[name] = (plain as unknown as typeof api)[name] as never;
          }
          const heir = new LogCells({ folder: after, name: "log", what: "meterFolder", rotateBytes: 150 });
          for (const [key, number] of askedThen) {
            const found = Number((await heir.read([key]))[0] ?? 0);
            expect(found, `${key} of ${plain.readdirSync(after)}`).to.be.within(ackedThen.get(key) ?? 0, number);
          }
          await heir.close();
          plain.rmSync(folder, { recursive: true });
          plain.rmSync(after, { recursive: true });
        }),
        { numRuns: Number(process.env.POWER_RUNS ?? 200) },
      );
    } finally {
      fs.rmSync(home, { recursive: true, force: true });
    }
  });
});
