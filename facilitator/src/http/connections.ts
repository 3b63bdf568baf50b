/**
 * Limits the open connections. At the limit a new one takes the place of the one that has waited longest without a whole
 * request: idle clients and slow senders keep nobody out. When every connection is being served, the new one gets 503.
 * Nothing is closed without an answer that the client can read: the service ends its own side first, and reads on until
 * the client has ended its side too. A client that reads nothing of its answer loses its connection.
 */
import { randomUUID } from "node:crypto";
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { InvalidRequest, type TurnpikeError, Unavailable } from "turnpike/protocol";
import { errorResponseOf, HEAD_TOO_LARGE, REQUEST_TIMEOUT } from "./errors";

export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly monotonicMs: () => number;
}

/** A connection may be closed for another one when it has sent no whole request for that long. */
const UNSERVED_MS = 1_000;

/**
 * How long a client may take to send the rest of its request and to read the last answer on its connection. As long as
 * a request may take: a client without processor is as slow as one with a slow line.
 */
const LINGER_MS = 15_000;

/** Connections that are read on, per connection that may be open; past that, the oldest are closed. */
const LINGERING_SHARE = 0.5;

const RETRY_AFTER_SEC = 2;

interface Unserved {
  /** nothing was answered on this connection yet */
  readonly isNew: boolean;
  readonly sinceMs: number;
  /** bytes received until then: more means that a request is arriving */
  readonly bytes: number;
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #open = new Set<Socket>();
  /** They sent no whole request, and are in the order in which they will be closed. */
  readonly #unserved = new Map<Socket, Unserved>();
  /** They are answered for the last time, and are in the order of their answers. */
  readonly #lingering = new Set<Socket>();

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
  }

  /** Takes over the server's new connections. Call before it listens. */
  attachTo(server: Server): void {
    const serve = server.listeners("connection");
    server.removeAllListeners("connection");
    server.on("connection", (socket: Socket) => {
      if (!this.#admit(socket)) return;
      for (const listener of serve) listener.call(server, socket);
    });
    server.on("timeout", (socket: Socket) => this.#onSilence(socket));
    server.on("clientError", (error: NodeJS.ErrnoException, socket) => this.#onClientError(error, socket as Socket));
  }

  /** @returns false when the connection is being closed, so that the request must not be handled */
  begin(message: IncomingMessage, reply: ServerResponse): boolean {
    const { socket } = message;
    if (this.#lingering.has(socket)) {
      message.resume();
      return false;
    }
    const served = (): void => void this.#unserved.delete(socket);
    if (hasBody(message)) message.once("end", served);
    else served();
    reply.once("finish", () => this.#wait(socket, false));
    return true;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Closes what is only read on. */
  cut(): void {
    for (const socket of this.#lingering) socket.destroy();
  }

  #admit(socket: Socket): boolean {
    if (this.#open.size >= this.#limits.maxConnections && !this.#closeOldest()) {
      this.#close(socket, answerWith(BUSY));
      return false;
    }
    this.#open.add(socket);
    this.#wait(socket, true);
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#unserved.delete(socket);
    });
    // Node calls it after the last response. Its own version closes at once, also while a body is still arriving.
    socket.destroySoon = () => socket.end(() => this.#close(socket, ""));
    return true;
  }

  #wait(socket: Socket, isNew: boolean): void {
    if (socket.destroyed || this.#lingering.has(socket)) return;
    this.#unserved.delete(socket);
    this.#unserved.set(socket, { isNew, sinceMs: this.#limits.monotonicMs(), bytes: socket.bytesRead });
  }

  #closeOldest(): boolean {
    const [oldest] = this.#unserved;
    if (!oldest) return false;
    const [socket, { isNew, sinceMs, bytes }] = oldest;
    if (this.#limits.monotonicMs() - sinceMs < UNSERVED_MS) return false;
    // A client that was served and has sent nothing since expects no answer.
    this.#close(socket, isNew || socket.bytesRead > bytes ? answerWith(BUSY) : "");
    return true;
  }

  /** Nothing was sent or read on this connection for long. */
  #onSilence(socket: Socket): void {
    const unserved = this.#unserved.get(socket);
    const isArriving = unserved !== undefined && (unserved.isNew || socket.bytesRead > unserved.bytes);
    const isBeingServed = unserved === undefined && this.#open.has(socket);
    // A request that does not arrive in time gets 408, and an answer may take as long as the chain.
    if (isArriving || (isBeingServed && socket.writableLength === 0)) return;
    socket.destroy();
  }

  #onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#lingering.has(socket)) return;
    const { _httpMessage: reply } = socket as Socket & { _httpMessage?: ServerResponse };
    if (!socket.writable || reply?.headersSent) socket.destroy(error);
    else this.#close(socket, answerWith(BY_CODE[error.code ?? ""] ?? MALFORMED));
  }

  /**
   * Sends the last answer, which a client may get before it has sent its request. Reads on: closing with unread data
   * would reset the connection before the client reads.
   */
  #close(socket: Socket, answer: string): void {
    this.#open.delete(socket);
    this.#unserved.delete(socket);
    if (this.#lingering.has(socket) || socket.destroyed) return;
    this.#lingering.add(socket);
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    // Node's own listener would end what has ended.
    socket.removeAllListeners("end");
    socket.on("error", () => socket.destroy());
    socket.once("end", () => socket.destroy());
    socket.once("close", () => {
      clearTimeout(timer);
      this.#lingering.delete(socket);
    });
    if (!socket.writableEnded) socket.end(answer);
    socket.resume();
    if (this.#lingering.size > this.#limits.maxConnections * LINGERING_SHARE)
      this.#lingering.values().next().value?.destroy();
  }
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

/** Made once, as those below: an overload needs thousands, and each would record where it was made. */
const BUSY = new Unavailable("too many connections are open", { reason: "busy", retryAfterSec: RETRY_AFTER_SEC });

const TOO_SLOW = new Unavailable("the request did not arrive in time: send it again", { reason: REQUEST_TIMEOUT });
const TOO_LARGE = new InvalidRequest("headers: are too large; send fewer or shorter ones", { reason: HEAD_TOO_LARGE });
const MALFORMED = new InvalidRequest("request: must be well-formed HTTP/1.1");

const BY_CODE: Readonly<Record<string, TurnpikeError>> = {
  ERR_HTTP_REQUEST_TIMEOUT: TOO_SLOW,
  HPE_HEADER_OVERFLOW: TOO_LARGE,
};

/** Writes an answer with the statuses that Node would give, and a body. */
function answerWith(error: TurnpikeError): string {
  const { status, headers, text } = errorResponseOf(error, randomUUID());
  const lines = Object.entries({ connection: "close", ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}
