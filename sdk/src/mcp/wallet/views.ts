/** Shows amounts, prices, subscriptions and payments as a tool result does: no id, secret or signature is in them. */
import { originAndPath } from "../../agent/core/request";
import type { PaymentReceipt } from "../../agent/payments/receipt";
import type { BudgetView, ChargeView, PaymentView } from "../../agent/payments/view";
import type { PriceOption, PriceQuote } from "../../agent/pricing/price-quote";
import type { Subscription } from "../../agent/subscriptions/subscription";

import { formatAmount, type Hex, isTurnpikeError } from "../../protocol";

/** An amount of a token with 6 decimals, both ways. */
export interface AmountView {
  readonly decimal: string;
  readonly baseUnits: string;
}

export const amountView = (amount: bigint): AmountView => ({
  decimal: formatAmount(amount),
  baseUnits: amount.toString(),
});

const optionalAmount = (amount: bigint | undefined): AmountView | undefined =>
  amount === undefined ? undefined : amountView(amount);

const timeView = (sec: number | undefined): string | undefined =>
  sec === undefined ? undefined : new Date(sec * 1_000).toISOString();

/** Names a subscription in tool calls: a part of its public name, never of its secret. */
export const handleOf = (idHash: Hex): string => `sub-${idHash.slice(2, 12)}`;

export function subscriptionView(subscription: Subscription): object {
  const { idHash, amount, maxOverage, remaining, paidThroughSec, untilSec, intervalSec, months } = subscription;
  const { planId, network, token, payTo, status, ending, nextPlanId, origins, existing } = subscription;
  return {
    subscription: handleOf(idHash),
    status,
    price: amountView(amount),
    period: months > 0 ? { months } : { seconds: intervalSec },
    overageCap: amountView(maxOverage),
    overageRemaining: amountView(remaining),
    paidThrough: timeView(paidThroughSec),
    endsAtPeriodEnd: ending,
    until: timeView(untilSec),
    planId,
    nextPlanId,
    network,
    token,
    payTo,
    usedAt: origins,
    ...(existing && { existing }),
  };
}

/** Longer names of plans, which the provider wrote, are cut. */
const MAX_NAME = 80;

function optionView(option: PriceOption): object {
  const { kind, network, token, amount, verdict, reason } = option;
  const shared = { kind, price: amountView(amount), network, token, policy: verdict, reason };
  if (kind === "one-time") return { ...shared, payTo: option.payTo, method: option.method };
  const { planId, intervalSec, verified, subscribed } = option;
  return { ...shared, planId, periodSeconds: intervalSec, termsProven: verified, subscribed };
}

/** Returns the names that the provider gives its plans, each in a line; undefined where it names none. */
export function planNames({ options }: PriceQuote): string | undefined {
  const lines = options.flatMap((option) =>
    option.kind === "one-time" || option.name === undefined
      ? []
      : [`plan ${option.planId}: ${option.name.slice(0, MAX_NAME)}`],
  );
  return lines.length > 0 ? lines.join("\n") : undefined;
}

export function quoteView({ url, method, status, options, refusals }: PriceQuote): object {
  return {
    url: originAndPath(url),
    method,
    status,
    needsPayment: status === 402,
    options: options.map(optionView),
    ...(refusals.length > 0 && { leftOut: refusals.map((refusal) => refusal.slice(0, MAX_NAME)) }),
  };
}

export function receiptView(receipt: PaymentReceipt): object {
  const { paymentId, amount, charged, reported, network, token, payTo, method, resource } = receipt;
  return {
    paymentId,
    amount: amountView(amount),
    method,
    network,
    token,
    payTo,
    resource: originAndPath(resource),
    charged: optionalAmount(charged),
    chargedByProvidersWord: optionalAmount(reported),
    transaction: receipt.transaction,
    settledAt: timeView(receipt.settledAtSec),
    ...(receipt.resumed && { paidByEarlierCall: true }),
  };
}

export function paymentView(payment: PaymentView): object {
  const { state, atSec, refunded } = payment;
  const credited = refunded > 0n ? { refunded: amountView(refunded) } : {};
  return { kind: "payment", at: timeView(atSec), state, ...receiptView(payment), ...credited };
}

export function chargeView({ idHash, payTo, amount, atSec, refunded }: ChargeView): object {
  const credited = refunded > 0n ? { refunded: amountView(refunded) } : {};
  const subscription = handleOf(idHash);
  return { kind: "subscription", at: timeView(atSec), subscription, amount: amountView(amount), payTo, ...credited };
}

export function budgetView({ perDay, perPayee, spent, remaining }: BudgetView): object {
  return {
    perDay: amountView(perDay),
    perPayeeAndDay: optionalAmount(perPayee),
    spentInLast24Hours: amountView(spent),
    remaining: amountView(remaining),
  };
}

/** What a model does about a refusal of the policy: nothing that it could try would be allowed. */
const REFUSED_REMEDY = "Report this to the user: only a person can change the limits, in the wallet's file.";

/** Shows an error: what failed and what to do, without its causes. */
export function errorView(error: unknown): object {
  if (isTurnpikeError(error)) {
    const { code, message, reason, retryAfterSec, details } = error;
    const remedy = code === "PolicyRefused" ? REFUSED_REMEDY : error.remedy;
    const { idHash, ...shown } = details;
    const subscription = typeof idHash === "string" ? { subscription: handleOf(idHash as Hex) } : {};
    return { error: code, reason, message, remedy, retryAfterSec, ...subscription, details: shown };
  }
  return { error: "Failed", message: error instanceof Error ? error.message : "The call failed." };
}
