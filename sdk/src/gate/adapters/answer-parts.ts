/** What handlers give to the methods of a Node response: the queue of what waits, and what node:http makes of it. */
import type { ServerResponse } from "node:http";
import { encodingIn, hasClientLeft } from "../replay/recorder";
import { isHttp2, nodeError, streamOf } from "./shown-answer";

export type Callback = (error?: Error) => void;

/** The response's own methods through which everything leaves. */
export type Method = "writeHead" | "write" | "end" | "flushHeaders";

/** What waits now for the first time, or too. */
export type Waiting = "head" | "part" | "end" | "flush";

export interface AnswerPolicy {
  /** Called before a head is written or shown; it may set headers, and hold the answer. */
  onHead(args: readonly unknown[]): void;
  /** @returns whether this part, and all that follows, waits */
  holdsPart(args: readonly unknown[]): boolean;
  /** @returns whether the end waits */
  holdsEnd(args: readonly unknown[]): boolean;
  /** Called when something was queued. */
  onWaiting(what: Waiting): void;
}

interface Operation {
  readonly method: Method;
  readonly args: readonly unknown[];
}

/** What waits, in the order in which the handler wrote it. Node sends nothing of HTTP/1 meanwhile. */
export class AnswerQueue {
  readonly operations: Operation[] = [];
  readonly #response: { _send: unknown };
  readonly #ownSend: unknown;
  #bytes = 0;

  constructor(response: ServerResponse) {
    this.#response = response as unknown as { _send: unknown };
    this.#ownSend = this.#response._send;
    this.#response._send = refuseSend;
  }

  /** Lets Node send. */
  open(): void {
    // Assigned, not deleted: V8 makes an object slow that loses a property.
    this.#response._send = this.#ownSend;
  }

  /** Those of parts. */
  callbacks(): Callback[] {
    return this.operations.flatMap(({ args }) => callbackIn(args) ?? []);
  }

  get bytes(): number {
    return this.#bytes;
  }

  body(): Uint8Array {
    return Buffer.concat(
      this.operations
        .filter(({ method }) => method === "write" || method === "end")
        .map(({ args: [chunk, encoding] }) => bufferOf(chunk, encoding)),
    );
  }

  push(method: Method, ...args: unknown[]): void {
    this.operations.push({ method, args });
  }

  /** @param isAccepted whether its callback is called now: the handler may hold the next part back until then */
  pushPart([chunk, encoding, ...rest]: readonly unknown[], isAccepted: boolean): void {
    const callback = callbackIn([encoding, ...rest]);
    if (isAccepted) later(callback);
    this.#pushBody("write", chunk, encoding, callback && !isAccepted ? [callback] : []);
  }

  pushEnd(chunk: unknown, encoding: unknown): void {
    if (chunk) this.#pushBody("end", chunk, encoding, []);
    else this.push("end");
  }

  #pushBody(method: Method, chunk: unknown, encoding: unknown, rest: readonly unknown[]): void {
    this.#bytes += lengthOf(chunk, encoding);
    this.push(method, copyOf(chunk), ...encodingIn(encoding), ...rest);
  }
}

/** A handler that calls the methods of ServerResponse.prototype would send its answer past the gate. */
function refuseSend(): never {
  throw new TypeError(
    "the answer to a paid request goes through the response's own methods, not through those of its prototype",
  );
}

export const headersSent = (response: ServerResponse): Error =>
  isHttp2(response)
    ? nodeError("ERR_HTTP2_HEADERS_SENT", "Response has already been initiated.")
    : nodeError("ERR_HTTP_HEADERS_SENT", "Cannot write headers after they are sent to the client");

export function requireChunk(chunk: unknown): void {
  if (typeof chunk === "string" || chunk instanceof Uint8Array) return;
  if (chunk === null) throw nodeError("ERR_STREAM_NULL_VALUES", "May not write null values to stream", TypeError);
  throw nodeError("ERR_INVALID_ARG_TYPE", "The chunk is neither a string nor a Buffer or Uint8Array", TypeError);
}

/** @throws what Node throws for it when it is written, while the handler can still go on otherwise */
export function requireEncoding(chunk: unknown, encoding: unknown): void {
  const [unknown] = encodingIn(encoding).filter((named) => !Buffer.isEncoding(named));
  if (chunk && unknown) throw nodeError("ERR_UNKNOWN_ENCODING", `Unknown encoding: ${unknown}`, TypeError);
}

const bufferOf = (chunk: unknown, encoding: unknown): Uint8Array =>
  typeof chunk === "string" ? Buffer.from(chunk, encodingIn(encoding)[0]) : ((chunk as Uint8Array) ?? EMPTY);

const EMPTY = new Uint8Array();

/** The handler may reuse its buffer. */
const copyOf = (chunk: unknown): unknown => (chunk instanceof Uint8Array ? Buffer.from(chunk) : chunk);

const lengthOf = (chunk: unknown, encoding: unknown): number =>
  chunk
    ? typeof chunk === "string"
      ? Buffer.byteLength(chunk, encodingIn(encoding)[0])
      : (chunk as Uint8Array).byteLength
    : 0;

export const callbackIn = (args: readonly unknown[]): Callback | undefined =>
  args.find((each): each is Callback => typeof each === "function");

/** Whether the application has destroyed it. */
export const isCut = (response: ServerResponse): boolean =>
  (streamOf(response) ?? response).destroyed === true && !hasClientLeft(response);

/** The caller goes on. */
export function later(callback: Callback | undefined): true {
  if (callback) process.nextTick(callback);
  return true;
}

/** Those of an HTTP/2 handler belong to its answer. */
export function withoutTrailers(response: ServerResponse): void {
  const stream = streamOf(response) as { sendTrailers?: (headers: object) => void } | undefined;
  const send = stream?.sendTrailers;
  if (stream && send) stream.sendTrailers = () => send.call(stream, {});
}

/** Watches the length that a handler declares and has checked, as node:http does, but not HTTP/2. */
export class StrictLength {
  #bytes = 0;

  require(response: ServerResponse, [chunk, encoding]: readonly unknown[], isEnd: boolean): void {
    if (isHttp2(response)) return;
    const declared = response.getHeader("content-length");
    const bytes = this.#bytes + lengthOf(chunk, encoding);
    const isRight = isEnd ? bytes === Number(declared) : bytes <= Number(declared);
    if (declared === undefined || response.req.method === "HEAD" || isRight) {
      this.#bytes = bytes;
      return;
    }
    const message = `Response body's content-length of ${bytes} byte(s) does not match the content-length of ${declared} byte(s) set in header`;
    throw nodeError("ERR_HTTP_CONTENT_LENGTH_MISMATCH", message);
  }
}

export function writeAfterEnd(response: ServerResponse, args: readonly unknown[]): false {
  const error = nodeError("ERR_STREAM_WRITE_AFTER_END", "write after end");
  process.nextTick(() => {
    callbackIn(args)?.(error);
    // Unlike node:http, a late part ends no process that does not listen.
    if (!response.destroyed && response.listenerCount("error") > 0) response.emit("error", error);
  });
  return false;
}
