/** Creates one route's gate in a provider's context. Adapters call `decide` and translate. */
import { ConfigError, isTurnpikeError, TurnpikeError } from "../../protocol";
import { type TracedSpan, traceHeadersOf } from "../../protocol/tracing";
import type { Answer, CorsSetting, Decision } from "../core/answer";
import type { GateContext, GateReports } from "../core/context";
import type { GateOptions } from "../core/gate-options";
import type { Payment } from "../core/payment";
import { askAhead, proveCollectable, quotedFlow, requireBookkeeping, requireReservations } from "../core/readiness";
import type { GateRequest } from "../core/request";
import type { Origin } from "../core/resource";
import { createRoute, type Route } from "../core/route";
import { DIALECTS, type Dialects } from "../dialects";
import type { ListedRoute } from "../discovery/payment-info";
import { placeIn } from "../discovery/place";
import type { KeptAnswer } from "../replay/fit";
import { decide, type GatedRoute, quoteInDialects, UNPAID } from "./decide";
import {
  answerOfRefusedCharge,
  type RequestScope,
  requestScopes,
  type SettledScope,
  settleDeferred,
} from "./request-scope";

/** One route's gate: what every adapter translates. */
export interface Gate {
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, a metered route's debits could not be
   * collected, or payments cannot be recorded; with Unavailable when the chain or a shared store cannot be asked.
   */
  ready(): Promise<void>;
  /** Judges a request, claims what it pays with, and acts on the decision. */
  decide<T>(handlers: DecisionHandlers<T>): T | Promise<Awaited<T>>;
  /** The 402 of a charge that the handler could not make. */
  answerOfRefusedCharge(scope: RequestScope): Promise<Answer>;
  /** Settles a payment whose handler has answered. @param answer whole; undefined for a stream */
  settle(scope: RequestScope, answer: KeptAnswer | undefined): Promise<SettledScope>;
  /** whether answers get CORS headers; "unset": they do, and a 402 where its payer could also collect */
  readonly cors: CorsSetting;
  /** whether quotes are tied to bodies */
  readonly bindsBody: boolean;
  /** what the provider has set of its public address */
  readonly origin: Origin;
}

/** A gate, and what is said of it where its place is known. */
export interface ListedGate extends Gate {
  readonly listed: ListedRoute | undefined;
}

/** Says of a gate before the whole application on which of its paths it decides. */
export function decideOn(gate: Gate, decides: NonNullable<ListedRoute["decides"]>): void {
  const { listed } = gate as ListedGate;
  if (listed) listed.decides = decides;
}

/** @throws ConfigError for pricing that could never be charged as written */
export function createGate<Req>(
  context: GateContext,
  options: GateOptions<Req>,
  dialects: Dialects = DIALECTS,
): ListedGate {
  const place = placeIn(options.discovery);
  const route = { ...createRoute(context, options, dialects[0].createQuotes()), dialects };
  const { reports } = context;
  async function proveMetering(): Promise<void> {
    if (route.metered) await proveCollectable(context, route.planIds);
    // A route may meter without saying so.
    await context.usageReceipts?.prove(route.planIds);
  }
  for (const each of route.contexts) {
    each.facilitatorCheck.checkOnce();
    if (route.sellsSingles) askAhead(each, route.settle);
  }
  void route.ready().then(
    () =>
      proveMetering().catch((error: unknown) => {
        // Reported at start-up, and again by every request.
        if (error instanceof TurnpikeError && error.code === "ConfigError") process.emitWarning(error);
      }),
    // The terms log why they cannot be read; every request answers 500, or 503 during an outage.
    () => undefined,
  );
  return {
    async ready() {
      await Promise.all(route.contexts.map(requirePinnedSigner));
      await Promise.all(route.contexts.map((each) => requireReservations(each, route.settle)));
      await route.ready();
      warnOfCuts(context, route);
      warnOfDeprecated(context, route);
      if (route.sellsSingles) await Promise.all(route.contexts.map(requireTimely));
      await proveMetering();
      await requireBookkeeping(context, route);
    },
    decide: (handlers) =>
      reports ? decideCounted(reports, context, route, handlers) : decideAndAct(context, route, handlers),
    settle: (scope, answer) => settleTraced(context, scope, () => settleDeferred(context, route, scope, answer)),
    answerOfRefusedCharge: (scope) => answerOfRefusedCharge(context, route, scope),
    cors: route.cors,
    bindsBody: route.bindsBody,
    origin: context.settings,
    listed: place && {
      place,
      presentation: route.presentation,
      offers: () => route.offers.listed(),
      charges: (offer) => dialects.flatMap((dialect) => dialect.charge?.(offer) ?? []),
    },
  };
}

/** Builds a quote of a short URL at start-up: one that does not fit its header is logged with what it lacks. */
function warnOfCuts({ settings, time }: GateContext, route: GatedRoute): void {
  const { contexts, offers, presentation, settle } = route;
  const sold = offers.cached() ?? [];
  if (sold.length === 0) return;
  quoteInDialects(route, {
    settings,
    request: { method: "GET", header: () => undefined },
    resource: new URL(settings.publicUrl ?? "https://localhost").href,
    presentation,
    offers: sold,
    flow: quotedFlow(contexts, settle),
    nowSec: time.nowSec(),
    refusal: UNPAID,
  });
}

