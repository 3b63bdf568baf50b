/**
 * Reads a request's JSON body: bounded, strictly typed, with a single interpretation. Errors name the broken rule,
 * never a parser's message.
 */
import { InvalidRequest, isTurnpikeError, parseStrictBody, TurnpikeError } from "turnpike/protocol";

export const MAX_BODY_BYTES = 64 * 1_024;

/** Stock x402 payloads may carry an extension's JSON schema. */
const MAX_DEPTH = 32;

export const JSON_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns whether a request has no body at all, as `curl -X POST` sends it. */
export function hasNoBody({ headers }: Request): boolean {
  const length = headers.get("content-length");
  if (headers.has("transfer-encoding")) return false;
  return length === "0" || (length === null && !headers.has("content-type"));
}

/** `reason` of an UnsupportedMediaType for the body's encoding, not its type. */
export const CONTENT_CODING = "content_encoding";

/** @throws UnsupportedMediaType, PayloadTooLarge or InvalidRequest */
export async function readJsonBody(request: Request): Promise<Record<string, unknown> | unknown[]> {
  // Bodies are not decompressed: 64 KiB bounds both what arrives and what is parsed.
  if (!/^(?:identity)?$/i.test(request.headers.get("content-encoding") ?? "")) throw encoded();
  if (!JSON_TYPE.test(request.headers.get("content-type") ?? "")) throw new TurnpikeError("UnsupportedMediaType");
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  try {
    return parseJsonBody(await boundedBytes(request));
  } catch (error) {
    // An error while reading is about the connection: the client left, or was too slow.
    throw isTurnpikeError(error) ? error : bodyCutOff(error);
  }
}

export const bodyCutOff = (cause?: unknown): InvalidRequest =>
  new InvalidRequest("body: the connection closed before the body ended", cause === undefined ? {} : { cause });

const encoded = () =>
  new TurnpikeError("UnsupportedMediaType", "content-encoding: must be identity; send the JSON uncompressed", {
    reason: CONTENT_CODING,
  });

/** @throws InvalidRequest */
export function parseJsonBody(bytes: Uint8Array): Record<string, unknown> | unknown[] {
  const body = parseStrictBody(decodeUtf8(bytes), MAX_DEPTH);
  if (!body)
    throw new InvalidRequest("body: must be one JSON object or list, without NUL, duplicate keys or deep nesting");
  return body;
}

async function boundedBytes(request: Request): Promise<Uint8Array> {
  // The connection's parser enforces a declared length: no stream has to be counted.
  if (request.headers.has("content-length")) return new Uint8Array(await request.arrayBuffer());
  if (!request.body) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return Buffer.concat(chunks, size);
    size += value.byteLength;
    if (size > MAX_BODY_BYTES) {
      await reader.cancel();
      throw tooLarge();
    }
    chunks.push(value);
  }
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new InvalidRequest("body: must be UTF-8", { cause });
  }
}

const tooLarge = () =>
  new TurnpikeError("PayloadTooLarge", `body: must be at most ${MAX_BODY_BYTES} bytes`, {
    details: { maxBytes: MAX_BODY_BYTES },
  });
