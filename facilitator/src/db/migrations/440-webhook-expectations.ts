/**
 * Records from which event on each webhook endpoint receives every matching event; `reconcile` reports what is missing.
 */
import type { Migration } from "./migration";

export const webhookExpectations: Migration = {
  id: "440-webhook-expectations",
  // Null for existing endpoints: which earlier events they should have received is not recorded.
  statements: ["alter table webhook_endpoints add column queued_after bigint"],
};
