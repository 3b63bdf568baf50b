/**
 * Whether a gate can write down what it will have to write down when it is paid: claims, and a meter's journal. A gate
 * that cannot must not ask for money, since it could not serve whoever paid.
 */
import { Unavailable } from "../../protocol";
import type { Room } from "./context";
import type { Route } from "./route";

interface Check {
  running: Promise<void> | undefined;
  /** performance.now() of the last success */
  okMs: number;
  isWarned: boolean;
}

/** A check is good for so long: under load one request in that time pays for it. */
const GOOD_FOR_MS = 2_000;

const RETRY_AFTER_SEC = 5;

/** Of all gates of one provider together. */
const checks = new WeakMap<Room, Check>();

function checkOf(room: Room): Check {
  const known = checks.get(room) ?? { running: undefined, okMs: Number.NEGATIVE_INFINITY, isWarned: false };
  checks.set(room, known);
  return known;
}

/** @throws ConfigError or Unavailable, naming what cannot be written */
export async function requireBookkeeping(room: Room, route: Route): Promise<void> {
  if (route.sellsSingles) await requireClaims(room);
  if (!route.metered) return;
  if (room.meter && !room.isMeterOpen()) await room.meterStarted();
  room.meter?.requireHealthy?.();
}

async function requireClaims(room: Room): Promise<void> {
  const check = checkOf(room);
  check.running ??= (async () => {
    try {
      await room.claims.ready?.();
      check.okMs = performance.now();
    } finally {
      check.running = undefined;
    }
  })();
  await check.running;
}

/** Whether nothing has to be asked before a price is quoted. @throws Unavailable once a meter's journal is lost */
export function isBookkeepingKnown(room: Room, route: Route): boolean {
  if (route.metered && room.meter) {
    if (!room.isMeterOpen()) return false;
    room.meter.requireHealthy?.();
  }
  return !route.sellsSingles || performance.now() - checkOf(room).okMs < GOOD_FOR_MS;
}

/** @returns why no price may be quoted now; the cause is for the log and names no path to a client */
export async function bookkeepingOutage(room: Room, route: Route): Promise<Unavailable | undefined> {
  const check = checkOf(room);
  try {
    if (isBookkeepingKnown(room, route)) return undefined;
    await requireBookkeeping(room, route);
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
