/** Time as every room takes it: handed in, in unix seconds of the chain. */
export interface Clock {
  /** unix seconds, whole */
  nowSec(): number;
}

/** The machine's clock, for where no chain is asked. */
export const systemClock: Clock = { nowSec: () => Math.floor(Date.now() / 1_000) };
