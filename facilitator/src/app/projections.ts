/** Lists the projections of events and blocks, in the order in which they run. */
import { activeCounts } from "../analytics/active-counts";
import { transactionCosts } from "../analytics/costs";
import { endings } from "../analytics/endings";
import { eventSums } from "../analytics/event-sums";
import { failedPeriods } from "../analytics/failed-periods";
import { EventFeed } from "../events/feed";
import type { ChainProjections } from "../indexer/block-writer";
import { PaymentProjection, type PaymentProjectionOptions } from "../payments/block-projection";
import { restorations } from "../payments/restorations";
import { SubscriptionProjection } from "../subscriptions/block-projection";
import type { RecordProjection } from "../subscriptions/rows";
import { outbox } from "../webhooks/outbox";

export const createEventFeed = (chainId: number): EventFeed =>
  new EventFeed(chainId, [eventSums, endings, failedPeriods, outbox, restorations]);

export const RECORD_PROJECTIONS: readonly RecordProjection[] = [activeCounts, failedPeriods];

export interface Projections extends ChainProjections {
  readonly payments: PaymentProjection;
}

export function createProjections(options: PaymentProjectionOptions): Projections {
  const payments = new PaymentProjection(options);
  const subscriptions = new SubscriptionProjection(options.chainId, RECORD_PROJECTIONS);
  return { payments, blocks: [payments, subscriptions], transactions: [transactionCosts] };
}
