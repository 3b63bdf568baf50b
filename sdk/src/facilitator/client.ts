/**
 * The typed client of the Facilitator's HTTP API: one method per endpoint, of payments, subscriptions and providers.
 * Expected outcomes are returned as unions.
 * @throws Unavailable (from every method) when there was no usable answer: the outcome is unknown, ask again
 */
import { checkedCalls, PROVIDER_ARGUMENTS, SETTLEMENT_ARGUMENTS } from "./checked-calls";
import { payerCalls } from "./payer-client";
import { providerCalls } from "./provider-calls";
import { settlementCalls } from "./settlement-calls";
import { createCalls, type TransportOptions } from "./transport";

export type { AuthorizeOutcome } from "./payment-calls";
export type {
  DebitRightsOutcome,
  DebitsOutcome,
  KeyOutcome,
  ReportOutcome,
  WantedKey,
  WantedRefundAccount,
} from "./provider-calls";
export type { RefundOutcome } from "./settlement-calls";
export type { PermitOutcome } from "./subscription-calls";
export type {
  CallOptions,
  ChainCallOptions,
  ChangeOutcome,
  Found,
  LookUp,
  PageOptions,
  PaymentCallOptions,
  Pending,
  Refused,
} from "./transport";

/** Where the Facilitator is, and how long an answer may take. */
export type FacilitatorClientOptions = TransportOptions;

/** One method for each endpoint. Each throws Unavailable when there was no usable answer. */
export type FacilitatorClient = ReturnType<typeof createFacilitatorClient>;

/** @throws ConfigError for a url that is no plain http(s) address */
export function createFacilitatorClient(options: FacilitatorClientOptions) {
  const calls = createCalls(options);
  return {
    ...payerCalls(calls),
    ...checkedCalls(settlementCalls(calls), SETTLEMENT_ARGUMENTS),
    ...checkedCalls(providerCalls(calls), PROVIDER_ARGUMENTS),
  };
}
