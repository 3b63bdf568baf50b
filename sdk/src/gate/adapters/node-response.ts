/**
 * Watches a Node response while a paid handler writes it. The status decides the outcome before the first body byte:
 * 500 or more releases the payment, any other uses it up. The last byte waits until that is recorded, together with the
 * answer where it is kept for a client that loses it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Answer, CORS_HEADERS, type Decision, errorAnswer, privateCacheControl, varyWith } from "../core/answer";
import type { Gate } from "../core/gate";
import { isRefusedCharge, type RequestScope, settleScope } from "../core/request-scope";
import { hasClientLeft, type NodeRecording, recordNode, STREAM_MS } from "../replay/recorder";

export interface PaidResponse {
  readonly gate: Pick<Gate, "cors" | "answerOfRefusedCharge">;
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** receipts */
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns whether the request is over: the client has left, or the application has answered. */
export function isOver(request: IncomingMessage, response: ServerResponse): boolean {
  return response.headersSent || response.writableEnded || response.destroyed || request.socket.destroyed;
}

/** Withdraws a decision that came too late: no handler ran, and the payment stays unused. */
export function withdraw(decision: Decision): void {
  if (decision.kind !== "allow") return;
  decision.onEnd?.("release");
  // Where it cannot be written, the lease expires.
  decision.claim?.settle("withdraw").catch(() => undefined);
}

/** A paid response: kept out of shared caches whatever the handler says, and watched. */
export function watchPaid({ gate, response, scope, headers }: PaidResponse): void {
  setAbsent(response, headers);
  const writeHead = writeHeadOf(response);
  const writePrivately = (...args: unknown[]) => writePrivateHead(response, gate.cors, writeHead, args);
  new WatchedResponse(
    { response, scope, onRefusedCharge: () => gate.answerOfRefusedCharge(scope) },
    writePrivately,
  ).watch();
}

export interface WatchOptions {
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** the answer instead of a failed one, when a charge was refused */
  readonly onRefusedCharge?: () => Promise<Answer>;
}

export function watchResponse(options: WatchOptions): void {
  new WatchedResponse(options, writeHeadOf(options.response)).watch();
}

const writeHeadOf = (response: ServerResponse): Write => response.writeHead.bind(response) as Write;

type Write = (...args: unknown[]) => ServerResponse;

/** Takes the place of a response's own `writeHead`, `write` and `end`. */
class WatchedResponse {
  readonly #response: ServerResponse;
  readonly #scope: RequestScope;
  readonly #onRefusedCharge: WatchOptions["onRefusedCharge"];
  readonly #writeHead: Write;
  readonly #write: (...args: unknown[]) => boolean;
  readonly #end: Write;
  #settling: Promise<unknown> | undefined;
  #isReplaced = false;
  #hasBegun = false;
  /** the head of a response that may still be replaced */
  #heldHead: unknown[] | undefined;
  /** what of the answer is kept; undefined where nothing is, or nothing any more */
  #recording: NodeRecording | undefined;
  #streamTimer: NodeJS.Timeout | undefined;

  constructor({ response, scope, onRefusedCharge }: WatchOptions, writeHead: Write) {
    this.#response = response;
    this.#scope = scope;
    this.#onRefusedCharge = onRefusedCharge;
    this.#writeHead = writeHead;
    this.#write = response.write.bind(response) as (...args: unknown[]) => boolean;
    this.#end = response.end.bind(response) as Write;
    this.#recording = scope.keeper && recordNode(response, scope.keeper.maxBytes);
  }

  watch(): void {
    const response = this.#response;
    const scope = this.#scope;
    // Bound: V8 puts a function literal that is assigned to a property into old space. A scavenge then keeps all that it
    // refers to, which is the whole request.
    response.writeHead = this.#onWriteHead.bind(this) as typeof response.writeHead;
    response.write = this.#onWrite.bind(this) as typeof response.write;
    response.end = this.#onEnd.bind(this) as typeof response.end;
    if (scope.claims.length > 0 || scope.onEnd) this.#settleWhenCut();
    else scope.onClaim = this.#settleWhenCut.bind(this);
  }

