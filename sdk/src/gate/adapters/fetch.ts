/**
 * Adapts a gate to fetch-style handlers, those of Next.js among them: settles the handler's response, and adds the paid
 * headers before its first byte leaves.
 */
import type { ServerResponse } from "node:http";
import { isErrored, type Readable } from "node:stream";
import { callback } from "../../protocol/arguments";
import { isForSharedCaches } from "../../protocol/headers";
import {
  type Allowed,
  type Answer,
  answerOf,
  CORS_HEADERS,
  type Decision,
  errorAnswer,
  privateCacheControl,
  varyWith,
} from "../core/answer";
import { type Payment, reportedWith } from "../core/payment";
import { type GateRequest, gateRequestOfFetch } from "../core/request";
import type { DecisionHandlers, Gate } from "../decision/gate";
import {
  cancelDeferred,
  hasFailed,
  isRefusedCharge,
  openRequestScope,
  type RequestScope,
  requestScopes,
  settleAhead,
  settleScope,
  usageReceiptHeader,
} from "../decision/request-scope";
import { recordResponse, wholeResponse } from "../replay/fetch-recorder";
import { safeHeaders } from "../replay/keeper";
import { readWithheld } from "./withheld-body";

/** The platform's request, paid for. */
export type PaidRequest<Req extends Request = Request> = Req & { readonly payment: Payment };

/** Further arguments of the platform follow the request. */
export type PaidHandler<Req extends Request, Rest extends unknown[]> = (
  request: PaidRequest<Req>,
  ...rest: Rest
) => Response | Promise<Response>;

/** Gates fetch-style handlers: `request.payment` says who paid, and how. */
export interface FetchGate {
  /**
   * Wraps a handler, which then runs for paid requests alone, with `payment` on the request and the platform's further
   * arguments after it. What the handler throws reaches the caller, and its payment is released.
   */
  <Rest extends unknown[], Req extends Request = Request>(
    handler: PaidHandler<Req, Rest>,
  ): (request: Req, ...rest: Rest) => Promise<Response>;
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   */
  ready(): Promise<void>;
}

/** The platform answers. */
const rethrow = (error: unknown): never => {
  throw error;
};

/**
 * Creates the wrapper from a provider's gate.
 * @param statusOf the status of a thrown value that is how the platform expresses a response
 */
export function fetchGate(gate: Gate, statusOf: (thrown: unknown) => number | undefined = () => undefined): FetchGate {
  const wrap = <Rest extends unknown[], Req extends Request = Request>(handler: PaidHandler<Req, Rest>) => {
    callback(handler, "handler");
    async function serve(facts: GateRequest, decision: Allowed, request: Req, rest: Rest): Promise<Response> {
      const scope = openRequestScope(facts, decision);
      return withholdingOutgoing(rest[0], scope, () => serveIn(scope, facts, decision, request, rest));
    }

    async function serveIn(
      scope: RequestScope,
      facts: GateRequest,
      decision: Allowed,
      request: Req,
      rest: Rest,
    ): Promise<Response> {
      const paid = Object.assign(request, { payment: scope.payment ?? decision.payment });
      // The handler takes the connection over: what it sends there cannot be withheld.
      const refusal = facts.isUpgrade ? await settleAhead(gate, scope) : undefined;
      if (refusal) return responseOf(refusal);
      const hasLeft = watchClient(request, scope);
      let response: Response;
      try {
        response = await requestScopes.run(scope, handler, paid, ...rest);
        const fault = faultOfResponse(response, scope);
        if (fault) throw fault;
      } catch (error) {
        const status = statusOf(error);
        if (scope.deferred) {
          const withheld = await settleThrown(gate, scope, status ?? 500);
          if (withheld) return withheld;
          throw error;
        }
        if (status !== undefined) await settleScope(scope, hasFailed(scope, status) ? "release" : "use");
        const failed = responseOf(errorAnswer(error));
        const settled = await settleResponse({ gate, scope, decision, response: failed, threw: true, hasLeft });
        if (scope.refused) return settled;
        throw error;
      }
      return settleResponse({ gate, scope, decision, response, threw: false, hasLeft });
    }

    return async (request: Req, ...rest: Rest): Promise<Response> => {
      const facts = gateRequestOfFetch(request, rest[0]);
      const act = (decision: Decision) =>
        decision.kind === "allow" ? serve(facts, decision, request, rest) : responseOf(answerOf(decision, gate));
      return gate.decide<Response | Promise<Response>>({ facts, act, fail: rethrow });
    };
  };
  return Object.assign(wrap, { ready: () => gate.ready() });
}

const SWITCHED = 101;

/** Marks a response that `@hono/node-server` does not send: its handler has written to the Node response itself. */
const ALREADY_SENT = "x-hono-already-sent";

/**
 * Serves a request; meanwhile a handler is cut that answers past its Response, by the Node response of its environment:
 * nothing could be withheld there.
 */
