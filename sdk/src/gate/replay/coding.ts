/** Decodes a kept answer for a client that refuses its content coding. */
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate } from "node:zlib";
import type { KeptAnswer } from "./keeper";

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
