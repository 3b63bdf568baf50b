import type { DatabaseGauges, Gauges } from "../../../facilitator/src/telemetry/gauges";

/** Gauges of a service that does nothing. */
export const UNUSED_GAUGES: Gauges & DatabaseGauges = {
  lanes: () => [],
  nodes: () => [],
  isDatabaseWell: () => true,
  databasePool: () => undefined,
  indexerLagBlocks: () => 0,
  indexerLagSec: () => 0,
  headAgeSec: () => 0,
  isReorganisedTooDeeply: () => false,
  isIndexing: () => false,
  paymentQueue: () => ({ queued: 0, oldestQueuedSec: 0 }),
  highestPayerGas: () => 0,
  renewalsDue: async () => 0,
  reconciled: async () => undefined,
  costs: async () => [],
  webhookBacklogs: async () => [],
  webhooksPending: async () => 0,
};
