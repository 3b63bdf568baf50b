/** All migrations in order. Append only: a migration that was ever applied is never edited. */
import { initial } from "./001-initial";
import { signedActs } from "./100-signed-acts";
import { providers } from "./110-providers";
import { rollups } from "./200-rollups";
import { eventsOfAProvider } from "./210-events-of-a-provider";
import { roleLeases } from "./300-role-leases";
import { renewalQueue } from "./301-renewal-queue";
import { analytics } from "./400-analytics";
import { gateResources } from "./401-gate-resources";
import { figures } from "./402-figures";
import { spans } from "./403-spans";
import { standing } from "./405-standing";
import { failedPeriods } from "./406-failed-periods";
import { stagedEvents } from "./408-staged-events";
import { steadyUpkeep } from "./409-steady-upkeep";
import { paymentGrants } from "./410-payment-grants";
import { health } from "./414-health";
import { lifecycle } from "./420-lifecycle";
import { failedSpends } from "./430-failed-spends";
import { webhookExpectations } from "./440-webhook-expectations";
import { planChanges } from "./445-plan-changes";
import { chainContracts } from "./446-chain-contracts";
import { terms } from "./450-terms";
import { subscriptionEnds } from "./455-subscription-ends";
import { paymentReservations } from "./460-payment-reservations";
import { refunds } from "./470-refunds";
import { permit2 } from "./480-permit2";
import { refundAccounts } from "./490-refund-accounts";
import { listings } from "./500-listings";
import { walletDeployments } from "./510-wallet-deployments";
import { retention } from "./520-retention";
import { compactPayments } from "./530-compact-payments";
import { everyChain } from "./540-every-chain";
import { paymentsByBlock } from "./560-payments-by-block";
import { eventRetention } from "./561-event-retention";
import { traceparents } from "./562-traceparents";
import { refundsByPlan } from "./570-refunds-by-plan";
import { actsByObject } from "./580-acts-by-object";
import { refundNonces } from "./600-refund-nonces";
import { payerGas } from "./610-payer-gas";
import { listingOrigins } from "./620-listing-origins";
import { stoppedPlans } from "./630-stopped-plans";
import { dailySums } from "./640-daily-sums";
import { payerCharges } from "./650-payer-charges";
import { ledger } from "./660-ledger";
import { endings } from "./670-endings";
import { reconcileDifferences } from "./675-reconcile-differences";
import { labels } from "./680-labels";
import { payersByStart } from "./690-payers-by-start";
import { payersInOrder } from "./700-payers-in-order";
import type { Migration } from "./migration";

export const MIGRATIONS: readonly Migration[] = [
  initial,
  signedActs,
  rollups,
  roleLeases,
  renewalQueue,
  providers,
  eventsOfAProvider,
  analytics,
  gateResources,
  figures,
  spans,
  standing,
  failedPeriods,
  stagedEvents,
  steadyUpkeep,
  paymentGrants,
  health,
  lifecycle,
  failedSpends,
  webhookExpectations,
  planChanges,
  chainContracts,
  terms,
  subscriptionEnds,
  paymentReservations,
  refunds,
  permit2,
  refundAccounts,
  listings,
  walletDeployments,
  retention,
  compactPayments,
  everyChain,
  paymentsByBlock,
  eventRetention,
  traceparents,
  refundsByPlan,
  actsByObject,
  refundNonces,
  payerGas,
  listingOrigins,
  stoppedPlans,
  dailySums,
  payerCharges,
  ledger,
  endings,
  reconcileDifferences,
  labels,
  payersByStart,
  payersInOrder,
];
