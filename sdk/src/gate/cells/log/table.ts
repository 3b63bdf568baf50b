/** The cells that the lines of a log amount to. A pure function of the lines, so that every process has the same. */
import { TurnpikeError } from "../../../protocol";
import { CELL, changesIn, END, type LineChange, SWAP } from "./line";

export interface LogCell {
  readonly text: string;
  /** the id of the line that wrote it */
  readonly version: number;
  /** unix seconds; 0: for ever */
  readonly untilSec: number;
  /** counts the sweeps before it was written: none of these concerns it */
  readonly sweeps: number;
}

/** What a line did. */
export type Replayed =
  | { readonly kind: "swap"; readonly id: number; readonly isMade: boolean }
  | { readonly kind: "end"; readonly sweptSec: number }
  | undefined;

const SLICE = 1_000;

const HASH_CHARS = 66;

const HASH = /^0x[0-9a-f]{64}$/;

/** Most keys are hashes: they are kept as a mark and their bytes, one a character. */
const PACKED = "\0";

const packed = (key: string): string =>
  key.length === HASH_CHARS && HASH.test(key) ? PACKED + Buffer.from(key.slice(2), "hex").toString("latin1") : key;

const unpacked = (key: string): string =>
  key.startsWith(PACKED) ? `0x${Buffer.from(key.slice(1), "latin1").toString("hex")}` : key;

/** A cell of a snapshot; undefined: it is gone. */
export type SnapshotCell = readonly [key: string, cell: LogCell | undefined, isListed: boolean];

export class CellTable {
  /** by packed key */
  readonly #cells = new Map<string, LogCell>();
  readonly #listed = new Set<string>();
  #sweptSec = 0;
  #sweeps = 0;
  #isSweeping = false;
  /** keys that changed since the tracking began */
  #changed: Set<string> | undefined;

  find(key: string): LogCell | undefined {
    const cell = this.#cells.get(packed(key));
    return cell !== undefined && this.#isSwept(cell) ? undefined : cell;
  }

  get listed(): ReadonlySet<string> {
    return this.#listed;
  }

  /** @throws Internal for a sound line of a kind that this version does not know */
  replay(fields: readonly string[]): Replayed {
    switch (fields[0]) {
      case SWAP: {
        const id = Number(fields[1]);
        return { kind: "swap", id, isMade: this.swap(id, changesIn(fields, 2)) };
      }
      case CELL: {
        const [change] = changesIn(fields, 1);
        // The version is where a swap says which one it expects.
        if (change) this.#set(change, change.expected ?? 0);
        return undefined;
      }
      case END:
        return { kind: "end", sweptSec: Number(fields[1]) };
      default:
        if (fields[0]?.startsWith("H")) return undefined;
        throw new TurnpikeError(
          "Internal",
          "The log has a line of a kind that this version of turnpike does not know.",
        );
    }
  }

  /** Leaves out what was to be kept until before this moment, at once; memory is freed a little at a time. */
  async sweep(sweptSec: number): Promise<void> {
    // What an earlier one has not freed yet stays left out, whatever the moment of this one is.
    if (this.#isSweeping) for (const [key, cell] of this.#cells) if (this.#isSwept(cell)) this.#delete(unpacked(key));
    this.#isSweeping = true;
    const sweep = this.#sweeps + 1;
    this.#sweptSec = sweptSec;
    this.#sweeps++;
    for await (const slice of this.#slices()) {
      for (const [key, cell] of slice) {
        if (this.#cells.get(key) === cell && this.#isSwept(cell)) this.#delete(unpacked(key));
      }
    }
    if (this.#sweeps === sweep) this.#isSweeping = false;
  }

  /** Returns every cell, a slice at a time. Changes meanwhile are in `changed`. */
  async *snapshot(sweptSec: number): AsyncGenerator<readonly SnapshotCell[]> {
    this.#changed = new Set();
    for await (const slice of this.#slices()) {
      const kept = slice.filter(([, { untilSec }]) => untilSec === 0 || untilSec >= sweptSec);
      yield kept.map(([at, cell]) => [unpacked(at), cell, this.#listed.has(unpacked(at))]);
    }
  }

  /** Returns what changed since the snapshot began, and ends the tracking. */
  takeChanged(sweptSec: number): SnapshotCell[] {
    const keys = this.#changed ?? new Set<string>();
    this.#changed = undefined;
    return [...keys].map((key) => {
      const cell = this.find(key);
      const isSwept = cell !== undefined && cell.untilSec > 0 && cell.untilSec < sweptSec;
      return [key, isSwept ? undefined : cell, this.#listed.has(key)];
    });
  }

  /** In the order of the map, which new cells join at its end. */
  async *#slices(): AsyncGenerator<(readonly [string, LogCell])[]> {
    let slice: (readonly [string, LogCell])[] = [];
    for (const entry of this.#cells) {
      if (slice.push(entry) < SLICE) continue;
      yield slice;
      slice = [];
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    yield slice;
  }

  /** Makes all changes, or none where a version differs. @returns whether they were made */
  swap(id: number, changes: readonly LineChange[]): boolean {
    for (const { key, expected } of changes) {
      if (expected !== undefined && expected !== (this.find(key)?.version ?? 0)) return false;
    }
    for (const change of changes) this.#set(change, id);
    return true;
  }

  #set({ key, text, isListed, untilSec }: LineChange, version: number): void {
    this.#changed?.add(key);
    if (text === undefined) {
      this.#delete(key);
      return;
    }
    const before = untilSec === 0 ? this.find(key) : undefined;
    this.#cells.set(packed(key), { text, version, untilSec: before?.untilSec ?? untilSec, sweeps: this.#sweeps });
    if (isListed) this.#listed.add(key);
    else if (isListed === false && this.#listed.size > 0) this.#listed.delete(key);
  }

  #delete(key: string): void {
    this.#cells.delete(packed(key));
    this.#listed.delete(key);
  }

  #isSwept({ untilSec, sweeps }: LogCell): boolean {
    return sweeps < this.#sweeps && untilSec > 0 && untilSec < this.#sweptSec;
  }
}