  #onWriteHead(...args: unknown[]): ServerResponse {
    this.#recording?.head(args);
    const status = args[0] as number;
    const mayReplace = this.#onRefusedCharge && !this.#isReplaced && !this.#hasBegun;
    if (!mayReplace || !isRefusedCharge(this.#scope, status)) return this.#writeHead(...args);
    this.#heldHead = args;
    this.#response.statusCode = status;
    return this.#response;
  }

  #onWrite(...args: unknown[]): boolean {
    if (this.#isReplaced) return true;
    this.#hasBegun = true;
    if (this.#heldHead) this.#writeHead(...this.#heldHead);
    this.#heldHead = undefined;
    const recorded = this.#record(args);
    if (recorded === "last") {
      void this.#settle("use", this.#recording)?.then(
        () => this.#write(...args),
        () => this.#response.destroy(),
      );
      return true;
    }
    if (recorded === "open") this.#boundRecording();
    // The rejection is handled at the end, or ends the response here.
    else this.#settleByStatus()?.catch(() => this.#response.destroy());
    return this.#write(...args);
  }

  #onEnd(...args: unknown[]): ServerResponse {
    const response = this.#response;
    if (this.#isReplaced) return response;
    const onRefusedCharge = this.#onRefusedCharge;
    if (onRefusedCharge && !response.headersSent && isRefusedCharge(this.#scope, response.statusCode)) {
      this.#isReplaced = true;
      void this.#replaceWith(onRefusedCharge);
      return response;
    }
    const waits = this.#record(args) === "void" ? this.#settleByStatus() : this.#settle("use", this.#recording);
    if (!waits) return this.#end(...args);
    this.#isReplaced = true;
    waits.then(
      () => this.#finish(...args),
      (error) => this.#fail(error),
    );
    return response;
  }

  #settle(how: "use" | "release", kept?: NodeRecording): Promise<unknown> | undefined {
    clearTimeout(this.#streamTimer);
    this.#recording = undefined;
    this.#settling ??= settleScope(this.#scope, how, kept?.answer());
    return this.#settling;
  }

  #settleByStatus(): Promise<unknown> | undefined {
    return this.#settle(this.#response.statusCode >= 500 ? "release" : "use");
  }

  /**
   * Settles a response that is cut off: the request was served as far as it could be, and is used up. Where the client
   * has left, the handler may go on, and the client comes back for its answer.
   */
  #settleWhenCut(): void {
    this.#response.once("close", () => {
      if (this.#recording && !this.#settling && hasClientLeft(this.#response)) this.#boundRecording();
      else void this.#settle("use")?.catch(() => undefined);
    });
  }

  #record(args: unknown[]): "open" | "last" | "void" {
    return this.#settling ? "void" : (this.#recording?.take(args) ?? "void");
  }

  /** A response that takes longer is a stream, or broke off: its payment is used up, and the answer is not kept. */
  #boundRecording(): void {
    this.#streamTimer ??= setTimeout(
      () => void this.#settle("use")?.catch(() => this.#response.destroy()),
      STREAM_MS,
    ).unref();
  }

  /** HTTP/2 writes the last part by the response's own `write`; what a handler still writes stays swallowed. */
  #finish(...args: unknown[]): void {
    const response = this.#response;
    const swallowing = response.write;
    response.write = this.#write as typeof response.write;
    this.#end(...args);
    response.write = swallowing;
  }

  async #replaceWith(make: () => Promise<Answer>): Promise<void> {
    try {
      const answer = await make();
      await this.#settle(answer.status >= 500 ? "release" : "use");
      this.#rewrite(answer);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#response.headersSent) this.#response.destroy();
    else this.#rewrite(errorAnswer(error));
  }

  #rewrite(answer: Answer): void {
    const response = this.#response;
    for (const name of response.getHeaderNames()) {
      if (!name.startsWith("access-control-")) response.removeHeader(name);
    }
    response.statusCode = answer.status;
    setAbsent(response, answer.headers);
    this.#finish(answer.body);
  }
}

