/** Generated interleavings of processes that share a log, call by call of the file system. */
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import type { LogFile } from "../../../../sdk/src/gate/cells/log/file";
import { newestIn, openNewest, writeNext } from "../../../../sdk/src/gate/cells/log/generations";
import { idOf, NOW_SEC } from "../support/claim-store";

/** One deed of a process, and what others do while it is paused before one of its calls. */
interface Deed {
  readonly process: number;
  readonly kind: "open" | "sell" | "rotate";
  readonly payment: number;
  readonly pausedAt: number;
  readonly meanwhile: readonly Deed[];
  /** turns of the event loop that the disk takes for a sync */
  readonly syncTurns: number;
}

const PROCESSES = 4;
const PAYMENTS = 5;
const CALLS = [
  "openSync",
  "closeSync",
  "readSync",
  "writeSync",
  "linkSync",
  "rmSync",
  "readdirSync",
  "fdatasync",
  "fsync",
];
const PLACE = "log";

const { deed } = fc.letrec<{ deed: Deed }>((tie) => ({
  deed: fc.record({
    process: fc.nat(PROCESSES - 1),
    kind: fc.constantFrom("open", "sell", "rotate", "rotate"),
    payment: fc.nat(PAYMENTS - 1),
    pausedAt: fc.nat(16),
    syncTurns: fc.nat(4),
    meanwhile: fc.oneof({ depthSize: "small" }, fc.constant([]), fc.array(tie("deed"), { maxLength: 6 })),
  }),
}));

class Processes {
  readonly sold: number[] = [];
  readonly #folder: string;
  readonly #files: (LogFile | undefined)[] = Array(PROCESSES).fill(undefined);
  readonly #running = new Set<number>();
  readonly #begun: Promise<void>[] = [];
  #beforeCall: () => void = () => undefined;
  #syncTurns = 0;
  #ids = 1;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Runs `work` with a pause before each call of the file system. */
  async observed(work: () => Promise<void>): Promise<void> {
    const api = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
    const plain = CALLS.map((name) => [name, api[name]] as const);
    for (const [name, call] of plain) {
      api[name] = (...args) => {
        this.#beforeCall();
        return name.endsWith("sync") ? this.#sync(args[1] as () => void) : call?.apply(fs, args);
      };
    }
    try {
      await work();
      while (this.#begun.length > 0) await this.#begun.shift();
    } finally {
      Object.assign(fs, Object.fromEntries(plain));
    }
  }

  async #sync(done: (error: null) => void): Promise<void> {
    for (let turns = this.#syncTurns; turns > 0; turns--) await new Promise(setImmediate);
    done(null);
  }

  /** Runs a deed up to its first wait; what follows runs beside other deeds. */
  run(deed: Deed): void {
    const { process, kind, payment, pausedAt, meanwhile } = deed;
    // A process that is paused does nothing else.
    if (this.#running.has(process)) return;
    const outer = this.#beforeCall;
    let calls = 0;
    this.#beforeCall = () => {
      if (calls++ === pausedAt) for (const other of meanwhile) this.run(other);
    };
    this.#syncTurns = deed.syncTurns;
    this.#running.add(process);
    const done = this.#act(process, kind, payment).finally(() => this.#running.delete(process));
    this.#begun.push(done);
    this.#beforeCall = outer;
  }

  async #act(process: number, kind: Deed["kind"], payment: number): Promise<void> {
    if (kind === "open") this.close(process);
    if (kind === "rotate") await this.#rotate(process);
    if (kind === "sell" && (await this.sells(process, payment))) this.sold.push(payment);
  }

  close(process: number): void {
    this.#files[process]?.close();
    this.#files[process] = undefined;
  }

  #open(process: number): LogFile {
    const before = this.#files[process];
    const newest = openNewest({ folder: this.#folder, name: PLACE }, before);
    before?.close();
    this.#files[process] = newest;
    return newest;
  }

  async #file(process: number): Promise<LogFile> {
    const file = this.#files[process];
    if (file && !file.isEnded) return file;
    const newest = this.#open(process);
    // Its writer may be paused in the rotation: a process that needs the next file writes it.
    return newest.isEnded ? this.#rotate(process) : newest;
  }

  async #rotate(process: number): Promise<LogFile> {
    const place = { folder: this.#folder, name: PLACE };
    const file = this.#files[process] ?? this.#open(process);
    if (newestIn(place) <= file.generation) await writeNext(place, file, NOW_SEC);
    this.#open(process);
    return this.#file(process);
  }

  async sells(process: number, payment: number): Promise<boolean> {
    const key = idOf(payment);
    const id = this.#ids++;
    for (;;) {
      const file = await this.#file(process);
      file.catchUp();
      if (file.isEnded) continue;
      if (file.cells.find(key)) return false;
      const change = { key, expected: 0, text: "used", isListed: undefined, untilSec: NOW_SEC + 1_000 };
      const [isMade] = file.append([{ id, changes: [change] }]).made;
      if (isMade !== undefined) return isMade;
    }
  }
}

describe("generations of a log", () => {
  it("sell a payment once, however the calls of the processes interleave", async function () {
    this.timeout(60_000);
    const home = fs.mkdtempSync(path.join(tmpdir(), "turnpike-interleaved-"));
    const plan = fc.array(deed, { minLength: 1, maxLength: 12 });
    try {
      await fc.assert(
        fc.asyncProperty(plan, async (deeds) => {
          const processes = new Processes(fs.mkdtempSync(path.join(home, "run-")));
          const last = Array.from({ length: PAYMENTS }, (_, payment) => payment);
          await processes.observed(async () => {
            for (const deed of deeds) processes.run(deed);
          });
          processes.close(0);
          for (const payment of last) if (await processes.sells(0, payment)) processes.sold.push(payment);
          for (let process = 0; process < PROCESSES; process++) processes.close(process);
          expect([...processes.sold].sort()).to.deep.equal(last);
        }),
        { numRuns: 1_000 },
      );
    } finally {
      fs.rmSync(home, { recursive: true, force: true });
    }
  });
});