/**
 * Checks the pinned signers at start-up. An outage of the Facilitator does not stop the provider: it is logged, and the
 * payments that need it get 503.
 * @throws ConfigError
 */
export async function requirePinnedSigner({ facilitatorCheck }: GateContext): Promise<void> {
  try {
    await facilitatorCheck.check();
  } catch (error) {
    if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
    facilitatorCheck.checkOnce();
  }
}

const warnedOfPlans = new WeakSet<Route>();

/** Such a route still serves its subscribers, which may be what is meant. */
function warnOfDeprecated({ terms }: GateContext, route: GatedRoute): void {
  const { planIds, sellsSingles } = route;
  if (planIds.length === 0 || sellsSingles || warnedOfPlans.has(route)) return;
  if (!planIds.every((planId) => terms.plan(planId)?.deprecated)) return;
  warnedOfPlans.add(route);
  process.emitWarning(
    `A route sells only deprecated plans (${planIds.join(", ")}): it serves their subscribers and takes no new ones. Where it should, add the plan that replaces it, or a one-time price, to its pricing.`,
    { code: "TurnpikeDeprecatedPlans" },
  );
}

/** @throws Unavailable where payments could not be judged: the chain is read too late */
async function requireTimely({ time }: GateContext): Promise<void> {
  await time.refresh();
  const outage = time.outage();
  if (outage) throw outage;
}

/** What to do with a decision: synchronously where the gate decides so, otherwise once it has decided. */
export interface DecisionHandlers<T> {
  readonly facts: GateRequest;
  /** what it throws reaches the caller */
  readonly act: (decision: Decision) => T;
  /** the gate could not decide: a setting or a callback of the provider is at fault */
  readonly fail: (error: unknown) => T;
}

function decideTraced(context: GateContext, route: GatedRoute, request: GateRequest): Decision | Promise<Decision> {
  const { tracing } = context;
  if (!tracing) {
    const decided = decide(context, route, request);
    return "then" in decided ? decided.then((decision) => checked(request, decision)) : decided;
  }
  return tracing.run({ name: "decide on request", parent: traceHeadersOf(request) }, (span) => {
    const note = (decision: Decision): Decision => {
      span.setAttribute("turnpike.decision", decision.kind);
      if (decision.kind === "allow") notePayment(span, decision.payment);
      return checked(request, decision);
    };
    const decided = decide(context, route, request);
    return "then" in decided ? decided.then(note) : note(decided);
  });
}

/** Returns whether a decision sends what a single request pays for, to a request that could be answered 304. */
function mustBeWhole(decision: Decision, method: string): boolean {
  if (method !== "GET" && method !== "HEAD") return false;
  return decision.kind === "replay" || (decision.kind === "allow" && decision.payment.kind === "one-time");
}

/** A payment is never decided on synchronously. @throws ConfigError as requireOneGate does */
function checked(request: GateRequest, decision: Decision): Decision {
  if (mustBeWhole(decision, request.method)) request.dropConditions();
  return requireOneGate(decision);
}

/**
 * @throws ConfigError where another gate before the same handler has claimed the payment: as a 409 it would be used up
 * there, and nothing be served
 */
function requireOneGate(decision: Decision): Decision {
  if (decision.kind !== "refuse" || decision.error.code !== "ProofInFlight") return decision;
  const held = requestScopes.getStore()?.payment;
  if (held?.kind !== "one-time" || held.paymentId !== decision.error.details.paymentId) return decision;
  throw new ConfigError(
    "two gates before one handler ask for one payment: remove one, such as paymentGate behind paymentMiddleware",
  );
}

function settleTraced(
  { tracing }: GateContext,
  { request, payment }: RequestScope,
  settle: () => Promise<SettledScope>,
): Promise<SettledScope> {
  if (!tracing) return settle();
  return tracing.run({ name: "settle after handler", parent: traceHeadersOf(request) }, async (span) => {
    notePayment(span, payment);
    const settled = await settle();
    span.setAttribute("turnpike.settlement", settled.kind);
    return settled;
  });
}

/** A subscription is not named: its id is a secret. */
function notePayment(span: TracedSpan, payment: Payment | undefined): void {
  if (!payment) return;
  span.setAttribute("turnpike.access", payment.kind);
  if (payment.kind === "one-time") span.setAttribute("turnpike.payment.id", payment.paymentId);
}

function decideAndAct<T>(
  context: GateContext,
  route: GatedRoute,
  { facts, act, fail }: DecisionHandlers<T>,
): T | Promise<Awaited<T>> {
  let decided: Decision | Promise<Decision>;
  try {
    decided = decideTraced(context, route, facts);
  } catch (error) {
    return fail(error);
  }
  return "then" in decided ? (decided.then(act, fail) as Promise<Awaited<T>>) : act(decided);
}

/** Counts each decision; the adapter calls `onEnd` when the handler has ended. */
async function decideCounted<T>(
  reports: GateReports,
  context: GateContext,
  route: GatedRoute,
  { facts, act, fail }: DecisionHandlers<T>,
): Promise<Awaited<T>> {
  let decision: Decision;
  try {
    decision = await decideTraced(context, route, facts);
  } catch (error) {
    reports.failed(error, facts);
    return await fail(error);
  }
  const onEnd = reports.decided(decision, facts);
  return await act(onEnd && decision.kind === "allow" ? { ...decision, onEnd } : decision);
}
