/**
 * Decides by which flow of x402 a route takes standard payloads: `authorization` runs the handler and settles
 * afterwards; `upfront` settles first. The first needs a Facilitator that reserves the amount meanwhile.
 */
import { ConfigError } from "../../protocol";
import type { GateContext } from "./context";
import type { PaymentFlow } from "./payment";

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

/** Another project's Facilitator reserves nothing. */
export const mayReserve = ({ facilitator }: GateContext["settings"]): boolean =>
  facilitator !== undefined && !facilitator.trustUnsigned;

export const noReservations = ({ settings }: GateContext): string =>
  `settle is "after", but the Facilitator${settings.facilitator ? ` at ${settings.facilitator.url}` : ""} reserves no payments: use one that does, or settle: "before"`;
