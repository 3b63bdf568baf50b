/** Builds a provider's figures in wire terms. Reads the sums and its own rows; makes no chain request. */
import type { Address } from "turnpike/protocol";
import { findToken } from "../config";
import { type Attention, createAttention } from "./attention";
import { createFailedRenewals, type FailedRenewalFigures } from "./failed-renewals";
import { createFunnelFigures, type FunnelFigures } from "./funnel-figures";
import { createLedger, type Ledger } from "./ledger";
import { createOverviewFigures, type OverviewFigures } from "./overview";
import { createPayerFigures, type PayersFigures } from "./payer-figures";
import { createPlanFigures, type PlansFigures } from "./plan-figures";
import type { AnalyticsOptions } from "./ranges";
import { createRecordLists, type RecordLists } from "./record-lists";
import { createSearch, type Search } from "./search";
import { createServiceFigures, type ServiceFigures } from "./service-figures";
import { createSpending, type Spending } from "./spending";
import { createStories, type Stories } from "./stories";
import { createSubscriptionFigures, type SubscriptionFigures } from "./subscription-figures";

export interface Analytics
  extends OverviewFigures,
    Attention,
    PlansFigures,
    PayersFigures,
    RecordLists,
    Stories,
    Search,
    Ledger,
    SubscriptionFigures,
    FailedRenewalFigures,
    FunnelFigures,
    ServiceFigures,
    Spending {
  /** @returns undefined for a token that is no longer settled */
  decimalsOf(token: string): number | undefined;
}

export function createAnalytics(options: AnalyticsOptions): Analytics {
  return {
    ...createOverviewFigures(options),
    ...createAttention(options),
    ...createPlanFigures(options),
    ...createPayerFigures(options),
    ...createRecordLists(options),
    ...createStories(options),
    ...createSearch(options),
    ...createLedger(options),
    ...createSubscriptionFigures(options),
    ...createFailedRenewals(options),
    ...createFunnelFigures(options),
    ...createServiceFigures(options),
    ...createSpending(options),
    decimalsOf: (token) => findToken(options.config, token as Address)?.decimals,
  };
}
