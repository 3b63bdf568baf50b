/** Indexes plan changes by provider and chain time, for recurring revenue: few of all events. */
import type { Migration } from "./migration";

export const planChanges: Migration = {
  id: "445-plan-changes",
  statements: [
    `create index events_plan_changed on events (chain_id, provider, block_time)
      where not reverted and type = 'subscription.plan_changed'`,
  ],
};
