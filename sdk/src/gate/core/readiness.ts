/**
 * Proves that a gate can do what a payment requires: record claims and charges, and collect the debits of
 * metered plans. A gate that cannot must not ask for money, since it could not serve the payer.
 */
import { ConfigError, type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import type { GateContext } from "./context";
import type { Offer } from "./offers";
import type { MeteredRoute } from "./payment";
import type { Route } from "./route";

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
export async function requireBookkeeping(context: GateContext, route: Route): Promise<void> {
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
export function isBookkeepingKnown(context: GateContext, route: Route): boolean {
  if (route.metered && context.meter) {
    if (!context.isMeterOpen()) return false;
    context.meter.requireHealthy?.();
  }
  return !route.sellsSingles || performance.now() - checkOf(context).okMs < GOOD_FOR_MS;
}

/** @returns why no price may be quoted now; the cause is for the log and names no path to a client */
export async function bookkeepingOutage(context: GateContext, route: Route): Promise<Unavailable | undefined> {
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
