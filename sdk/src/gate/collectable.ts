/** What has to be proved before anything metered is served: that the debits of its plans can be collected. */
import { ConfigError, type Hex, isTurnpikeError, Unavailable } from "../protocol";
import type { Room } from "./room";

const RETRY_AFTER_SEC = 5;

/** @throws ConfigError that names the setting, the problem and the remedy; Unavailable when nobody can tell */
export async function proveCollectable({ meter }: Pick<Room, "meter">, planIds: readonly Hex[]): Promise<void> {
  if (planIds.length === 0) return;
  if (meter) return meter.prove(planIds);
  throw new ConfigError(
    `operatorKey (TURNPIKE_OPERATOR_KEY) and apiKey (TURNPIKE_API_KEY) are not set, but a metered route offers plan ${planIds[0]}: set one that may debit it`,
  );
}

/**
 * The same for one request.
 * @throws Unavailable alone: which setting is wrong is told to the provider, never to a client
 */
export async function requireCollectable(room: Pick<Room, "meter">, planId: Hex): Promise<void> {
  if (room.meter?.canCollect(planId)) return;
  try {
    await proveCollectable(room, [planId]);
  } catch (cause) {
    if (!isTurnpikeError(cause) || cause.code !== "ConfigError") throw cause;
    const message = "Metered usage of this plan cannot be charged at present.";
    throw new Unavailable(message, { reason: "cannot_collect", retryAfterSec: RETRY_AFTER_SEC, cause });
  }
}
