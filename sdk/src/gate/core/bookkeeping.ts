/**
 * Checks that a gate can record what a payment requires: claims, and a meter's journal. A gate that cannot must not ask
 * for money, since it could not serve the payer.
 */
import { Unavailable } from "../../protocol";
import type { GateContext } from "./context";
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
      await context.claims.ready?.();
      check.okMs = performance.now();
    } finally {
      check.running = undefined;
    }
  })();
  await check.running;
}

/** Returns whether a price may be quoted without a new check. @throws Unavailable once a meter's journal is lost */
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
