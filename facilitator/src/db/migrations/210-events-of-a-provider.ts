/** Index for a provider's feed and live stream. */
import type { Migration } from "./migration";

export const eventsOfAProvider: Migration = {
  id: "210-events-of-a-provider",
  statements: [`create index events_provider on events (chain_id, provider, seq)`],
};
