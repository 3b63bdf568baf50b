/** Adapts a gate to Hono middleware. */
import { randomUUID } from "node:crypto";
import type { Context, MiddlewareHandler, Next } from "hono";
import type { TurnpikeError } from "../../protocol";
import {
  type Allowed,
  type Answer,
  answerOf,
  CORS_HEADERS,
  type Decision,
  errorAnswer,
  isCorsHeader,
  isPreflight,
  PREFLIGHT,
} from "../core/answer";
import { bodyDropped, bodyTooLarge, readRequestAhead, unreadRequest } from "../core/body";
import type { Payment } from "../core/payment";
import { type BodyOfRequest, type GateRequest, gateRequestOfFetch } from "../core/request";
import type { Gate } from "../decision/gate";
import { openRequestScope, type RequestScope, requestScopes, settleAhead } from "../decision/request-scope";
import { preflightAt, type RouteGates } from "../decision/route-match";
import { faultOfResponse, responseOf, settleResponse, watchClient, withholdingOutgoing } from "./fetch";

/** What a gated handler finds in its context. */
export interface PaidVariables {
  payment: Payment;
}

/** Hono middleware. */
export type HonoGate = MiddlewareHandler<{ Variables: PaidVariables }> & {
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, with Unavailable when it cannot be asked.
   */
  ready(): Promise<void>;
};

/** Answers the preflights of routes that have one method (`app.get`): `app.use("/report", preflight())` before them. */
export function preflight(): MiddlewareHandler {
  return async ({ req }, next) => {
    const { method } = req;
    const isAsked = isPreflight(method, req.header("access-control-request-method"), req.header("origin"));
    return isAsked ? responseOf(PREFLIGHT) : next();
  };
}

/** Creates the middleware from a provider's gate. */
export function honoGate(gate: Gate): HonoGate {
  const middleware = (c: Context<{ Variables: PaidVariables }>, next: Next) => {
    const body = honoBody(c as Context);
    const facts = gateRequestOfFetch(c.req.raw, c.env, body);
    const condition = facts.header(IF_NONE_MATCH);
    const act = (decision: Decision) => {
      const dropped = facts.header(IF_NONE_MATCH) === undefined ? condition : undefined;
      if (decision.kind !== "allow") return unmatched(responseOf(answerOf(decision, gate)), dropped);
      body.restore();
      return serve(c, next, facts, decision, dropped);
    };
    const fail = (error: unknown): never => {
      // The application's error handler answers; what it makes carries these.
      if (gate.cors) for (const [name, value] of Object.entries(CORS_HEADERS)) c.header(name, value);
      throw error;
    };
    return gate.decide<Response | Promise<undefined>>({ facts, act, fail }) as Promise<Response | undefined>;
  };

  async function serve(
    c: Context<{ Variables: PaidVariables }>,
    next: Next,
    facts: GateRequest,
    decision: Allowed,
    dropped: string | undefined,
  ): Promise<undefined> {
    const scope = openRequestScope(facts, decision);
    return withholdingOutgoing(c.env, scope, () => serveIn(c, next, facts, decision, dropped, scope));
  }

  async function serveIn(
    c: Context<{ Variables: PaidVariables }>,
    next: Next,
    facts: GateRequest,
    decision: Allowed,
    dropped: string | undefined,
    scope: RequestScope,
  ): Promise<undefined> {
    scope.onRefused = suppressLog;
    c.set("payment", scope.payment ?? decision.payment);
    // The handler takes the connection over: what it sends there cannot be withheld.
    const refusal = facts.isUpgrade ? await settleAhead(gate, scope) : undefined;
    if (refusal) {
      c.res = responseOf(refusal);
      return undefined;
    }
    const hasLeft = watchClient(c.req.raw, scope);
    try {
      await requestScopes.run(scope, next);
    } catch (thrown) {
      // Hono's error handler takes errors alone: any other value passes through every middleware.
      await settleResponse({ gate, scope, decision, response: responseOf(errorAnswer(thrown)), threw: true, hasLeft });
      throw thrown;
    }
    const fault = faultOf(c as Context, scope);
    const response = fault ? responseOf(errorAnswer(fault)) : c.res;
    const threw = fault !== undefined || c.error !== undefined;
    const settled = unmatched(await settleResponse({ gate, scope, decision, response, threw, hasLeft }), dropped);
    if (fault || settled !== response) {
      // Hono merges the headers of a response that replaces another, unless there is none.
      c.res = undefined;
      c.res = settled;
    }
    // The application's error handler answers; what it makes carries the headers.
    if (fault && settled === response) throw fault;
    return undefined;
  }
  return Object.assign(middleware, { ready: () => gate.ready() });
}

const IF_NONE_MATCH = "if-none-match";

/**
 * Keeps `hono/etag` around the gate, which has read the condition before it was dropped, from making a 304 of a paid
 * answer.
 */