export async function withholdingOutgoing<T>(env: unknown, scope: RequestScope, serve: () => Promise<T>): Promise<T> {
  const outgoing = (env as { readonly outgoing?: Outgoing } | null | undefined)?.outgoing;
  if (!scope.deferred || !outgoing) return serve();
  const { writeHead, write, end, flushHeaders } = outgoing;
  const refuse = () => outgoing.destroy(new TypeError(PAST_RESPONSE));
  Object.assign(outgoing, { writeHead: refuse, write: refuse, end: refuse, flushHeaders: refuse });
  try {
    return await serve();
  } finally {
    Object.assign(outgoing, { writeHead, write, end, flushHeaders });
  }
}

type Outgoing = Pick<ServerResponse, "writeHead" | "write" | "end" | "flushHeaders" | "destroy">;

const PAST_RESPONSE =
  'the answer to a payment that settles after its handler is the Response that it returns, not what it writes to the server\'s: or use settle: "before"';

const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

export function responseOf({ status, headers, body }: Answer): Response {
  // Of an empty one servers write the length, which a HEAD's answer has already.
  const isEmpty = body.length === 0 || WITHOUT_BODY.has(status);
  return new Response(isEmpty ? null : (body as BodyInit), { status, headers });
}

export interface ServedResponse {
  readonly gate: Gate;
  readonly scope: RequestScope;
  readonly decision: Allowed;
  readonly response: Response;
  /** the handler threw; the framework made `response` of it */
  readonly threw: boolean;
  readonly hasLeft: HasLeft;
}

/** @returns whether the client has left, and whether that was in the middle of its upload */
type HasLeft = () => "upload" | "answer" | undefined;

/** Called before the handler runs: a server may abort only a signal that was asked for. */
export function watchClient(request: Request, { deferred }: RequestScope): HasLeft {
  const mayUpload = !BODILESS.has(request.method);
  const signal = deferred || mayUpload ? request.signal : undefined;
  const hasBrokenOff = mayUpload ? watchBody(request) : () => false;
  return () => (signal?.aborted ? (hasBrokenOff() ? "upload" : "answer") : undefined);
}

const BODILESS: ReadonlySet<string> = new Set(["GET", "HEAD"]);

const READS = ["arrayBuffer", "blob", "bytes", "formData", "json", "text"] as const;

/** @returns whether the body could not be read: a Request need not show that it broke off */
function watchBody(request: Request): () => boolean {
  let hasFailed = false;
  for (const name of READS) {
    const own = request[name] as (() => Promise<unknown>) | undefined;
    if (!own) continue;
    const value = async () => {
      try {
        return await own.call(request);
      } catch (error) {
        hasFailed ||= !(error instanceof SyntaxError);
        throw error;
      }
    };
    Object.defineProperty(request, name, { value, configurable: true, writable: true });
  }
  return () => hasFailed || isErrored(request.body as unknown as Readable);
}

/** @returns what to send: the handler's response with the paid headers, or the refusal of its charge */
export async function settleResponse(served: ServedResponse): Promise<Response> {
  const { gate, scope, decision, response, hasLeft } = served;
  if (decision.payment.kind === "free") return response;
  // Half a request has bought nothing, whatever the handler makes of it.
  const threw = served.threw || hasLeft() === "upload";
  if (response.status === SWITCHED) return settleSwitched(gate, scope, response);
  if (scope.deferred) return settleWithheld({ ...served, threw });
  if (response.headers.has(ALREADY_SENT)) {
    await settleScope(scope, "use");
    return response;
  }
  if (isRefusedCharge(scope, threw ? 500 : response.status)) {
    const answer = await gate.answerOfRefusedCharge(scope);
    await settleScope(scope, answer.status >= 500 ? "release" : "use");
    return responseOf({ ...answer, headers: { ...answer.headers, ...usageReceiptHeader(scope) } });
  }
  const isFailure = threw || hasFailed(scope, response.status);
  const headers = reportedWith(decision, response.status, isFailure);
  try {
    const sent = { ...headers, ...usageReceiptHeader(scope), ...(isFailure && scope.refund?.headers) };
    if (isFailure || scope.claims.length === 0) {
      await settleScope(scope, isFailure ? "release" : "use");
      return withPaidHeaders(response, sent, gate.cors);
    }
    return await recordResponse(withPaidHeaders(response, sent, gate.cors), {
      maxBytes: scope.keeper?.maxBytes,
      isHead: scope.request.method === "HEAD",
      settle: async (how, answer) => settleScope(scope, how, answer),
    });
  } catch (error) {
    // What could not be sent has failed. Where it was the claim that could not be written, the first call has decided.
    await settleScope(scope, "release")?.catch(() => undefined);
    return responseOf(errorAnswer(error));
  }
}

/** What follows such a response cannot be withheld, and the response cannot be copied. Most are settled already. */
async function settleSwitched(gate: Gate, scope: RequestScope, response: Response): Promise<Response> {
  const refusal = await settleAhead(gate, scope);
  return refusal ? responseOf(refusal) : response;
}

