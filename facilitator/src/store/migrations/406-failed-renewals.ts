/** What fell due and was not charged is read from the first failure of each period, and from the end of those never tried. */
import type { Migration } from ".";

export const failedRenewals: Migration = {
  id: "406-failed-renewals",
  statements: [
    `create index events_failed_renewals on events (chain_id, provider, block_time)
      where type = 'subscription.expired' or (type = 'subscription.renewal_failed' and payload->>'attempt' = '1')`,
  ],
};
