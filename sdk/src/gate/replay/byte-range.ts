/** Serves a kept answer's bytes in the range that a request asks for: the kept part itself, or a cut of a whole answer. */
import type { Asked } from "./asked";
import type { KeptAnswer } from "./keeper";

/** The bytes from `first` to `last` of `size`. */
interface Part {
  readonly first: number;
  readonly last: number;
  readonly size: number;
}

/** @returns undefined where it is no one part of a body whose size is known */
function partOf({ headers, body }: KeptAnswer): Part | undefined {
  const [, first, last, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(headers["content-range"] ?? "") ?? [];
  const part = { first: Number(first), last: Number(last), size: Number(size) };
  return part.last - part.first + 1 === body.byteLength && part.last < part.size ? part : undefined;
}

/** Which bytes of a body of this size are asked for; "none" it does not have; undefined: all, as several ranges are */
function requestedPart(range: string | undefined, size: number): Part | "none" | undefined {
  const [, from = "", to = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(range ?? "") ?? [];
  if (from === "" && to === "") return undefined;
  if (from !== "" && to !== "" && Number(from) > Number(to)) return undefined;
  const first = from === "" ? Math.max(size - Number(to), 0) : Number(from);
  const last = from === "" || to === "" ? size - 1 : Math.min(Number(to), size - 1);
  return first > last ? "none" : { first, last, size };
}

const PARTIAL = 206;

const UNSATISFIABLE = 416;

/** Returns whether an answer has less than its resource's content, because of the range that was asked for. */
export const isPart = ({ status }: KeptAnswer): boolean => status === PARTIAL || status === UNSATISFIABLE;

/** @returns undefined where bytes are missing */
export function wholeOf(answer: KeptAnswer): KeptAnswer | undefined {
  if (!isPart(answer)) return answer;
  const part = partOf(answer);
  if (answer.status !== PARTIAL || part?.first !== 0 || part.last !== part.size - 1) return undefined;
  const { "content-range": _range, ...headers } = answer.headers;
  return { ...answer, status: 200, headers };
}

/** Returns whether a part that was kept is what is asked for. */
export function isAskedPart(answer: KeptAnswer, asked: Asked): boolean {
  if (asked.range === undefined) return false;
  if (asked.ifRange !== undefined && asked.ifRange !== answer.asked?.ifRange && !matches(answer, asked.ifRange)) {
    return false;
  }
  if (asked.range === answer.asked?.range) return true;
  const part = partOf(answer);
  const requested = part && requestedPart(asked.range, part.size);
  return typeof requested === "object" && requested.first === part?.first && requested.last === part.last;
}

/** A weak tag names no bytes. */
function matches({ headers }: KeptAnswer, ifRange: string): boolean {
  if (ifRange.startsWith('"')) return headers.etag?.replaceAll(/[ \t]+/g, "") === ifRange;
  return headers["last-modified"]?.replaceAll(/[ \t]+/g, "") === ifRange;
}

/** Cuts a whole answer of status 200, as a server with ranges would: several ranges, and a changed body, are sent whole. */
export function cut(whole: KeptAnswer, { range, ifRange }: Asked): KeptAnswer {
  const { status, body } = whole;
  const hasRanges = status === 200 && !/^\s*none\s*$/i.test(whole.headers["accept-ranges"] ?? "");
  if (!hasRanges || (ifRange !== undefined && !matches(whole, ifRange))) return whole;
  const part = requestedPart(range, body.byteLength);
  if (part === undefined) return whole;
  const { "content-md5": _md5, "content-digest": _digest, digest: _former, ...headers } = whole.headers;
  if (part === "none") {
    const { "content-type": _type, ...without } = headers;
    const contentRange = { "content-range": `bytes */${body.byteLength}` };
    return { ...whole, status: UNSATISFIABLE, headers: { ...without, ...contentRange }, body: new Uint8Array() };
  }
  const { first, last, size } = part;
  return {
    ...whole,
    status: PARTIAL,
    headers: { ...headers, "content-range": `bytes ${first}-${last}/${size}` },
    body: body.subarray(first, last + 1),
  };
}
