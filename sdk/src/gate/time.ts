/** The time that quotes and proofs are judged by: the chain's where it can be asked, the machine's where it never could. */
import type { ChainClock } from "../chain/clock";
import type { HeadWatcher } from "../chain/heads";
import { type Clock, systemClock } from "../protocol";

export interface GateTime extends Clock {
  /** Sees to it that `nowSec` is as true as it can be, and waits little for it. */
  refresh(): Promise<void> | undefined;
}

const MAX_WAIT_MS = 1_000;

export function fixedTime(clock: Clock): GateTime {
  return { nowSec: () => clock.nowSec(), refresh: () => undefined };
}

export function chainTime(clock: ChainClock, heads: HeadWatcher): GateTime {
  return {
    nowSec: () => (clock.head ? clock.nowSec() : systemClock.nowSec()),
    refresh() {
      if (heads.fresh()) return undefined;
      // In an outage the last known head and the time since go on serving: quotes need a time, even when all is down.
      return bounded(
        heads.current().then(
          () => undefined,
          () => undefined,
        ),
      );
    },
  };
}

async function bounded(work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, MAX_WAIT_MS);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
