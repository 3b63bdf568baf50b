/** Starts the checks of listings, with this process's clocks and network. */
import type { Logger } from "pino";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { SharedClock } from "../db/shared-clock";
import type { Worker } from "../lib/loop";
import { startListingChecks } from "./checks";
import { createProber } from "./probe";

export interface DiscoveryContext {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly wallClock: Pick<SharedClock, "nowMs">;
  readonly log: Logger;
}

/** Also the least time between two requests to one host. */
const POLL_MS = 1_000;

export function startDiscovery({ config, store, wallClock, log }: DiscoveryContext): Worker {
  return startListingChecks({
    store,
    own: config,
    prober: createProber({ allowPrivate: config.allowPrivateListings }),
    log,
    checkEveryMs: config.listingCheckSec * 1_000,
    pollMs: POLL_MS,
    nowMs: wallClock.nowMs,
    monotonicMs: () => performance.now(),
  });
}
