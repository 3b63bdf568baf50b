/** Checks how long, and up to what size, a gate keeps answers for clients that lost them. */
import { ConfigError } from "../../protocol";
import { DAY_SEC } from "../../protocol/time";

/** What a provider keeps of the answers to paid requests. */
export interface ReplayOptions {
  /** the largest body that is kept, bytes; default 65,536, at most 1,048,576 */
  readonly maxBytes?: number;
  /** seconds for which an answer is kept; default 600, at most 86,400 */
  readonly keepSec?: number;
}

export type ReplayLimits = Required<ReplayOptions>;

const DEFAULTS: ReplayLimits = { maxBytes: 64 * 1_024, keepSec: 600 };

/** Claims outlive their answers: a day is what every claim is kept beyond its payment's window. */
const MOST: ReplayLimits = { maxBytes: 1_024 * 1_024, keepSec: DAY_SEC };

/** @returns undefined where no answer is kept. @throws ConfigError naming the setting */
export function replayLimitsOf(replay: ReplayOptions | false | undefined): ReplayLimits | undefined {
  if (replay === false) return undefined;
  const limits = { ...DEFAULTS, ...replay };
  for (const name of ["maxBytes", "keepSec"] as const) {
    const value = limits[name];
    if (!Number.isSafeInteger(value) || value < 1 || value > MOST[name]) {
      throw new ConfigError(`replay.${name} is ${value}: use a whole number from 1 to ${MOST[name]}, or replay: false`);
    }
  }
  return limits;
}
