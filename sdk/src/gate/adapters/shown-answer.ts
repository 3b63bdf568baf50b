/**
 * Shows the handler of a Node response what node:http would: that its head is sent and its answer has ended, while both
 * still wait here. Node's own methods then throw what they would throw.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** What node:http keeps on a response of HTTP/1, under names that middleware reads too. */
interface OwnState {
  _header: string | null;
  finished: boolean;
  outputSize: number;
  _trailer: string;
}

/** Taken for a head by Node. If it ever left, it would be an empty line, which clients skip. */
const SHOWN_HEAD = "\r\n";

export const isHttp2 = (response: ServerResponse): boolean => response.req.httpVersionMajor >= 2;

export const streamOf = (response: ServerResponse): Record<string, unknown> | undefined =>
  isHttp2(response) ? (response as unknown as { stream?: Record<string, unknown> }).stream : undefined;

/** Cuts an answer whose head may have left. An HTTP/2 stream that is destroyed without an error looks whole. */
export function cutOff(response: ServerResponse): void {
  response.destroy(isHttp2(response) ? nodeError("ERR_STREAM_PREMATURE_CLOSE", "Premature close") : undefined);
}

/** Returns whether the connection was lost before the request's body had come whole. */
export const isUploadCut = ({ destroyed, complete }: IncomingMessage): boolean => destroyed && !complete;

/** Calls `act` once a handler, or its framework, destroys a response whose client has left: it will not end. */
export function onGivenUp(response: ServerResponse, act: () => void): void {
  for (const owner of isHttp2(response) ? [response] : [response, response.req.socket]) {
    const own = owner.destroy as Destroy;
    owner.destroy = ((error?: Error) => {
      act();
      return own.call(owner, error);
    }) as never;
  }
}

const ENDED = { value: true, configurable: true };

