/** Verifies proofs and builds quotes for providers that write their own handlers instead of mounting a gate. */
import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  ConfigError,
  type Hex,
  isHash32,
  type PaymentProof,
  type PaymentRequiredWire,
  TurnpikeError,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import { watchResponse } from "../adapters/node-response";
import type { GateContext } from "../core/context";
import { type GateRequest, gateRequestOfFetch, NodeGateRequest } from "../core/request";
import { quotedMethod, resourceOfRequest } from "../core/resource";
import { openRequestScope, requestScopes } from "../decision/request-scope";
import { buildQuote } from "../dialects/x402/quotes";
import { type HeldClaim, holdClaim } from "../purchases/held";
import { faultOfSettlement, judgeProof } from "../schemes/once";

interface Ambient {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** as it came: a router may rewrite `request.url` later */
  readonly target: string;
}

const ambient = new AsyncLocalStorage<Ambient>();

let isFollowing = false;

/**
 * Follows requests from Node's own HTTP server, so that `verifyPaymentProof(proof)` knows its request in a plain
 * handler without a gate.
 */
export function followRequests(): void {
  if (isFollowing) return;
  isFollowing = true;
  subscribe("http.server.request.start", (message) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    ambient.enterWith({ request, response, target: request.url ?? "/" });
  });
}

export function ambientRequest(): { readonly request: GateRequest; readonly response: ServerResponse } | undefined {
  const store = ambient.getStore();
  if (!store) return undefined;
  return { request: new NodeGateRequest(store.request, { target: store.target }), response: store.response };
}

/** A request of Node (Express included), of fetch, or a Hono context. */
export type AnyRequest = IncomingMessage | Request | { readonly req: { readonly raw: Request } };

interface Asked {
  readonly request: GateRequest;
  readonly response: ServerResponse | undefined;
}

const verdicts = new WeakMap<PaymentProof, Promise<boolean>>();

/** Verifies and claims a proof, once per proof object: a second call returns the first verdict. */
export function verifyProof(
  context: GateContext,
  proof: PaymentProof,
  given: AnyRequest | undefined,
): Promise<boolean> {
  const known = verdicts.get(proof);
  if (known) return known;
  const verdict = verifyOnce(context, proof, given);
  verdicts.set(proof, verdict);
  verdict.catch(() => verdicts.delete(proof));
  return verdict;
}

async function verifyOnce(context: GateContext, proof: PaymentProof, given: AnyRequest | undefined): Promise<boolean> {
  const { request, response } = askedOf(given, "verifyPaymentProof");
  await context.time.refresh();
  const nowSec = context.time.nowSec();
  const resource = resourceOfRequest(request, context.settings);
  const verdict = judgeProof(proof, {
    settings: context.settings,
    method: quotedMethod(request, context.settings),
    resource,
    nowSec,
  });
  if (verdict.kind === "faulty") {
    if (verdict.reason === "facilitator") context.facilitatorCheck.refusedSigner(proof.facilitator);
    return false;
  }
  const { paymentId, nonce } = verdict;
  const scope = requestScopes.getStore();
  if (scope?.claims.some((claim) => claim.paymentId === paymentId)) return true;
  const keepUntilSec = proof.expiresAt + DAY_SEC;
  const attempt = await holdClaim({ store: context.claims, paymentId, keepUntilSec, nowSec, nowMs: Date.now });
  if (attempt.kind === "used") return false;
  if (attempt.kind === "running") {
    throw new TurnpikeError("ProofInFlight", undefined, { retryAfterSec: attempt.retryAfterSec });
  }
  try {
    if ((await faultOfSettlement({ context, request }, proof, nonce)) !== undefined) {
      await attempt.claim.settle("withdraw");
      return false;
    }
  } catch (error) {
    await attempt.claim.settle("withdraw");
    throw error;
  }
  await settleWithResponse(attempt.claim, request, response);
  return true;
}

/** Settles a claim with its response where that is known; otherwise uses the payment up now. */
async function settleWithResponse(claim: HeldClaim, request: GateRequest, response: ServerResponse | undefined) {
  const scope = requestScopes.getStore();
  if (scope) {
    scope.claims.push(claim);
    scope.onClaim?.();
    scope.onClaim = undefined;
  } else if (response && !response.headersSent) {
    const own = openRequestScope(request);
    own.claims.push(claim);
    watchResponse({ response, scope: own });
  } else await claim.settle("use");
}

/** @throws ConfigError when the plan was not loaded, or there is no request to quote for */
export function buildPlanQuote(
  context: GateContext,
  planId: string,
  given: AnyRequest | undefined,
): PaymentRequiredWire {
  const id = isHash32(planId) ? (planId.toLowerCase() as Hex) : undefined;
  const plan = id && context.terms.plan(id);
  const token = plan && context.terms.token(plan.token);
  if (!plan || !token) {
    throw new ConfigError(
      `plan ${planId} is not loaded: name it in configure({ plans }) or in a gate's pricing, and await it`,
    );
  }
  const { request } = askedOf(given, "buildPaymentRequired");
  return buildQuote({
    settings: context.settings,
    request,
    resource: resourceOfRequest(request, context.settings),
    offers: [{ kind: "subscription", context, amount: plan.amount, payTo: plan.payTo, token, plan }],
    presentation: {
      description: "",
      mimeType: "application/json",
      metered: false,
      x402v2: false,
      sellSingleAtPlanPrice: false,
    },
    // A plan is subscribed to: nothing is settled for one request.
    flow: "upfront",
    nowSec: context.time.latestSec(),
    refusal: {
      code: "PaymentRequired",
      message: "Subscribe to the plan, then repeat this request with the subscription id in X-Service-Sub.",
    },
  }).body;
}

function askedOf(given: AnyRequest | undefined, operation: string): Asked {
  if (given !== undefined) return askedIn(given);
  const scope = requestScopes.getStore();
  if (scope) return { request: scope.request, response: undefined };
  const followed = ambientRequest();
  if (followed) return followed;
  throw new ConfigError(
    `${operation} does not know its request: pass { request }, or call configure() before the server starts`,
  );
}

function askedIn(given: AnyRequest): Asked {
  if ("req" in given && "raw" in given.req) return { request: gateRequestOfFetch(given.req.raw), response: undefined };
  if (isFetchRequest(given)) return { request: gateRequestOfFetch(given), response: undefined };
  const node = given as IncomingMessage & { res?: ServerResponse };
  // Express names the response on its request.
  return { request: new NodeGateRequest(node), response: node.res };
}

function isFetchRequest(given: AnyRequest): given is Request {
  return "headers" in given && typeof (given.headers as { get?: unknown }).get === "function";
}
