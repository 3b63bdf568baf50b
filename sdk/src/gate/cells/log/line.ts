/**
 * Encodes and decodes the lines of a log, and the cells that they amount to. A line is between line breaks, begins with a
 * checksum and its length, and separates its fields by tabs. A torn line is shorter than it says, and is void for every
 * reader. The cells are a pure function of the lines, so that every process has the same.
 */
import { crc32 } from "node:zlib";
import { TurnpikeError } from "../../../protocol";

/** One change, as it is in a line. */
export interface LineChange {
  readonly key: string;
  /** the version that the cell must have; 0 for none, undefined for any */
  readonly expected: number | undefined;
  /** undefined deletes the cell */
  readonly text: string | undefined;
  /** undefined: as before */
  readonly isListed: boolean | undefined;
  /** unix seconds, after which the cell may be left out; 0: as before, or never */
  readonly untilSec: number;
}

const FIELDS_OF_CHANGE = 5;

export const SWAP = "S";

export const CELL = "C";

export const END = "E";

/** `expected` where any version will do. */
const ANY = "-";

const DELETED = "d";

const LISTED = "l";

const UNLISTED = "u";

/** A checksum and a length, of eight hexadecimal digits each. */
const FRAME_CHARS = 16;

const PLAIN = /^(?!")[\x20-\x7e]*$/;

const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;

const encodeText = (text: string): string =>
  PLAIN.test(text) ? text : JSON.stringify(text).replace(/[^\x20-\x7e]/g, escaped);

/** A copy: a part of a text would keep the whole of it in memory. */
const copied = (text: string): string => Buffer.from(text, "latin1").toString("latin1");

const decodeText = (field: string): string => (field.startsWith('"') ? (JSON.parse(field) as string) : copied(field));

const markOf = ({ text, isListed }: Pick<LineChange, "text" | "isListed">): string => {
  if (text === undefined) return DELETED;
  return isListed === undefined ? "" : isListed ? LISTED : UNLISTED;
};

/** Returns the changes of a line from this field on. */
export function changesIn(fields: readonly string[], from: number): LineChange[] {
  const changes: LineChange[] = [];
  for (let at = from; at < fields.length; at += FIELDS_OF_CHANGE) {
    const mark = fields[at + 2] ?? "";
    changes.push({
      key: copied(fields[at] ?? ""),
      expected: fields[at + 1] === ANY ? undefined : Number(fields[at + 1]),
      text: mark === DELETED ? undefined : decodeText(fields[at + 4] ?? ""),
      isListed: mark === "" ? undefined : mark === LISTED,
      untilSec: Number(fields[at + 3]),
    });
  }
  return changes;
}

const hex8 = (value: number): string => value.toString(16).padStart(8, "0");

/** Returns the line of a body, between its line breaks. */
export const framed = (body: string): string => `\n${hex8(crc32(body))}${hex8(body.length)}\t${body}\n`;

/** @param id a random number, which becomes the version of the cells that it changes */
export function swapLine(id: number, changes: readonly LineChange[]): string {
  let body = `${SWAP}\t${id}`;
  for (const change of changes) {
    const { key, expected, text = "", untilSec } = change;
    body += `\t${key}\t${expected ?? ANY}\t${markOf(change)}\t${untilSec}\t${encodeText(text)}`;
  }
  return framed(body);
}

/** Writes a cell as it is, at the head of a generation; `text` undefined: it is gone. */
export function cellLine(change: Pick<LineChange, "key" | "text" | "isListed" | "untilSec">, version: number): string {
  const { key, text = "", untilSec } = change;
  return framed(`${CELL}\t${key}\t${version}\t${markOf(change)}\t${untilSec}\t${encodeText(text)}`);
}

/** Ends a generation: what follows is void. @param sweptSec cells that were to be kept until before it are left out */
export const endLine = (sweptSec: number): string => framed(`${END}\t${sweptSec}`);

/** Returns how many of a line's checksum, length and tab are wrong. */
function faultsOf(line: string): number {
  const body = line.slice(FRAME_CHARS + 1);
  const isHashed = Number.parseInt(line.slice(0, 8), 16) === crc32(body);
  const isMeasured = Number.parseInt(line.slice(8, FRAME_CHARS), 16) === body.length;
  return Number(!isHashed) + Number(!isMeasured) + Number(line[FRAME_CHARS] !== "\t");
}

/** Returns a line's fields, of which the first names its kind; "damaged" for one that was whole once. */
export function fieldsOf(line: string): readonly string[] | "torn" | "damaged" {
  const faults = faultsOf(line);
  if (faults === 0) return line.slice(FRAME_CHARS + 1).split("\t");
  // Of a torn line both its checksum and its length are wrong. A changed line break joins the line to what is beside it.
  const isJoined = () => faultsOf(line.slice(1)) === 0 || faultsOf(line.slice(0, -1)) === 0;
  return faults === 1 || isJoined() ? "damaged" : "torn";
}

const HEAD = /^H([0-9]{15})$/;

/** The first bytes of a generation: where the cells end that it begins with, and others append. */
export const headLine = (tailAt: number): string => framed(`H${String(tailAt).padStart(15, "0")}`);

export const HEAD_CHARS = headLine(0).length;

/** @returns undefined where the text does not begin with a whole head */
export function tailIn(text: string): number | undefined {
  const line = text.slice(1, HEAD_CHARS - 1);
  const fields = fieldsOf(line);
  const found = typeof fields === "string" ? undefined : HEAD.exec(fields[0] ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

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