function unmatched(response: Response, dropped: string | undefined): Response {
  if (dropped === undefined || !response.ok) return response;
  const tag = response.headers.get("ETag")?.replace(/^W\//, "");
  // It looks at answers that are ok alone, and "*" matches every tag of theirs.
  if (dropped.trim() === "*") Object.defineProperty(response, "ok", { value: false });
  else if (tag === undefined || dropped.includes(tag)) response.headers.set("ETag", `W/"${randomUUID()}"`);
  return response;
}

/** @returns why what the handler has made cannot be sent */
function faultOf(c: Context, scope: RequestScope): TypeError | undefined {
  // A context without an answer makes up an empty one when it is asked for it.
  return faultOfResponse(c.finalized ? c.res : undefined, scope);
}

/** Like Hono's own exceptions: its default error handler answers with getResponse(), and logs nothing. */
function suppressLog(refusal: TurnpikeError): void {
  Object.assign(refusal, { getResponse: () => new Response(null, { status: refusal.status }) });
}

const REMEDY = "mount the gate before the middleware that reads it (a validator, c.req.json())";

type Cache = Context["req"]["bodyCache"];

interface HonoBody extends BodyOfRequest {
  /** Undoes what callbacks did to the context's body, for the handler. */
  restore(): void;
}

function honoBody(c: Context): HonoBody {
  const { req } = c;
  const original = { raw: req.raw, bodyCache: req.bodyCache };
  let bytes: Uint8Array | undefined;
  return {
    async read(maxBytes) {
      if (bytes || !req.raw.bodyUsed) {
        bytes = await readRequestAhead(original.raw, maxBytes, REMEDY);
        return bytes;
      }
      const kept = await cachedBytes(req.bodyCache);
      if (!kept) throw bodyDropped(REMEDY);
      if (kept.byteLength > maxBytes) throw bodyTooLarge(maxBytes);
      return kept;
    },
    raw() {
      if (bytes) {
        req.raw = unreadRequest(original.raw, bytes);
        req.bodyCache = {};
      }
      return c;
    },
    isRead: () => mayHaveBody(req.method) && (req.raw.bodyUsed || Object.keys(req.bodyCache).length > 0),
    isLost: () => req.raw.bodyUsed && Object.keys(req.bodyCache).length === 0,
    restore() {
      if (!bytes) return;
      req.raw = original.raw;
      req.bodyCache = original.bodyCache;
    },
  };
}

/** Hono remembers the empty body of a GET like any other. */
const mayHaveBody = (method: string): boolean => method !== "GET" && method !== "HEAD";

/** Returns the whole body from Hono's cache, where its own methods have read it. */
async function cachedBytes({ arrayBuffer, text, blob }: Cache): Promise<Uint8Array | undefined> {
  const kept = (await (arrayBuffer ?? text ?? blob)) as unknown;
  if (typeof kept === "string") return new TextEncoder().encode(kept);
  if (kept instanceof ArrayBuffer) return new Uint8Array(kept);
  return kept instanceof Blob ? new Uint8Array(await kept.arrayBuffer()) : undefined;
}

type Paid = Context<{ Variables: PaidVariables }>;

/** Creates middleware over several routes' gates: finds the gate of each request, and lets all else through. */
export function honoRoutes({ match, gates }: RouteGates<HonoGate>): HonoGate {
  const handler = async (c: Paid, next: Next) => {
    const { method } = c.req;
    const asked = c.req.header("access-control-request-method") ?? "";
    let gate: HonoGate | undefined;
    let preflight: Answer | undefined;
    try {
      const paths = pathsOf(c);
      gate = match(method, paths);
      if (isPreflight(method, asked, c.req.header("origin"))) preflight = preflightAt({ match, gates }, asked, paths);
    } catch (refused) {
      return responseOf(errorAnswer(refused));
    }
    if (gate) return gate(c, next);
    await next();
    // What the application answers itself, also where it refuses, stays.
    if (preflight && ![...c.res.headers.keys()].some(isCorsHeader)) c.res = responseOf(preflight);
    return undefined;
  };
  const ready = async () => {
    for (const gate of gates.values()) await gate.ready();
  };
  return Object.assign(handler, { ready });
}

/** The whole path first, as the application's routes have it; then the path within a mounted application. */
function pathsOf({ req }: Paid): string[] {
  const whole = [req.path, targetOf(req.url)];
  // What this middleware was mounted with: "/api/*" in an application that is mounted at "/api".
  const depth = req.routePath.replace(/\/?\*?$/, "").split("/").length - 1;
  if (depth === 0) return whole;
  return [
    ...whole,
    ...whole.map(
      (path) =>
        `/${path
          .split("/")
          .slice(depth + 1)
          .join("/")}`,
    ),
  ];
}

const targetOf = (url: string): string => url.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
