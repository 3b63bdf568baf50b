/** What a process of the Facilitator can do. One process may do all of it; many may share one PostgreSQL. */
import type { Logger } from "pino";
import type { Clock } from "turnpike/protocol";
import type { Core } from "./core";
import type { Metrics } from "./metrics";
import type { Progress } from "./progress";

/**
 * api: answers HTTP. relayer: holds the keys, composes and sends transactions. renewals: collects what falls due.
 * indexer: reads the chain into rows. webhooks: delivers events.
 */
export const ROLES = ["api", "relayer", "renewals", "indexer", "webhooks"] as const;
export type Role = (typeof ROLES)[number];

/** What runs for a role until it is told to stop. */
export interface Worker {
  stop(): Promise<void>;
}

/** What a worker is given. */
export interface RoleContext extends Pick<Core, "config" | "store" | "relayer" | "indexer" | "wallClock"> {
  /** chain time */
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly progress: Progress;
}
