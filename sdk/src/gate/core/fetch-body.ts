/** Reads a fetch request's body before its handler, and leaves the request as if it were unread. */
import { isTurnpikeError } from "../../protocol";
import { bodyCutOff, bodyDropped, bodyTooLarge } from "./body-fault";

/** Bodies that a gate has read. A later gate on the same route needs the same bytes. */
const read = new WeakMap<Request, Uint8Array>();

/** @throws ConfigError where it was read before, PayloadTooLarge, InvalidRequest when the client leaves */
export async function readAhead(request: Request, maxBytes: number, remedy: string): Promise<Uint8Array> {
  const bytes = read.get(request) ?? (await readOnce(request, maxBytes, remedy));
  if (bytes.byteLength > maxBytes) throw bodyTooLarge(maxBytes);
  read.set(request, bytes);
  return bytes;
}

async function readOnce(request: Request, maxBytes: number, remedy: string): Promise<Uint8Array> {
  if (request.bodyUsed) throw bodyDropped(remedy);
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
  if (!request.body) return new Uint8Array();
  const reader = request.clone().body?.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return Buffer.concat(chunks, size);
      size += value.byteLength;
      if (size > maxBytes) throw bodyTooLarge(maxBytes);
      chunks.push(value);
    }
  } catch (error) {
    // Resolves only with the other half, which the server discards.
    reader.cancel().catch(() => undefined);
    throw isTurnpikeError(error) ? error : bodyCutOff(error);
  }
}

const OF_BODY = new Set<PropertyKey>(["body", "bodyUsed", "arrayBuffer", "blob", "bytes", "formData", "json", "text"]);

/** Returns a request whose body a callback may read, in any way, without consuming the handler's. */
export function unreadRequest(request: Request, bytes: Uint8Array): Request {
  const body = bytes.byteLength === 0 ? null : (bytes as Uint8Array<ArrayBuffer>);
  const type = request.headers.get("content-type");
  const copy = new Response(body, type === null ? {} : { headers: { "content-type": type } });
  const clone = (): Request =>
    new Request(request.url, { method: request.method, headers: request.headers, body, signal: request.signal });
  return new Proxy(request, {
    get(target, key) {
      if (key === "clone") return clone;
      const source = OF_BODY.has(key) ? copy : target;
      const value: unknown = Reflect.get(source, key, source);
      return typeof value === "function" && key !== "constructor" ? value.bind(source) : value;
    },
    set: (target, key, value) => Reflect.set(target, key, value, target),
  });
}
