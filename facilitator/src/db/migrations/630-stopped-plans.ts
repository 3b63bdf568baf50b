/** Stores when a plan was stopped. Only the contracts of this release stop plans: no row needs a value. */
import type { Migration } from "./migration";

export const stoppedPlans: Migration = {
  id: "630-stopped-plans",
  statements: [`alter table plans add column stopped_at bigint`],
};
