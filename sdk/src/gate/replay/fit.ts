/** Fits a kept answer to the request that asks for it again: as it was, made from the whole where that is exact, or not. */
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate } from "node:zlib";

/** One kept answer. */
export interface KeptAnswer {
  readonly status: number;
  /** names in lower case */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** by the request that bought it; undefined before it is sealed, and in what earlier versions have sealed */
  readonly asked?: Asked | undefined;
}

export type Fitted =
  | { readonly kind: "answer"; readonly answer: KeptAnswer }
  /** it is kept, but not as this request asks for it; the request as it was first gets it */
  | { readonly kind: "unfit"; readonly message: string };

const fitted = (answer: KeptAnswer): Fitted => ({ kind: "answer", answer });

export async function fitAnswer(kept: KeptAnswer, request: Asking): Promise<Fitted> {
  const asked = askedBy(request) ?? {};
  // A HEAD has no body that could be of another form.
  if (request.method === "HEAD" || isSameAsk(kept.asked, asked)) return fitted(kept);
  const isRanged = request.method === "GET";
  const isExactPart = isPart(kept) && (!isRanged || isAskedPart(kept, asked));
  const answer = isExactPart ? kept : wholeOf(kept);
  if (!answer) return unfitRange(kept);
  const codings = codingsOf(answer);
  if (accepts(asked.acceptEncoding, codings)) {
    // The bytes of a coded answer are not those of the content: it is sent whole.
    return fitted(isExactPart || !isRanged || codings.length > 0 ? answer : cut(answer, asked));
  }
  const plain = isExactPart ? undefined : await decoded(answer);
  if (plain) return fitted(plain);
  return asked.acceptEncoding === undefined ? fitted(answer) : unfitCoding(codings);
}

function unfitRange({ headers, asked }: KeptAnswer): Fitted {
  const part = headers["content-range"] ?? "several ranges";
  const again = asked?.range === undefined ? "the Range that it had first" : `Range: ${asked.range}`;
  const message = `This payment has bought a part of the content (${part}), and that part alone is kept: repeat the request with ${again}, and do not pay again for it.`;
  return { kind: "unfit", message };
}

function unfitCoding(codings: readonly string[]): Fitted {
  const message = `The answer that this payment has bought is kept coded as ${codings.join(", ")}, which this request refuses and the gate cannot decode: repeat the request with the Accept-Encoding that it had first, and do not pay again for it.`;
  return { kind: "unfit", message };
}

/**
 * What a request asks of its answer's form: each field as it came, without white space; of fields that are absent nothing.
 * It is kept with the answer, inside the seal, so that proxies may change it.
 */
export interface Asked {
  readonly range?: string;
  readonly ifRange?: string;
  readonly acceptEncoding?: string;
}

/** The part of a request that asks. */
export interface Asking {
  readonly method: string;
  /** `name` in lower case */
  header(name: string): string | undefined;
}

const MAX_LENGTH = 512;

/** @returns undefined for what is too long to keep: an answer is then judged by its own headers alone */
export function askedBy(request: Asking): Asked | undefined {
  // Other methods have no ranges.
  const isGet = request.method === "GET";
  const asked = {
    range: isGet ? compact(request.header("range")) : undefined,
    ifRange: isGet ? compact(request.header("if-range")) : undefined,
    acceptEncoding: compact(request.header("accept-encoding")),
  };
  const given = Object.entries(asked).filter(([, value]) => value !== undefined);
  if (given.some(([, value]) => (value?.length ?? 0) > MAX_LENGTH)) return undefined;
  return Object.fromEntries(given);
}

const compact = (value: string | undefined): string | undefined => value?.replaceAll(/[ \t]+/g, "");

export const isSameAsk = (kept: Asked | undefined, asked: Asked | undefined): boolean =>
  kept !== undefined &&
  asked !== undefined &&
  kept.range === asked.range &&
  kept.ifRange === asked.ifRange &&
  kept.acceptEncoding === asked.acceptEncoding;

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

/** What a decoded body may have, bytes: some codings make a thousand times as much. */
const MAX_DECODED_BYTES = 8 * 1_024 * 1_024;

type Decoder = (bytes: Uint8Array, limits: { readonly maxOutputLength: number }) => Promise<Uint8Array>;

const DECODERS: ReadonlyMap<string, Decoder> = new Map<string, Decoder>([
  ["gzip", promisify(gunzip)],
  ["x-gzip", promisify(gunzip)],
  ["deflate", promisify(inflate)],
  ["br", promisify(brotliDecompress)],
]);

const listed = (value: string): string[] => value.split(",").flatMap((each) => each.trim().toLowerCase() || []);

/** Returns the codings of an answer that has a body, in the order in which they were applied. */
export const codingsOf = ({ headers, body }: KeptAnswer): readonly string[] =>
  body.byteLength === 0 ? [] : listed(headers["content-encoding"] ?? "").filter((coding) => coding !== "identity");

/** @param acceptEncoding undefined: nothing is refused, but a client that asks for no coding may know none */
export function accepts(acceptEncoding: string | undefined, codings: readonly string[]): boolean {
  if (codings.length === 0) return true;
  const weights = new Map<string, number>();
  for (const each of listed(acceptEncoding ?? "")) {
    const [name = "", ...parameters] = each.split(";").map((part) => part.trim());
    const [, weight] = /^q=(.*)$/.exec(parameters.find((parameter) => parameter.startsWith("q=")) ?? "") ?? [];
    weights.set(name.replace(/^x-/, ""), weight === undefined ? 1 : Number(weight));
  }
  return codings.every((coding) => (weights.get(coding.replace(/^x-/, "")) ?? weights.get("*") ?? 0) > 0);
}

/** @returns undefined where its coding is unknown, its body faulty, or the decoded one too large */
export async function decoded(answer: KeptAnswer): Promise<KeptAnswer | undefined> {
  let { body } = answer;
  for (const coding of codingsOf(answer).toReversed()) {
    const decode = DECODERS.get(coding);
    if (!decode) return undefined;
    try {
      body = await decode(body, { maxOutputLength: MAX_DECODED_BYTES });
    } catch {
      // Faulty or too large: nothing of it is exact.
      return undefined;
    }
  }
  const { "content-encoding": _coding, "content-md5": _md5, "content-digest": _digest, ...kept } = answer.headers;
  const { digest: _former, "repr-digest": _repr, etag, ...headers } = kept;
  // The same content in other bytes.
  const weak = etag === undefined || etag.startsWith("W/") ? etag : `W/${etag}`;
  return { ...answer, headers: weak === undefined ? headers : { ...headers, etag: weak }, body };
}
