/**
 * Encodes and decodes the lines of a log. A line is between line breaks, begins with a checksum and its length, and
 * separates its fields by tabs. A torn line is shorter than it says, and is void for every reader.
 */
import { crc32 } from "node:zlib";

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
