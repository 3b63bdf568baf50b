/** Plan changes, by provider and chain time: few of all events, read without the others by what recurs. */
import type { Migration } from "./migration";

export const planChanges: Migration = {
  id: "445-plan-changes",
  statements: [
    `create index events_plan_changed on events (chain_id, provider, block_time)
      where not reverted and type = 'subscription.plan_changed'`,
  ],
};
