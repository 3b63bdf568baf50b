/** What a provider's feed and its live stream read by. */
import type { Migration } from "./migration";

export const eventsOfAProvider: Migration = {
  id: "210-events-of-a-provider",
  statements: [`create index events_provider on events (chain_id, provider, seq)`],
};
