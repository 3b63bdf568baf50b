/** The client of a payer: payments, subscriptions and what the Facilitator supports, without a provider's calls. */
import { Unavailable } from "../protocol";
import { checkedCalls, PAYMENT_ARGUMENTS, SUBSCRIPTION_ARGUMENTS } from "./checked-calls";
import { paymentCalls } from "./payment-calls";
import { subscriptionCalls } from "./subscription-calls";
import { type Supported, supportedSchema } from "./supported";
import { type CallOptions, type Calls, createCalls, type TransportOptions } from "./transport";

/** A payer's part of the client. */
export type PayerClient = ReturnType<typeof payerCalls>;

/** @throws ConfigError for a url that is no plain http(s) address */
export const createPayerClient = (options: TransportOptions): PayerClient => payerCalls(createCalls(options));

export const payerCalls = (calls: Calls) => ({
  ...checkedCalls(paymentCalls(calls), PAYMENT_ARGUMENTS),
  ...checkedCalls(subscriptionCalls(calls), SUBSCRIPTION_ARGUMENTS),
  ...checkedCalls(supportCalls(calls), { supported: {} }),
});

const supportCalls = (calls: Calls) => ({
  /** Networks, tokens, schemes and signers of this Facilitator. */
  async supported(call: CallOptions = {}): Promise<Supported> {
    const found = await calls.lookUp("GET /supported", supportedSchema, call);
    if (found.kind === "refused") {
      const { message, status } = found.error;
      throw new Unavailable(message, { cause: found.error, details: { status, isJson: true } });
    }
    return found.value;
  },
});
