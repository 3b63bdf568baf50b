/** What follows the feed and the blocks, in the order in which it does. */
import { eventSums } from "../analytics/event-sums";
import { failedPeriods } from "../analytics/failed-periods";
import { EventFeed } from "../events/feed";
import { restorations } from "../payments/restorations";
import { outbox } from "../webhooks/outbox";

export const createEventFeed = (chainId: number): EventFeed =>
  new EventFeed(chainId, [eventSums, failedPeriods, outbox, restorations]);
