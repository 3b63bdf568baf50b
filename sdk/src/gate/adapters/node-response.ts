/**
 * Watches a Node response while a paid handler writes it. The status decides the outcome before the first body byte:
 * 500 or more releases the payment, any other uses it up. The last byte waits until that is recorded, together with the
 * answer where it is kept for a client that loses it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Answer, CORS_HEADERS, type Decision, errorAnswer, privateCacheControl, varyWith } from "../core/answer";
import type { Gate } from "../core/gate";
import { isRefusedCharge, type RequestScope, settleScope } from "../core/request-scope";
import { hasClientLeft, type NodeRecording, recordNode } from "../replay/record-node";
import { STREAM_MS } from "../replay/recorder";

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
  const writeHead = response.writeHead.bind(response) as (...args: unknown[]) => ServerResponse;
  const writePrivately = (...args: unknown[]) => writePrivateHead(response, gate.cors, writeHead, args);
  watch({ response, scope, onRefusedCharge: () => gate.answerOfRefusedCharge(scope) }, writePrivately);
}

export interface WatchOptions {
  readonly response: ServerResponse;
  readonly scope: RequestScope;
  /** the answer instead of a failed one, when a charge was refused */
  readonly onRefusedCharge?: () => Promise<Answer>;
}

export function watchResponse(options: WatchOptions): void {
  const { response } = options;
  watch(options, response.writeHead.bind(response) as (...args: unknown[]) => ServerResponse);
}

function watch(
  { response, scope, onRefusedCharge }: WatchOptions,
  writeHead: (...args: unknown[]) => ServerResponse,
): void {
  const write = response.write.bind(response) as (...args: unknown[]) => boolean;
  const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
  let settling: Promise<unknown> | undefined;
  let replaced = false;
  /** the head of a response that may still be replaced */
  let heldHead: unknown[] | undefined;
  let hasBegun = false;

  /** what of the answer is kept; undefined where nothing is, or nothing any more */
  let recording = scope.keeper && recordNode(response, scope.keeper.maxBytes);
  let streamTimer: NodeJS.Timeout | undefined;

  const settle = (how: "use" | "release", kept?: NodeRecording): Promise<unknown> | undefined => {
    clearTimeout(streamTimer);
    recording = undefined;
    settling ??= settleScope(scope, how, kept?.answer());
    return settling;
  };
  const record = (args: unknown[]) => (settling ? "void" : (recording?.take(args) ?? "void"));
  /** A response that takes longer is a stream, or broke off: its payment is used up, and the answer is not kept. */
  const boundRecording = (): void => {
    streamTimer ??= setTimeout(() => void settle("use")?.catch(() => response.destroy()), STREAM_MS).unref();
  };
  const settleByStatus = () => settle(response.statusCode >= 500 ? "release" : "use");

  response.writeHead = ((...args: unknown[]) => {
    recording?.head(args);
    const isHeld = onRefusedCharge && !replaced && !hasBegun && isRefusedCharge(scope, args[0] as number);
    if (!isHeld) return writeHead(...args);
    heldHead = args;
    response.statusCode = args[0] as number;
    return response;
  }) as typeof response.writeHead;

  response.write = ((...args: unknown[]) => {
    if (replaced) return true;
    hasBegun = true;
    if (heldHead) writeHead(...heldHead);
    heldHead = undefined;
    const recorded = record(args);
    if (recorded === "last") {
      void settle("use", recording)?.then(
        () => write(...args),
        () => response.destroy(),
      );
      return true;
    }
    if (recorded === "open") boundRecording();
    // The rejection is handled at the end, or ends the response here.
    else settleByStatus()?.catch(() => response.destroy());
    return write(...args);
  }) as typeof response.write;

  response.end = ((...args: unknown[]) => {
    if (replaced) return response;
    if (onRefusedCharge && !response.headersSent && isRefusedCharge(scope, response.statusCode)) {
      replaced = true;
      void replaceWith(onRefusedCharge);
      return response;
    }
    const waits = record(args) === "void" ? settleByStatus() : settle("use", recording);
    if (!waits) return end(...args);
    replaced = true;
    waits.then(() => finish(...args), failed);
    return response;
  }) as typeof response.end;

  /** HTTP/2 writes the last part by the response's own `write`; what a handler still writes stays swallowed. */
  function finish(...args: unknown[]): void {
    const swallowing = response.write;
    response.write = write as typeof response.write;
    end(...args);
    response.write = swallowing;
  }

  // Cut off: the request was served as far as it could be, and is used up. Where the client has left, the handler may
  // go on, and the client comes back for its answer.
  const settleWhenCut = () =>
    response.once("close", () => {
      if (recording && !settling && hasClientLeft(response)) boundRecording();
      else void settle("use")?.catch(() => undefined);
    });
  if (scope.claims.length > 0 || scope.onEnd) settleWhenCut();
  else scope.onClaim = settleWhenCut;

  async function replaceWith(make: () => Promise<Answer>): Promise<void> {
    try {
      const answer = await make();
      await settle(answer.status >= 500 ? "release" : "use");
      rewrite(answer);
    } catch (error) {
      failed(error);
    }
  }

  function failed(error: unknown): void {
    if (response.headersSent) response.destroy();
    else rewrite(errorAnswer(error));
  }

  function rewrite(answer: Answer): void {
    for (const name of response.getHeaderNames()) {
      if (!name.startsWith("access-control-")) response.removeHeader(name);
    }
    response.statusCode = answer.status;
    setAbsent(response, answer.headers);
    finish(answer.body);
  }
}

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
  const headers: Record<string, HeaderValue> = cors ? { ...CORS_HEADERS } : {};
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
