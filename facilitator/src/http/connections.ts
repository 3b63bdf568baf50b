/**
 * Limits the open connections. At the limit a new one takes the place of the one that has waited longest without a whole
 * request: idle clients and slow senders keep nobody out. When every connection is being served, the new one gets 503.
 * Nothing is closed without an answer that the client can read.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { Unavailable } from "turnpike/protocol";
import { errorResponseOf } from "./errors";
import { OPEN_HEADERS } from "./response-observer";

export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly monotonicMs: () => number;
}

/** A connection may be closed for another one when it has sent no whole request for that long. */
const UNSERVED_MS = 1_000;

/** How long a client may take to read the last answer on its connection. */
const LINGER_MS = 2_000;

const RETRY_AFTER_SEC = 2;

interface Unserved {
  readonly sinceMs: number;
  /** bytes received until then: more means that a request is arriving */
  readonly bytes: number;
}

export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #open = new Set<Socket>();
  /** without a whole request, in the order in which they will be closed */
  readonly #unserved = new Map<Socket, Unserved>();
  readonly #closing = new WeakSet<Socket>();

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
    server.on("clientError", (error: NodeJS.ErrnoException, socket) => this.#onClientError(error, socket as Socket));
  }

  /** @returns false when the connection is being closed, so that the request must not be handled */
  begin(message: IncomingMessage, reply: ServerResponse): boolean {
    const { socket } = message;
    if (this.#closing.has(socket)) return false;
    const served = (): void => void this.#unserved.delete(socket);
    if (hasBody(message)) message.once("end", served);
    else served();
    reply.once("finish", () => this.#wait(socket));
    return true;
  }

  #admit(socket: Socket): boolean {
    if (this.#open.size >= this.#limits.maxConnections && !this.#closeOldest()) {
      this.#refuse(socket);
      return false;
    }
    this.#open.add(socket);
    this.#wait(socket);
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#unserved.delete(socket);
    });
    return true;
  }

  #wait(socket: Socket): void {
    if (socket.destroyed) return;
    this.#unserved.delete(socket);
    this.#unserved.set(socket, { sinceMs: this.#limits.monotonicMs(), bytes: socket.bytesRead });
  }

  #closeOldest(): boolean {
    const [oldest] = this.#unserved;
    if (!oldest) return false;
    const [socket, { sinceMs, bytes }] = oldest;
    if (this.#limits.monotonicMs() - sinceMs < UNSERVED_MS) return false;
    // A client that has sent nothing expects no answer.
    this.#close(socket, socket.bytesRead > bytes ? busyAnswer() : "");
    return true;
  }

  /** Answers after the first bytes of the request: a client may not read an answer to a request that it has not sent. */
  #refuse(socket: Socket): void {
    socket.once("data", () => this.#close(socket, busyAnswer()));
    this.#endSoon(socket);
  }

  #onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#closing.has(socket)) return;
    const { _httpMessage: reply } = socket as Socket & { _httpMessage?: ServerResponse };
    if (!socket.writable || reply?.headersSent) socket.destroy(error);
    else this.#close(socket, answerTo(error));
  }

  /** Sends the last answer. Reads on: closing with unread data would reset the connection before the client reads. */
  #close(socket: Socket, answer: string): void {
    this.#closing.add(socket);
    this.#open.delete(socket);
    this.#unserved.delete(socket);
    socket.end(answer);
    this.#endSoon(socket);
  }

  #endSoon(socket: Socket): void {
    socket.on("error", () => socket.destroy());
    socket.once("end", () => socket.destroy());
    socket.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
  }
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;

function busyAnswer(): string {
  const error = new Unavailable("too many connections are open", { reason: "busy", retryAfterSec: RETRY_AFTER_SEC });
  const { headers, text } = errorResponseOf(error, randomUUID());
  const lines = Object.entries({ ...OPEN_HEADERS, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n${lines.join("")}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

/** As Node answers, but so that the client can read it. */
function answerTo({ code }: NodeJS.ErrnoException): string {
  const status =
    code === "ERR_HTTP_REQUEST_TIMEOUT"
      ? "408 Request Timeout"
      : code === "HPE_HEADER_OVERFLOW"
        ? "431 Request Header Fields Too Large"
        : "400 Bad Request";
  return `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`;
}
