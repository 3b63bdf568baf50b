/**
 * Proves that a gate can do what a payment requires: record claims and charges, collect the debits of metered plans, and
 * have its Facilitator settle, in the order that the route asks for. A gate that cannot must not ask for money, since it
 * could not serve the payer.
 */
import { ConfigError, type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import type { OfferedTerms } from "../methods";
import type { GateContext } from "./context";
import type { FacilitatorSupport } from "./facilitator-support";
import type { Offer } from "./offers";
import type { MeteredRoute, PaymentFlow } from "./payment";
import type { Price } from "./pricing";

/** The part of a route that decides what has to be recorded for it. */
type RecordedRoute = MeteredRoute & { readonly sellsSingles: boolean };

interface Check {
  running: Promise<void> | undefined;
  /** performance.now() of the last success */
  okMs: number;
  isWarned: boolean;
}

/** How long a check stays valid: under load one request in that time performs it. */
const GOOD_FOR_MS = 2_000;

const RETRY_AFTER_SEC = 5;

/** By provider: its gates share one check. */
const checks = new WeakMap<GateContext, Check>();

function checkOf(context: GateContext): Check {
  const known = checks.get(context) ?? { running: undefined, okMs: Number.NEGATIVE_INFINITY, isWarned: false };
  checks.set(context, known);
  return known;
}

/** @throws ConfigError or Unavailable, naming what cannot be written */
export async function requireBookkeeping(context: GateContext, route: RecordedRoute): Promise<void> {
  if (route.sellsSingles) await requireClaims(context);
  if (!route.metered) return;
  if (context.meter && !context.isMeterOpen()) await context.meterStarted();
  context.meter?.requireHealthy?.();
}

async function requireClaims(context: GateContext): Promise<void> {
  const check = checkOf(context);
  check.running ??= (async () => {
    try {
      await context.claims.ready();
      check.okMs = performance.now();
    } finally {
      check.running = undefined;
    }
  })();
  await check.running;
}

/** Returns whether a price may be quoted without a new check. @throws Unavailable once a meter's store has failed */
export function isBookkeepingKnown(context: GateContext, route: RecordedRoute): boolean {
  if (route.metered && context.meter) {
    if (!context.isMeterOpen()) return false;
    context.meter.requireHealthy?.();
  }
  return !route.sellsSingles || performance.now() - checkOf(context).okMs < GOOD_FOR_MS;
}

/** @returns why no price may be quoted now; the cause is for the log and names no path to a client */
export async function bookkeepingOutage(context: GateContext, route: RecordedRoute): Promise<Unavailable | undefined> {
  const check = checkOf(context);
  try {
    if (isBookkeepingKnown(context, route)) return undefined;
    await requireBookkeeping(context, route);
    check.isWarned = false;
    return undefined;
  } catch (cause) {
    if (!check.isWarned) {
      check.isWarned = true;
      const reason = cause instanceof Error ? cause.message : "unknown";
      process.emitWarning(`Turnpike quotes no price until payments can be recorded: ${reason}`);
    }
    return new Unavailable("Payments cannot be recorded here now; nothing was charged.", {
      cause,
      retryAfterSec: RETRY_AFTER_SEC,
    });
  }
}

/** @throws ConfigError that names the setting, the problem and the remedy; Unavailable when the answer is unknown */
export async function proveCollectable({ meter }: Pick<GateContext, "meter">, planIds: readonly Hex[]): Promise<void> {
  if (planIds.length === 0) return;
  if (meter) return meter.prove(planIds);
  throw new ConfigError(
    `operatorKey (TURNPIKE_OPERATOR_KEY) and apiKey (TURNPIKE_API_KEY) are not set, but a metered route offers plan ${planIds[0]}: set one that may debit it`,
  );
}

/**
 * Proves it for one request.
 * @throws Unavailable only: which setting is wrong is reported to the provider, never to a client
 */
export async function requireCollectable(context: Pick<GateContext, "meter">, planId: Hex): Promise<void> {
  if (context.meter?.canCollect(planId)) return;
  try {
    await proveCollectable(context, [planId]);
  } catch (cause) {
    if (!isTurnpikeError(cause) || cause.code !== "ConfigError") throw cause;
    const message = "Metered usage of this plan cannot be charged at present.";
    throw new Unavailable(message, { reason: "cannot_collect", retryAfterSec: RETRY_AFTER_SEC, cause });
  }
}

/** Returns whether every plan of a metered route is known, without a call, to be collectable. */
export function isRouteCollectable({ meter }: Pick<GateContext, "meter">, { metered, planIds }: MeteredRoute): boolean {
  return !metered || planIds.every((planId) => meter?.canCollect(planId) === true);
}

/**
 * Leaves out the plans that a metered route could not debit now: a subscriber would only get 503.
 * @returns the outage where nothing else is offered
 */
export async function collectableOffers(
  context: Pick<GateContext, "meter">,
  route: MeteredRoute,
  offers: readonly Offer[],
): Promise<{ readonly offers: readonly Offer[]; readonly outage?: TurnpikeError }> {
  if (isRouteCollectable(context, route)) return { offers };
  const outages = new Map<Hex, TurnpikeError>();
  const check = async (planId: Hex): Promise<void> => {
    try {
      await requireCollectable(context, planId);
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      outages.set(planId, error);
    }
  };
  await Promise.all(route.planIds.map(check));
  const open = offers.filter((offer) => offer.kind !== "subscription" || !outages.has(offer.plan.planId));
  const [outage] = outages.values();
  return open.length === 0 && outage ? { offers: open, outage } : { offers: open };
}

/** When a standard payment settles: before or after the handler; undefined: after it where that can be done safely. */
export type SettleOrder = "before" | "after" | undefined;

/** @throws ConfigError */
export function settleOrderOf(settle: unknown): SettleOrder {
  if (settle === undefined || settle === "before" || settle === "after") return settle;
  throw new ConfigError(`settle is "${String(settle)}": use "before" or "after", or leave it out`);
}

/**
 * Returns the flow that a quote names, one for all its entries: stock clients ignore an upfront entry beside another.
 * Asks nothing: while it is unknown whether each Facilitator reserves, a quote promises the flow that always holds.
 */
export function quotedFlow(contexts: readonly GateContext[], settle: SettleOrder): PaymentFlow {
  if (settle !== undefined) return settle === "after" ? "authorization" : "upfront";
  for (const { facilitator, settings } of contexts) {
    if (!mayReserve(settings) || !facilitator.knownToReserve()) return "upfront";
  }
  return "authorization";
}

/**
 * Checks at start-up that `settle: "after"` can be done.
 * @throws ConfigError when the Facilitator reserves nothing, Unavailable when it does not answer
 */
export async function requireReservations(context: GateContext, settle: SettleOrder): Promise<void> {
  if (settle !== "after") return;
  if (mayReserve(context.settings) && (await context.facilitator.reserves())) return;
  throw new ConfigError(noReservations(context));
}

/** Asks the Facilitator ahead of the first payment; a failure is found again, and reported, by that payment. */
export function askAhead(context: GateContext, settle: SettleOrder): void {
  if (settle === "before" || !mayReserve(context.settings)) return;
  context.facilitator.reserves().catch(() => undefined);
}

/** A payment that settles after its handler is reserved meanwhile; another project's Facilitator reserves nothing. */
export const mayReserve = ({ facilitator }: GateContext["settings"]): boolean =>
  facilitator !== undefined && !facilitator.trustUnsigned;

export const noReservations = ({ settings }: GateContext): string =>
  `settle is "after", but the Facilitator${settings.facilitator ? ` at ${settings.facilitator.url}` : ""} reserves no payments: use one that does, or settle: "before"`;

/** How long quotes wait for a Facilitator that has not answered yet, since it was asked. */
const WAIT_MS = 1_000;

/** Returns whether a price can be quoted only as its Facilitator states that it settles it. */
export const needsSupport = ({ method }: Price): boolean => method.termsIn !== undefined;

/** Returns what an entry names of its Facilitator; "unsupported" while that is not known to settle it. */
export function offeredTermsOf({ scheme, method, context }: Price): OfferedTerms | "unsupported" {
  if (!method.termsIn) return NOTHING_NAMED;
  return method.termsIn(context.support.known(), scheme) ?? "unsupported";
}

const NOTHING_NAMED: OfferedTerms = { sponsorsGas: false };

/** Asks the Facilitators that have not answered yet. @returns why prices that need their support may be missing */
export async function supportOutage(contexts: readonly GateContext[]): Promise<Unavailable | undefined> {
  const unknown = contexts.filter(({ support }) => support.known() === undefined);
  await Promise.all(unknown.map(({ support }) => support.readWithin(WAIT_MS)));
  if (contexts.length === 0) return undefined;
  return new Unavailable("The Facilitator does not state now that it settles such payments; nothing was charged.", {
    retryAfterSec: 2,
  });
}

/**
 * Checks at start-up that a price can be paid: that its Facilitator settles the token, as it is signed for. An outage of
 * the Facilitator does not stop the provider.
 * @throws ConfigError
 */
export async function requireSupport(price: Price): Promise<void> {
  const { context, scheme, method } = price;
  const { facilitator, token } = context.settings;
  if (!facilitator) return;
  let support: FacilitatorSupport;
  try {
    support = await context.support.read();
  } catch (error) {
    if (isTurnpikeError(error) && error.code === "Unavailable") return;
    throw error;
  }
  const at = `The Facilitator at ${facilitator.url}`;
  if (support.token === "unlisted") {
    throw new ConfigError(
      `${at} does not settle the token ${token?.address}: add it to the Facilitator's setting TOKENS, or sell in a token that GET /supported lists`,
    );
  }
  if (price.kind === "fixed") requireEnough(price.amount, support, { at, token: token?.address });
  if (!needsSupport(price)) return requireSameDomain(context, support, at);
  if (offeredTermsOf(price) !== "unsupported") return;
  throw new ConfigError(`${at} does not settle ${method.needs?.(scheme)}: use one that does`);
}

/** @throws ConfigError for less than the Facilitator settles */
function requireEnough(
  amount: bigint,
  { minAmount }: FacilitatorSupport,
  { at, token }: { readonly at: string; readonly token: string | undefined },
): void {
  if (minAmount === undefined || amount >= BigInt(minAmount)) return;
  throw new ConfigError(
    `a price of ${amount} base units can never be paid: ${at.replace(/^The/, "the")} settles ${minAmount} of ${token} at least. Raise the price, or sell small amounts by a plan with an allowance`,
  );
}

/** @throws ConfigError where payers would sign for another domain than the Facilitator judges by */
function requireSameDomain({ settings, terms }: GateContext, { token: listed }: FacilitatorSupport, at: string): void {
  const quoted = settings.token && terms.token(settings.token.address);
  if (!quoted || !listed || listed === "unlisted") return;
  if (quoted.name === listed.name && quoted.version === listed.version) return;
  throw new ConfigError(
    `${at} settles ${quoted.address} under the name "${listed.name}" and the version "${listed.version}", and this gate quotes "${quoted.name}" and "${quoted.version}": correct token.name and token.version here, or TOKENS there, whichever is not the token's own`,
  );
}
