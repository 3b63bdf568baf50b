/**
 * Reads a request's body before its handler, of fetch and of Node, and leaves the request as if it were unread. Each
 * error of a body that cannot be bound to a quote names its remedy; none of them asks for money.
 */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { ConfigError, InvalidRequest, isTurnpikeError, TurnpikeError } from "../../protocol";

/** `reason` of a ConfigError that the gate itself answers, in every framework alike. */
const DROPPED = "body_dropped";

const UNBOUND = "body_unbound";

/** For a body that another middleware reads first. @param remedy what to change in this framework */
export const bodyDropped = (remedy: string, reader = "another middleware"): ConfigError =>
  new ConfigError(`bind: "body" needs the body's bytes, and ${reader} reads them before the gate: ${remedy}`, {
    reason: DROPPED,
  });

/** For a callback that reads the body on a route that binds none: its payment would buy any other body too. */
export const bodyUnbound = (callback: string): ConfigError =>
  new ConfigError(
    `${callback} reads the request's body: set bind: "body", so that the quote and the handler get it too`,
    {
      reason: UNBOUND,
    },
  );

export const bodyTooLarge = (maxBytes: number): TurnpikeError =>
  new TurnpikeError("PayloadTooLarge", `body: must be at most ${maxBytes} bytes (maxBodyBytes)`, {
    details: { maxBytes },
  });

/** The price reads JSON and forms as UTF-8; a parser that follows another charset would read another body. */
export const charsetUnsupported = (charset: string): TurnpikeError =>
  new TurnpikeError("UnsupportedMediaType", `content-type: charset ${charset} is not supported here; send utf-8`);

const bodyCutOff = (cause?: unknown): InvalidRequest =>
  new InvalidRequest("body: the connection closed before the body ended", cause === undefined ? {} : { cause });

/** Returns whether an error is about how the gate is mounted: the provider must change the application. */
export function isBodyFault(error: unknown): error is ConfigError {
  return isTurnpikeError(error) && (error.reason === DROPPED || error.reason === UNBOUND);
}

const warned = new WeakSet<object>();

/** Warns the operator once for each route; clients get the same message with every request. */
export function warnOfBodyFault(route: object, fault: ConfigError): void {
  if (warned.has(route)) return;
  warned.add(route);
  process.emitWarning(fault);
}

/** Bodies of fetch requests that a gate has read: a later gate on the same route needs the same bytes. */
const requestsRead = new WeakMap<Request, Uint8Array>();

/** @throws ConfigError where it was read before, PayloadTooLarge, InvalidRequest when the client leaves */
export async function readRequestAhead(request: Request, maxBytes: number, remedy: string): Promise<Uint8Array> {
  const bytes = requestsRead.get(request) ?? (await readRequestOnce(request, maxBytes, remedy));
  if (bytes.byteLength > maxBytes) throw bodyTooLarge(maxBytes);
  requestsRead.set(request, bytes);
  return bytes;
}

