/** Finds an endpoint's deliveries that did not arrive without reading those that did. */
import type { Migration } from "./migration";

export const deliveriesByState: Migration = {
  id: "705-deliveries-by-state",
  statements: [
    "create index webhook_deliveries_undelivered on webhook_deliveries (endpoint_id, state, seq) where state <> 'delivered'",
  ],
};
