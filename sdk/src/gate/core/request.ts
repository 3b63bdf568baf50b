/** Reads a request the same way from every framework. */
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { isObject, utf8ToBytes } from "../../protocol";
import {
  bodyDropped,
  bodyMembers,
  bodyTooLarge,
  bytesReadOf,
  drain,
  isUnread,
  readAhead,
  readRequestAhead,
  rememberRead,
  unreadRequest,
  unreadView,
  viewOf,
} from "./body";

export interface GateRequest {
  /** upper case */
  readonly method: string;
  /** the request target as it came, before any mounting took a prefix off */
  readonly target: string;
  /** as it was sent, where a server serialised it before the router saw it */
  readonly sentTarget?: string | undefined;
  /** what it asks for, where that is no URL of this provider's, such as `mcp://tool/quote` */
  readonly resource?: string;
  /** the Host header, with port */
  readonly host: string | undefined;
  readonly secure: boolean;
  /** of the socket's other end; undefined where the platform does not provide it */
  readonly remoteAddress: string | undefined;
  /** repeated headers joined by ", ", as HTTP reads them; `name` in lower case */
  header(name: string): string | undefined;
  /**
   * Reads the body's bytes as they came; the handler and the callbacks can still read it.
   * @throws ConfigError where they are gone, PayloadTooLarge, InvalidRequest when the client leaves
   */
  body(maxBytes: number): Promise<Uint8Array>;
  /** the framework's own request, for the provider's callbacks; once `body` has read, with an unread body each time */
  readonly raw: unknown;
  /** Takes off what would be answered 304, before the handler sees it. */
  dropConditions(): void;
  /** whether something has read the body since it came */
  readonly isBodyRead: boolean;
  /** whether something has read it and kept nothing for the handler */
  readonly isBodyLost: boolean;
  /** whether the handler takes the connection over: what it then sends does not pass through its response */
  readonly isUpgrade: boolean;
}

/** Access to the body of a framework's request. */
export interface BodyOfRequest {
  /** @see GateRequest.body */
  read(maxBytes: number): Promise<Uint8Array>;
  /** @see GateRequest.raw */
  raw(): unknown;
  isRead(): boolean;
  isLost(): boolean;
}

export type NodeRequest = IncomingMessage & {
  readonly originalUrl?: string;
  /** where a body parser keeps the bytes: `express.json({ verify: keepBody })` */
  readonly rawBody?: Uint8Array | string;
  readonly body?: unknown;
};

/** What a framework knows in addition to Node's message. */
export interface KnownBetter {
  /** the framework's own request */
  readonly raw?: unknown;
  /** as it came, where a router rewrites `url` */
  readonly target?: string;
  /** where the framework keeps the parsed body */
  readonly parsed?: Pick<NodeRequest, "rawBody" | "body">;
  /** what a hook before the gate has put in the place of the message's stream */
  readonly payload?: Readable | undefined;
  /** what to change where the body was read before the gate */
  readonly remedy?: string;
}

export const NODE_REMEDY =
  "mount the gate before the body parser, or keep the bytes as request.rawBody with express.json({ verify: keepBody }) (turnpike/gate/express); under Next.js pages set api.bodyParser to false";

/** Reads lazily: most requests are judged by their method and one header. */
export class NodeGateRequest implements GateRequest {
  readonly method: string;
  readonly target: string;
  /** the body of `known.payload`, which cannot be put back: the next hook needs a stream of it */
  drained: Uint8Array | undefined;
  private bytes: Uint8Array | undefined;

  constructor(
    private readonly message: NodeRequest,
    private readonly known: KnownBetter = {},
  ) {
    this.method = (message.method ?? "GET").toUpperCase();
    this.target = known.target ?? message.originalUrl ?? message.url ?? "/";
  }

  get raw(): unknown {
    const { message, known, bytes } = this;
    if (bytes === undefined) return known.raw ?? message;
    const view = unreadView(message, bytes);
    if (known.raw === undefined) return view;
    const framework = known.raw as object;
    return viewOf(framework, Object.defineProperty(bodyMembers(message, bytes, framework), "raw", { value: view }));
  }

  get isBodyRead(): boolean {
    return this.message.readableDidRead;
  }

  get isBodyLost(): boolean {
    const { rawBody, body } = this.known.parsed ?? this.message;
    return this.isBodyRead && rawBody === undefined && body === undefined;
  }

  get host(): string | undefined {
    return this.message.headers.host;
  }

  get secure(): boolean {
    return "encrypted" in this.message.socket;
  }

  get remoteAddress(): string | undefined {
    return this.message.socket.remoteAddress;
  }

  /** Set by node:http, and only where the server has a listener for such requests. */
  get isUpgrade(): boolean {
    return (this.message as { readonly upgrade?: boolean }).upgrade === true;
  }

  header(name: string): string | undefined {
    const first = this.message.headers[name];
    // Of a repeated Authorization, Node's own object has the first alone.
    const all = name === "authorization" && first !== undefined ? this.message.headersDistinct?.[name] : undefined;
    const value = all ?? first;
    return Array.isArray(value) ? value.join(", ") : value;
  }

  dropConditions(): void {
    dropFromMessage(this.message);
  }

  async body(maxBytes: number): Promise<Uint8Array> {
    const { message, known } = this;
    const kept = bytesReadOf(message) === undefined ? keptBytes(known.parsed ?? message) : undefined;
    this.bytes = kept ? undefined : await this.unreadBytes(maxBytes);
    const bytes = kept ?? this.bytes ?? NO_BYTES;
    if (bytes.byteLength > maxBytes) throw bodyTooLarge(maxBytes);
    return bytes;
  }

