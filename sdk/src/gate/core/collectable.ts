/** Proves, before anything metered is served, that the debits of its plans can be collected. */
import { ConfigError, type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import type { GateContext } from "./context";
import type { MeteredRoute } from "./payment";
import type { Offer } from "./quote";

const RETRY_AFTER_SEC = 5;

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
