/** Indexes the start and end of subscriptions and failed payments, by provider and chain time: few of all events. */
import type { Migration } from "./migration";

export const lifecycle: Migration = {
  id: "420-lifecycle",
  statements: [
    `create index events_lifecycle on events (chain_id, provider, block_time) include (type, object_id, payer, seq)
      where not reverted and type in ('subscription.created', 'subscription.resumed', 'subscription.cancelled',
        'subscription.expired', 'payment.failed')`,
  ],
};
