/** Defines the injected clock, and names durations in seconds. */

export const HOUR_SEC = 3_600;

export const DAY_SEC = 24 * HOUR_SEC;

/** How much two clocks may differ. */
export const CLOCK_SLACK_SEC = 60;

/** Defines the injected clock: unix seconds of the chain. */
export interface Clock {
  /** unix seconds, whole */
  nowSec(): number;
}

/** The machine's clock, for use without a chain. */
export const systemClock: Clock = { nowSec: () => Math.floor(Date.now() / 1_000) };

/**
 * Returns the time that a window is signed from: the chain's. A local chain that makes blocks on demand is behind when it
 * was quiet, and its next block is not: there the later of both counts.
 */
export const windowTimeSec = (chainSec: number, network: string): number =>
  network.startsWith("local-") ? Math.max(chainSec, systemClock.nowSec()) : chainSec;
