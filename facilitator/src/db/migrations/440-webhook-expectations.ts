/** From which event on each webhook endpoint gets every event that it wants; `reconcile` reports what is missing. */
import type { Migration } from "./migration";

export const webhookExpectations: Migration = {
  id: "440-webhook-expectations",
  // Null for the endpoints that exist now: which of the earlier events they were to get is not recorded.
  statements: ["alter table webhook_endpoints add column queued_after bigint"],
};