export class ShownAnswer {
  readonly #response: ServerResponse;
  #isHeadShown = false;
  #isEndShown = false;
  #shownBytes = 0;
  /** those that were added before the end */
  #trailer = "";
  /** while it waits for the end of the answer */
  #own:
    | { readonly response: Destroy; readonly socket: Socket | null; readonly destroy: Destroy; readonly end: End }
    | undefined;
  #isCut: { readonly error: Error | undefined } | undefined;
  /** what its handler gave to the end of the socket */
  #ends: unknown[] | undefined;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  showHead(): void {
    this.#isHeadShown = true;
    const stream = streamOf(this.#response);
    if (stream) Object.defineProperty(stream, "headersSent", ENDED);
    else (this.#response as unknown as OwnState)._header = SHOWN_HEAD;
  }

  /** @param bytes that wait */
  showEnd(bytes: number): void {
    const response = this.#response;
    this.#isEndShown = true;
    this.#delayDestroy();
    if (isHttp2(response)) {
      // One whose stream has closed, as of a 204, is never shown as ended.
      if (response.socket) Object.defineProperties(response, { writableEnded: ENDED, finished: ENDED });
      return;
    }
    const own = response as unknown as OwnState;
    own.finished = true;
    this.#trailer = own._trailer;
    this.#shownBytes = Math.max(1, bytes);
    own.outputSize += this.#shownBytes;
  }

  showPressure(): void {
    Object.defineProperty(this.#response, "writableNeedDrain", ENDED);
  }

  /** @returns cuts the response, where its handler has asked for that after the end */
  hide(): () => void {
    const response = this.#response;
    if (Object.hasOwn(response, "writableNeedDrain")) Reflect.deleteProperty(response, "writableNeedDrain");
    if (this.#isHeadShown) this.#hideHead();
    if (this.#isEndShown) this.#hideEnd();
    const cut = this.#restoreDestroy();
    // HTTP/2 sends at the end of the turn what was written: cut before, it would look whole without it.
    return isHttp2(this.#response) ? nothing : cut;
  }

  /** Lets a response be destroyed that will not leave. */
  cut(): void {
    this.#restoreDestroy()();
  }

  #hideHead(): void {
    this.#isHeadShown = false;
    const stream = streamOf(this.#response);
    if (stream) Reflect.deleteProperty(stream, "headersSent");
    else (this.#response as unknown as OwnState)._header = null;
  }

  #hideEnd(): void {
    this.#isEndShown = false;
    const response = this.#response;
    if (isHttp2(response)) {
      for (const name of ["writableEnded", "finished"]) Reflect.deleteProperty(response, name);
      return;
    }
    const own = response as unknown as OwnState;
    own.finished = false;
    own._trailer = this.#trailer;
    own.outputSize = Math.max(0, own.outputSize - this.#shownBytes);
    this.#shownBytes = 0;
  }

  /**
   * What node:http has taken at the end leaves although its handler, or Express for it, destroys it or closes the connection
   * then: so does what still waits. A client that leaves and a server that closes end the socket at once.
   */
  #delayDestroy(): void {
    const response = this.#response;
    const socket = isHttp2(response) ? null : (response.socket as Socket | null);
    const destroy = (socket?.destroy ?? nothing) as Destroy;
    const end = (socket?.end ?? nothing) as End;
    this.#own = { response: response.destroy as Destroy, socket, destroy, end };
    response.destroy = this.#onDestroy.bind(this) as never;
    const stream = streamOf(response) as Http2Stream | undefined;
    for (const name of stream ? STREAM_ENDS : []) this.#delayOf(stream as Http2Stream, name);
    if (!socket) return;
    socket.destroy = this.#onSocketDestroy.bind(this, socket, destroy) as never;
    socket.end = this.#onSocketEnd.bind(this, socket, end) as never;
  }

  /** Of an HTTP/2 stream, which its client and its session close first. */
  #delayOf(stream: Http2Stream, name: (typeof STREAM_ENDS)[number]): void {
    const own = stream[name];
    stream[name] = (...args) => {
      if (stream.closed || stream.session?.destroyed !== false) return own.apply(stream, args);
      this.#onDestroy();
      return stream;
    };
  }

  #onDestroy(error?: Error): ServerResponse {
    this.#isCut ??= { error };
    return this.#response;
  }

  #onSocketDestroy(socket: Socket, destroy: Destroy, error?: Error | null): unknown {
    if (this.#isClosing(socket, error)) return destroy.call(socket, error);
    this.#onDestroy(error ?? undefined);
    return socket;
  }

  #onSocketEnd(socket: Socket, end: End, ...args: unknown[]): unknown {
    if (this.#isClosing(socket)) return end.apply(socket, args);
    this.#ends ??= args;
    return socket;
  }

  /** @param error of the system where the connection broke, else of the handler */
  #isClosing(socket: Socket, error?: Error | null): boolean {
    const isBroken = Boolean(error && "syscall" in error);
    return !this.#own || isBroken || socket.readableEnded || socket.server?.listening === false;
  }

  #restoreDestroy(): () => void {
    if (!this.#own) return nothing;
    const response = this.#response;
    const { response: ofResponse, socket, destroy, end } = this.#own;
    // Assigned, not deleted: a socket serves many requests, and V8 makes an object slow that loses a property.
    response.destroy = ofResponse as ServerResponse["destroy"];
    if (socket) Object.assign(socket, { destroy, end });
    const stream = streamOf(response);
    for (const name of stream ? STREAM_ENDS : []) Reflect.deleteProperty(stream as object, name);
    this.#own = undefined;
    const [cut, ends] = [this.#isCut, this.#ends];
    if (cut) return () => void response.destroy(cut.error);
    return ends ? () => void end.apply(socket, ends) : nothing;
  }
}

type End = (...args: unknown[]) => unknown;

const STREAM_ENDS = ["close", "destroy"] as const;

type Http2Stream = Record<(typeof STREAM_ENDS)[number], End> & {
  readonly closed: boolean;
  readonly session?: { readonly destroyed: boolean };
};

type Destroy = (error?: Error | null) => unknown;

/** node:http sets its server on the sockets that it accepts. */
type Socket = Duplex & { readonly server?: { readonly listening: boolean } };

const nothing = (): void => undefined;

/** An error as node:http throws it: code and message. */
export function nodeError(code: string, message: string, Kind: ErrorConstructor = Error): Error {
  return Object.assign(new Kind(message), { code });
}
