/**
 * Roles of a process.
 * api: answers HTTP.
 * relayer: holds the keys, builds and sends transactions.
 * renewals: collects what falls due.
 * indexer: reads the chain into rows.
 * webhooks: delivers events.
 */
export const ROLES = ["api", "relayer", "renewals", "indexer", "webhooks"] as const;

export type Role = (typeof ROLES)[number];
