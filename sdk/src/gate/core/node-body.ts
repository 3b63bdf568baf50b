/** Reads a Node message's body before its handler, and leaves the message as if it were unread. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { InvalidRequest } from "../../protocol";
import { bodyCutOff, bodyTooLarge } from "./body-fault";

/** A message, or the stream that an earlier hook has replaced it with. */
export type BodyStream = Readable & { readonly _readableState?: { readonly ended?: boolean } };

/** Bodies that a gate has read. A later gate on the same route needs the same bytes. */
const read = new WeakMap<object, Uint8Array>();

export const bytesReadOf = (message: object): Uint8Array | undefined => read.get(message);

export function rememberRead(message: object, bytes: Uint8Array): void {
  read.set(message, bytes);
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
  const bytes = await takeAll(message, maxBytes);
  read.set(message, bytes);
  return bytes;
}

function takeAll(stream: BodyStream, maxBytes: number): Promise<Uint8Array> {
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
