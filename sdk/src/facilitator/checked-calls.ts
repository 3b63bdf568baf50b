/** Checks the arguments of a client's methods by name and kind before anything is sent. */
import {
  aBigint,
  aList,
  aNumber,
  aText,
  callback,
  fieldsOf,
  type OptionCheck,
  requireKnownFields,
} from "../protocol/arguments";

/** The arguments of a method in their order, without the options of its call. */
type ArgumentChecks = Readonly<Record<string, OptionCheck>>;

// biome-ignore lint/suspicious/noExplicitAny: whatever the methods take
type Methods = Readonly<Record<string, (...args: any[]) => Promise<unknown>>>;

/** Of all calls: those that a call does not have are left out of its request. */
const OPTIONS = [
  ...["signal", "trace", "network", "cursor", "limit", "offset", "type", "provider"],
  ...["payTo", "scheme", "x402Version", "extensions"],
];

/** Returns the same methods, which reject with ConfigError by the argument's name. */
export function checkedCalls<T extends Methods>(methods: T, checks: { readonly [Name in keyof T]: ArgumentChecks }): T {
  const checked = Object.entries(methods).map(([name, method]) => [
    name,
    async (...args: unknown[]) => {
      const expected = Object.entries(checks[name] as ArgumentChecks);
      expected.forEach(([field, check], place) => {
        check(args[place], `${name}: ${field}`);
      });
      const options = args[expected.length];
      if (options !== undefined) requireKnownFields(fieldsOf(options, `${name}: options`), OPTIONS, `${name}: `);
      return method(...args);
    },
  ]);
  return Object.fromEntries(checked) as T;
}

const anObject: OptionCheck = fieldsOf;

const shape =
  (fields: ArgumentChecks): OptionCheck =>
  (value, field) => {
    const given = fieldsOf(value, field) as Readonly<Record<string, unknown>>;
    for (const [name, check] of Object.entries(fields)) check(given[name], `${field}.${name}`);
  };

const X402 = { request: shape({ paymentPayload: anObject, paymentRequirements: anObject }) };

export const PAYMENT_ARGUMENTS = {
  authorize: { signedPayment: anObject },
  refunds: { id: aText },
  payment: { id: aText },
};

export const SETTLEMENT_ARGUMENTS = {
  refund: { request: anObject },
  verifyProof: { proof: anObject },
  x402Verify: X402,
  releasePayment: { paymentId: aText, grantId: aText },
  x402Settle: X402,
};

export const SUBSCRIPTION_ARGUMENTS = {
  subscribe: { request: anObject },
  void: { request: anObject },
  subscription: { idHash: aText },
  subscriptionsOf: { subscriber: aText },
  change: { change: shape({ idHash: aText, act: aText, request: anObject }) },
  quoteChange: { change: shape({ idHash: aText, newPlanId: aText }) },
  permit: { request: anObject },
  plan: { planId: aText },
  plans: {},
  account: { account: shape({ address: aText, token: aText }) },
};

export const PROVIDER_ARGUMENTS = {
  events: {},
  labels: {},
  setLabel: { label: shape({ object: aText, text: aText }) },
  debits: { items: aList },
  debitRights: { planIds: aList },
  report: { report: anObject },
  refundPayment: { paymentId: aText },
  nameRefundAccount: {
    wanted: shape({
      sign: callback,
      provider: aText,
      account: aText,
      token: aText,
      dailyCap: aBigint,
      chainId: aNumber,
    }),
  },
  refundAccounts: {},
  revokeRefundAccount: { token: aText },
  createKey: { wanted: shape({ sign: callback, provider: aText, facilitator: aText, chainId: aNumber }) },
};

export const DISCOVERY_ARGUMENTS = {
  resources: {},
  search: { query: aText },
  list: { wanted: anObject },
  listings: {},
  listing: { id: aText },
  unlist: { id: aText },
};
