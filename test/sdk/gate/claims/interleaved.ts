/** Generated interleavings of processes that share a folder of claims, call by call of the file system. */
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import type { ClaimFile } from "../../../../sdk/src/gate/claims/claim-file";
import { lineOfAct } from "../../../../sdk/src/gate/claims/claim-line";
import { newestIn, openNewest, writeNext } from "../../../../sdk/src/gate/claims/generations";
import { idOf, NOW_MS, NOW_SEC } from "../support/claim-store";

/** One deed of a process, and what others do while it is paused before one of its calls. */
interface Deed {
  readonly process: number;
  readonly kind: "open" | "sell" | "rotate";
  readonly payment: number;
  readonly pausedAt: number;
  readonly meanwhile: readonly Deed[];
}

const PROCESSES = 4;
const PAYMENTS = 5;
const CALLS = ["openSync", "closeSync", "readSync", "writeSync", "writeFileSync", "linkSync", "rmSync", "readdirSync"];

const { deed } = fc.letrec<{ deed: Deed }>((tie) => ({
  deed: fc.record({
    process: fc.nat(PROCESSES - 1),
    kind: fc.constantFrom("open", "sell", "rotate", "rotate"),
    payment: fc.nat(PAYMENTS - 1),
    pausedAt: fc.nat(16),
    meanwhile: fc.oneof({ depthSize: "small" }, fc.constant([]), fc.array(tie("deed"), { maxLength: 6 })),
  }),
}));

class Processes {
  readonly sold: number[] = [];
  readonly #folder: string;
  readonly #files: (ClaimFile | undefined)[] = Array(PROCESSES).fill(undefined);
  readonly #running = new Set<number>();
  #beforeCall: () => void = () => undefined;
  #owners = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Runs `work` with a pause before each call of the file system. */
  observed(work: () => void): void {
    const api = fs as unknown as Record<string, (...args: unknown[]) => unknown>;
    const plain = CALLS.map((name) => [name, api[name]] as const);
    for (const [name, call] of plain) {
      api[name] = (...args) => {
        this.#beforeCall();
        // A disk's delay changes no order.
        const given = name === "writeFileSync" ? [args[0], args[1], { ...(args[2] as object), flush: false }] : args;
        return call?.apply(fs, given);
      };
    }
    try {
      work();
    } finally {
      Object.assign(fs, Object.fromEntries(plain));
    }
  }

  run({ process, kind, payment, pausedAt, meanwhile }: Deed): void {
    // A process that is paused does nothing else.
    if (this.#running.has(process)) return;
    const outer = this.#beforeCall;
    let calls = 0;
    this.#beforeCall = () => {
      if (calls++ === pausedAt) for (const deed of meanwhile) this.run(deed);
    };
    this.#running.add(process);
    if (kind === "open") this.close(process);
    if (kind === "rotate") this.#rotate(process);
    if (kind === "sell" && this.#sells(process, payment)) this.sold.push(payment);
    this.#running.delete(process);
    this.#beforeCall = outer;
  }

  close(process: number): void {
    this.#files[process]?.close();
    this.#files[process] = undefined;
  }

  #file(process: number): ClaimFile {
    const file = this.#files[process];
    if (file && !file.isRotated) return file;
    this.close(process);
    const newest = openNewest(this.#folder);
    this.#files[process] = newest;
    // Its writer may be paused in the rotation: a process that needs the next file writes it.
    return newest.isRotated ? this.#rotate(process) : newest;
  }

  #rotate(process: number): ClaimFile {
    const file = this.#files[process] ?? openNewest(this.#folder);
    this.#files[process] = file;
    if (newestIn(this.#folder) <= file.generation) writeNext(this.#folder, file, NOW_SEC);
    this.close(process);
    return this.#file(process);
  }

  #sells(process: number, payment: number): boolean {
    const owner = `o${this.#owners++}`;
    const act = { act: "claim", owner, nowMs: NOW_MS, leaseMs: 1_000, keepUntilSec: NOW_SEC + 1_000 } as const;
    const line = lineOfAct(idOf(payment), act);
    for (;;) {
      const file = this.#file(process);
      file.catchUp();
      if (file.isRotated) continue;
      file.write(line);
      if (file.catchUp(line)) return file.records.get(idOf(payment))?.owner === owner;
    }
  }
}

describe("generations of the claim file", () => {
  it("sell a payment once, however the calls of the processes interleave", function () {
    this.timeout(60_000);
    const home = fs.mkdtempSync(path.join(tmpdir(), "turnpike-interleaved-"));
    const plan = fc.array(deed, { minLength: 1, maxLength: 12 });
    try {
      fc.assert(
        fc.property(plan, (deeds) => {
          const processes = new Processes(fs.mkdtempSync(path.join(home, "run-")));
          const last = Array.from({ length: PAYMENTS }, (_, payment) => payment);
          processes.observed(() => {
            for (const deed of deeds) processes.run(deed);
            processes.close(0);
            for (const payment of last)
              processes.run({ process: 0, kind: "sell", payment, pausedAt: 0, meanwhile: [] });
          });
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