  private async unreadBytes(maxBytes: number): Promise<Uint8Array> {
    const { message, known } = this;
    const read = bytesReadOf(message);
    if (read) return read;
    if (!hasBody(message)) return NO_BYTES;
    const { payload = message, remedy = NODE_REMEDY } = known;
    if (!isUnread(payload)) throw bodyDropped(remedy);
    if (payload === message) return readAhead(message, maxBytes);
    this.drained = await drain(payload, maxBytes);
    rememberRead(message, this.drained);
    return this.drained;
  }
}

const NO_BYTES = new Uint8Array();

const FETCH_REMEDY = "wrap the handler with the gate before anything that reads the request";

/** @param env what the server gives beside the request: @hono/node-server's has the message itself */
export function gateRequestOfFetch(
  request: Request,
  env?: unknown,
  body: BodyOfRequest = bodyOfFetch(request),
): GateRequest {
  const { incoming } = (isObject(env) ? env : {}) as { readonly incoming?: { readonly url?: unknown } };
  return new FetchGateRequest(request, body, typeof incoming?.url === "string" ? incoming.url : undefined);
}

function bodyOfFetch(request: Request): BodyOfRequest {
  let bytes: Uint8Array | undefined;
  return {
    async read(maxBytes) {
      bytes = await readRequestAhead(request, maxBytes, FETCH_REMEDY);
      return bytes;
    },
    raw: () => (bytes ? unreadRequest(request, bytes) : request),
    isRead: () => request.bodyUsed,
    isLost: () => request.bodyUsed,
  };
}

class FetchGateRequest implements GateRequest {
  readonly method: string;
  readonly target: string;
  readonly secure: boolean;
  readonly remoteAddress = undefined;
  private readonly hostInUrl: string;

  constructor(
    private readonly request: Request,
    private readonly bodyOf: BodyOfRequest,
    readonly sentTarget: string | undefined,
  ) {
    // Some servers provide the target as it came, others serialised: the gate judges what the router saw.
    const [, protocol = "", host = "", target = ""] = /^([a-z]+):\/\/([^/?#]*)(.*)$/is.exec(request.url) ?? [];
    this.method = request.method.toUpperCase();
    this.target = target.startsWith("/") ? target : `/${target}`;
    this.secure = protocol.toLowerCase() === "https";
    this.hostInUrl = host;
  }

  get host(): string {
    return this.request.headers.get("host") ?? this.hostInUrl;
  }

  header(name: string): string | undefined {
    return this.request.headers.get(name) ?? undefined;
  }

  dropConditions(): void {
    dropFromRequest(this.request);
  }

  get raw(): unknown {
    return this.bodyOf.raw();
  }

  get isUpgrade(): boolean {
    return /(?:^|,)\s*websocket\s*(?:,|$)/i.test(this.request.headers.get("upgrade") ?? "");
  }

  get isBodyRead(): boolean {
    return this.bodyOf.isRead();
  }

  get isBodyLost(): boolean {
    return this.bodyOf.isLost();
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return this.bodyOf.read(maxBytes);
  }
}

/** Returns whether a body follows the head. HTTP/2 has no mandatory header for it, but its stream knows. */
function hasBody(message: NodeRequest & { readonly stream?: { readonly endAfterHeaders?: boolean } }): boolean {
  if (message.httpVersionMajor >= 2) return message.stream?.endAfterHeaders !== true;
  const { "transfer-encoding": coding, "content-length": length } = message.headers;
  return coding !== undefined || (length !== undefined && length !== "0");
}

function keptBytes({ rawBody, body }: Pick<NodeRequest, "rawBody" | "body">): Uint8Array | undefined {
  const bytes = rawBody ?? (typeof body === "string" || body instanceof Uint8Array ? body : undefined);
  return typeof bytes === "string" ? utf8ToBytes(bytes) : bytes;
}

/**
 * Taken off a request that pays once: a handler, or a middleware around it, would answer 304, without what was bought.
 * Those of a write stay: without them it could overwrite what its client has not seen.
 */
const CONDITIONS = ["if-none-match", "if-modified-since"] as const;

/** The message's three forms of its headers are each made when they are first asked for. */
function dropFromMessage(message: IncomingMessage): void {
  const { headers, headersDistinct } = message;
  if (CONDITIONS.every((name) => headers[name] === undefined)) return;
  for (const name of CONDITIONS) {
    delete headers[name];
    // HTTP/2's messages have no such form.
    if (headersDistinct) delete headersDistinct[name];
  }
  const { rawHeaders } = message;
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    if (isCondition(rawHeaders[at] ?? "")) rawHeaders.splice(at, 2);
  }
}

const isCondition = (name: string): boolean => CONDITIONS.some((each) => each === name.toLowerCase());

function dropFromRequest(request: Request): void {
  const { headers } = request;
  const present = CONDITIONS.filter((name) => headers.has(name));
  if (present.length === 0) return;
  try {
    for (const name of present) headers.delete(name);
  } catch {
    // The platform locks the headers of what came over the network: the request shows a copy.
    const copy = new Headers([...headers].filter(([name]) => !isCondition(name)));
    Object.defineProperty(request, "headers", { value: copy, configurable: true });
  }
}
