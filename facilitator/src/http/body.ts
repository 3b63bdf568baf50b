/** Reads a request's JSON body: bounded, strictly typed, one reading only. Says which rule was broken, never what a parser said. */
import { InvalidRequest, isTurnpikeError, parseStrictBody, TurnpikeError } from "turnpike/protocol";

export const MAX_BODY_BYTES = 64 * 1_024;

/** Stock x402 payloads may carry an extension's JSON schema. */
const MAX_DEPTH = 32;

export const JSON_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Whether a request carries no body at all, as `curl -X POST` sends it. */
export function hasNoBody({ headers }: Request): boolean {
  const length = headers.get("content-length");
  if (headers.has("transfer-encoding")) return false;
  return length === "0" || (length === null && !headers.has("content-type"));
}

/** `reason` of an UnsupportedMediaType that is about the body's coding, not its type. */
export const CONTENT_CODING = "content_encoding";

/** @throws UnsupportedMediaType, PayloadTooLarge or InvalidRequest */
export async function readJsonBody(request: Request): Promise<Record<string, unknown> | unknown[]> {
  // Not decompressed: 64 KiB is the bound on what arrives and on what is parsed, and both are one number.
  if (!/^(?:identity)?$/i.test(request.headers.get("content-encoding") ?? "")) throw encoded();
  if (!JSON_TYPE.test(request.headers.get("content-type") ?? "")) throw new TurnpikeError("UnsupportedMediaType");
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  try {
    return parseJsonBody(await boundedBytes(request));
  } catch (error) {
    // What reading a connection throws is about the connection: the client left, or was too slow.
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
  if (!body) throw new InvalidRequest("body: must be one JSON object or list, without duplicate keys or deep nesting");
  return body;
}

async function boundedBytes(request: Request): Promise<Uint8Array> {
  // A declared length is what the connection's parser holds the body to: no stream has to be counted.
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