/** The response of a payment that settles after its handler: nothing of it leaves before, and a failure is free. */
async function settleWithheld({ gate, scope, response, threw, hasLeft }: ServedResponse): Promise<Response> {
  if (threw || hasFailed(scope, response.status)) {
    await cancelDeferred(scope);
    return withPaidHeaders(response, {}, gate.cors);
  }
  const { status, statusText, headers } = response;
  const body = await readWithheld(response);
  if (body.kind === "broken") {
    await cancelDeferred(scope);
    return responseOf(errorAnswer(body.error));
  }
  const kept = body.kind === "whole" ? safeHeaders(headers) : undefined;
  const answer = kept && body.kind === "whole" ? { status, headers: kept, body: body.bytes } : undefined;
  if (hasLeft()) {
    await scope.deferred?.shelve(answer);
    await cancelDeferred(scope);
  }
  const settled = await gate.settle(scope, answer);
  if (settled.kind === "withheld") {
    if (body.kind === "stream") void body.stream?.cancel().catch(() => undefined);
    return responseOf(settled.answer);
  }
  const head = { status, statusText, headers };
  const sent =
    body.kind === "stream"
      ? new Response(body.stream, head)
      : wholeResponse(response.body === null ? null : body.bytes, head);
  return withPaidHeaders(sent, reportedWith(settled.report, status), gate.cors);
}

/** @returns why a handler's result cannot be sent: it has failed then, as one that throws */
export function faultOfResponse(response: Response | undefined, scope: RequestScope): TypeError | undefined {
  if (typeof response?.status !== "number") return new TypeError("the handler of a paid request returned no Response");
  if (response.status === 0) return new TypeError("the handler of a paid request returned Response.error()");
  if (scope.deferred && response.headers.has(ALREADY_SENT)) return new TypeError(PAST_RESPONSE);
  // Looked at only where a payment depends on it: a server may have to build the body for it.
  const isPaidFor = scope.deferred !== undefined || scope.claims.length > 0;
  if (!isPaidFor || !(response.bodyUsed || response.body?.locked)) return undefined;
  return new TypeError("the handler of a paid request returned a Response whose body it has read: return its clone()");
}

/** @returns what to send instead of a thrown answer whose payment could not be settled */
async function settleThrown(gate: Gate, scope: RequestScope, status: number): Promise<Response | undefined> {
  if (hasFailed(scope, status)) {
    await cancelDeferred(scope);
    return undefined;
  }
  const settled = await gate.settle(scope, undefined);
  return settled.kind === "withheld" ? responseOf(settled.answer) : undefined;
}

function withPaidHeaders(response: Response, extra: Readonly<Record<string, string>>, cors: Gate["cors"]): Response {
  try {
    setPaidHeaders(response.headers, extra, cors);
    return response;
  } catch {
    // Headers that came over the network are immutable: copy the response.
    const headers = new Headers(response.headers);
    setPaidHeaders(headers, extra, cors);
    return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
  }
}

function setPaidHeaders(headers: Headers, extra: Readonly<Record<string, string>>, cors: Gate["cors"]): void {
  headers.set("Cache-Control", privateCacheControl(headers.get("Cache-Control") ?? undefined));
  headers.set("Vary", varyWith(headers.get("Vary") ?? undefined));
  for (const name of [...headers.keys()]) if (isForSharedCaches(name)) headers.delete(name);
  for (const [name, value] of Object.entries(extra)) headers.set(name, value);
  if (cors) for (const [name, value] of Object.entries(CORS_HEADERS)) if (!headers.has(name)) headers.set(name, value);
}

/** Wraps a route handler of Next.js. */
export type NextGate = FetchGate;

/** Creates the wrapper from a provider's gate. */
export function nextGate(gate: Gate): NextGate {
  return fetchGate(gate, statusOfNext);
}

/** Returns the status that Next.js answers with when `redirect()`, `notFound()` or the like threw. */
function statusOfNext(thrown: unknown): number | undefined {
  const digest = (thrown as { digest?: unknown } | null | undefined)?.digest;
  const [, kind] = (typeof digest === "string" && /^NEXT_(REDIRECT|HTTP_ERROR_FALLBACK);/.exec(digest)) || [];
  if (kind === undefined) return undefined;
  return kind === "REDIRECT" ? 307 : 404;
}

export function lazily(open: () => Gate): Gate {
  let opened: Gate | undefined;
  const gate = (): Gate => {
    opened ??= open();
    return opened;
  };
  return {
    ready: async () => gate().ready(),
    decide: async <T>(handlers: DecisionHandlers<T>): Promise<Awaited<T>> => await gate().decide(handlers),
    settle: async (scope, answer) => gate().settle(scope, answer),
    answerOfRefusedCharge: async (scope) => gate().answerOfRefusedCharge(scope),
    get cors() {
      return gate().cors;
    },
    get bindsBody() {
      return gate().bindsBody;
    },
    get origin() {
      return gate().origin;
    },
  };
}