async function readRequestOnce(request: Request, maxBytes: number, remedy: string): Promise<Uint8Array> {
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

/** A message, or the stream that an earlier hook has replaced it with. */
export type BodyStream = Readable & { readonly _readableState?: { readonly ended?: boolean } };

/** Bodies of Node's messages that a gate has read: a later gate on the same route needs the same bytes. */
const messagesRead = new WeakMap<object, Uint8Array>();

export const bytesReadOf = (message: object): Uint8Array | undefined => messagesRead.get(message);

export function rememberRead(message: object, bytes: Uint8Array): void {
  messagesRead.set(message, bytes);
}

/** Returns whether the stream is untouched: nothing was read, decoded or dropped. */
export function isUnread(stream: BodyStream): boolean {
  const { readableDidRead, readableEncoding, readableFlowing, destroyed } = stream;
  return !readableDidRead && !destroyed && readableEncoding === null && readableFlowing !== true;
}

/**
 * Reads an unread message to its end and puts the bytes back.
 * @throws PayloadTooLarge, after which the rest is discarded as it comes; InvalidRequest when the client leaves
 */
export async function readAhead(message: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  if (Number(message.headers["content-length"] ?? 0) > maxBytes) {
    message.resume();
    throw bodyTooLarge(maxBytes);
  }
  const bytes = await readAll(message, maxBytes);
  messagesRead.set(message, bytes);
  return bytes;
}

function readAll(stream: BodyStream, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      stream.off("readable", onReadable).off("error", onGone).off("close", onGone);
    };
    const onGone = (cause?: unknown): void => {
      stop();
      reject(bodyCutOff(cause));
    };
    const onReadable = (): void => {
      // An empty buffer is not read from: that would emit "end", after which no byte can be put back.
      while (stream.readableLength > 0) {
        const chunk = stream.read() as Uint8Array | null;
        if (chunk === null) break;
        chunks.push(chunk);
        size += chunk.byteLength;
      }
      if (size > maxBytes) {
        stop();
        stream.resume();
        reject(bodyTooLarge(maxBytes));
      } else if (stream._readableState?.ended) {
        stop();
        const bytes = Buffer.concat(chunks, size);
        // Before "end" is emitted, in the same turn: the stream is then as it was, and its reader gets it all.
        if (size > 0) stream.unshift(bytes);
        resolve(bytes);
      }
    };
    if (stream._readableState?.ended) return onReadable();
    stream.on("readable", onReadable).on("error", onGone).on("close", onGone);
  });
}

/** Reads a stream that is not the message itself, such as one that decompresses it; nothing is put back. */
export async function drain(stream: Readable, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength;
      if (size > maxBytes) throw bodyTooLarge(maxBytes);
      chunks.push(chunk);
    }
  } catch (error) {
    throw size > maxBytes ? error : bodyCutOff(error);
  }
  return Buffer.concat(chunks, size);
}

/**
 * Returns a view of a request with some members replaced; every other member is read from and written to the request.
 */
export function viewOf<T extends object>(target: T, own: object): T {
  return new Proxy(target, {
    get: (_target, key, receiver) => Reflect.get(key in own ? own : target, key, key in own ? own : receiver),
    has: (_target, key) => key in own || key in target,
    set: (_target, key, value) => Reflect.set(key in own ? own : target, key, value),
  });
}

/** Returns a message whose body a callback may read, in any way, without consuming the handler's. */
export function unreadView(message: IncomingMessage, bytes: Uint8Array): IncomingMessage {
  return viewOf(message, { ...unreadStream(bytes), ...bodyMembers(message, bytes, message) });
}

/** Returns the members that body parsers would have set, for callbacks of a gate that runs before them. */
export function bodyMembers(message: IncomingMessage, bytes: Uint8Array, framework: object): object {
  const members = Object.create(null) as object;
  const rawBody = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  Object.defineProperty(members, "rawBody", { value: rawBody, enumerable: true });
  const parsed = (framework as { body?: unknown }).body;
  if (parsed === undefined && isJson(message)) {
    Object.defineProperty(members, "body", { get: () => parsedJson(rawBody), enumerable: true });
  }
  return members;
}

const isJson = ({ headers }: IncomingMessage): boolean =>
  /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(headers["content-type"] ?? "");

function parsedJson(bytes: Buffer): unknown {
  if (bytes.byteLength === 0) return undefined;
  try {
    return JSON.parse(bytes.toString("utf8")) as unknown;
  } catch (cause) {
    throw new InvalidRequest("body: must be JSON", { cause });
  }
}

/** The state of a stream of its own: what Node's stream methods act on when they are called on the view. */
function unreadStream(bytes: Uint8Array): object {
  const { _readableState, _events, _eventsCount } = new Readable({ autoDestroy: false }) as unknown as StreamState;
  return {
    _readableState,
    _events,
    _eventsCount,
    _read(this: Readable) {
      if (bytes.byteLength > 0) this.push(bytes);
      this.push(null);
    },
    // The message itself, and with it the connection, stays as it is.
    _destroy: (error: Error | null, done: (error?: Error | null) => void) => done(error),
  };
}

interface StreamState {
  readonly _readableState: object;
  readonly _events: object;
  readonly _eventsCount: number;
}