/** Writes the head of a paid response: kept out of shared caches whatever headers the handler sets. */
function writePrivateHead(
  response: ServerResponse,
  cors: boolean,
  writeHead: (...args: unknown[]) => ServerResponse,
  [status, ...rest]: unknown[],
): ServerResponse {
  const reason = typeof rest[0] === "string" ? [rest.shift()] : [];
  const [headers] = rest;
  if (!Array.isArray(headers) && response.getHeaderNames().length === 0) {
    // Nothing is set yet: one plain object is written out several times as fast as headers that are set one by one.
    return writeHead(status, ...reason, privateHeaders((headers ?? {}) as Record<string, HeaderValue>, cors));
  }
  applyHeaders(response, headers);
  if (cors) setAbsent(response, CORS_HEADERS);
  response.setHeader("Cache-Control", privateCacheControl(headerOf(response, "Cache-Control")));
  response.setHeader("Vary", varyWith(headerOf(response, "Vary")));
  return writeHead(status, ...reason);
}

type HeaderValue = string | number | readonly string[] | undefined;

/** The handler's headers and those of a paid response, each once. */
function privateHeaders(given: Readonly<Record<string, HeaderValue>>, cors: boolean): Record<string, HeaderValue> {
  // Not a spread: V8 fills old space when properties are added to one.
  const headers: Record<string, HeaderValue> = cors ? Object.assign({}, CORS_HEADERS) : {};
  let cacheControl: string | undefined;
  let vary: string | undefined;
  for (const name in given) {
    const value = given[name];
    if (value === undefined || !Object.hasOwn(given, name)) continue;
    const lower = LENGTHS.has(name.length) ? name.toLowerCase() : "";
    if (lower === "cache-control") cacheControl = String(value);
    else if (lower === "vary") vary = String(value);
    else {
      const own = cors ? CORS_NAMES.get(lower) : undefined;
      if (own) delete headers[own];
      headers[name] = value;
    }
  }
  headers["Cache-Control"] = privateCacheControl(cacheControl);
  headers.Vary = varyWith(vary);
  return headers;
}

const CORS_NAMES = new Map(Object.keys(CORS_HEADERS).map((name) => [name.toLowerCase(), name]));

/** of the names that are looked for: most of a handler's need no second look */
const LENGTHS = new Set(["cache-control", "vary", ...CORS_NAMES.keys()].map((name) => name.length));

/** Sets the headers given to writeHead, which take precedence over earlier ones. */
function applyHeaders(response: ServerResponse, headers: unknown): void {
  if (Array.isArray(headers)) {
    const pairs = Array.isArray(headers[0])
      ? (headers as [string, string][])
      : headers.flatMap((name: string, index) =>
          index % 2 === 0 ? [[name, headers[index + 1]] as [string, string]] : [],
        );
    const own = new Map<string, string[]>();
    for (const [name, value] of pairs) own.set(name, [...(own.get(name) ?? []), value]);
    for (const [name, values] of own) response.setHeader(name, values.length === 1 ? (values[0] ?? "") : values);
    return;
  }
  for (const [name, value] of Object.entries((headers ?? {}) as Record<string, string | number | string[]>)) {
    if (value !== undefined) response.setHeader(name, value);
  }
}

function headerOf(response: ServerResponse, name: string): string | undefined {
  const value = response.getHeader(name);
  return value === undefined ? undefined : Array.isArray(value) ? value.join(", ") : String(value);
}

/** The application's own CORS headers stay as they are. */
export function setAbsent(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith("Access-Control-") || !response.hasHeader(name)) response.setHeader(name, value);
  }
}
