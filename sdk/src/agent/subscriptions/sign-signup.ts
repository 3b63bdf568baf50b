/**
 * Signs a signup: the policy first, then the budget, then one Subscribe and at most one permit, recorded before they are
 * posted.
 */
import type { SubscribeRequestWire, Voucher, VoucherWire } from "../../facilitator/subscriptions";
import {
  type Address,
  type Hex,
  InsufficientFunds,
  PolicyRefused,
  type SignedTerms,
  secretHashOf,
  subscribeTypedData,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import type { AgentContext } from "../core/context";
import type { SpendFacts } from "../core/policy";
import type { SpendEntry, SubscriptionEntry } from "../ledger/ledger-store";
import { requireFuture } from "./ends";
import { type ApprovalFacts, withApproval } from "./permits";
import { emitOf, postSignup, type SignupJob, spendIdOf } from "./signup";
import { deprecatedPlan, idHashOfSecret, type Subscription, termsOf } from "./subscription";
import { requireLive, voucherFor } from "./vouchers";

export type SignupSecret = { readonly value: Hex; readonly kept: SubscriptionEntry["secret"] };

/** Judges a signup by the policy, reserves what it charges at once, signs it and posts it. */
export async function signUp(context: AgentContext, job: SignupJob, secret: SignupSecret): Promise<Subscription> {
  const { ledger, facilitator, plan, untilSec } = job;
  const { policy } = context;
  const subscriber = await context.signer.address();
  requireSubscribable(context, job);
  const facts = spendFactsOf(job);
  const verdict = policy.judge(facts, ledger);
  if (verdict.kind === "refuse") throw verdict.error;
  const entry = signupEntry(job, subscriber, secret);
  const voucher = await voucherFor(context, job, { subscriber, secretHash: secretHashOf(secret.value) });
  const firstAmount = chargedAtOnce(plan.amount, voucher);
  await policy.require({ ...facts, firstAmount }, ledger, () =>
    ledger.requireBudget(spendOf(context, entry, firstAmount), policy.limits),
  );
  const { deployment, token } = plan;
  const need = { ledger, facilitator, deployment, token, planned: entry, when: "whole" as const };
  return withApproval(context, need, async (approval) => {
    // The policy's question may have taken long.
    if (untilSec !== undefined) requireFuture(untilSec, approval.nowSec);
    if (voucher) requireLive(voucher, approval.nowSec);
    const firstCharge = voucher?.firstAmount ?? plan.amount;
    const { balance } = approval.account;
    if (balance < firstCharge) throw insufficientFunds({ wallet: subscriber, token, balance, firstCharge });
    const earlier = ledger.spend(spendIdOf(entry));
    const spend = await ledger.reserve(spendOf(context, entry, firstAmount), policy.limits);
    let signing: SubscriptionEntry;
    emitOf(context, entry, "subscription.signing");
    try {
      const signed = await signSubscribe(context, entry, secret.value, { ...approval, untilSec, voucher });
      signing = { ...entry, signup: signed };
    } catch (error) {
      // What was signed before over the same secret can still be charged.
      await ledger.put(earlier ?? { ...spend, state: "released" });
      throw error;
    }
    await ledger.put(signing);
    return postSignup(context, job, signing, false);
  });
}

/** @throws PolicyRefused for a signup without an end that the policy requires, PlanDeprecated */
function requireSubscribable({ policy }: AgentContext, { plan, untilSec }: SignupJob): void {
  if (policy.requireUntil && untilSec === undefined) {
    throw new PolicyRefused("policy.requireUntil is set: name the subscription's end in `until`.", { reason: "until" });
  }
  if (plan.deprecated) throw deprecatedPlan(plan);
}

const spendFactsOf = ({ plan, cap }: SignupJob): SpendFacts => ({
  kind: "subscription",
  amount: plan.amount + cap,
  periodSec: plan.interval,
  chainId: plan.chainId,
  token: plan.token,
  payTo: plan.payTo,
});

/** Returns the ledger's entry of a signup that is not signed yet. */
function signupEntry(
  { facilitator, plan, cap, periods, origins }: SignupJob,
  subscriber: Address,
  secret: SignupSecret,
): SubscriptionEntry {
  return {
    type: "subscription",
    id: idHashOfSecret(subscriber, secret.value),
    state: "signup",
    subscriber,
    chainId: plan.chainId,
    network: plan.network,
    turnpike: plan.deployment.turnpike,
    facilitator: facilitator.url,
    ...termsOf(plan),
    cap: cap.toString(),
    periods,
    origins: [...origins],
    secret: secret.kept,
  };
}

function insufficientFunds({
  wallet,
  token,
  balance,
  firstCharge,
}: {
  readonly wallet: Address;
  readonly token: Address;
  readonly balance: bigint;
  readonly firstCharge: bigint;
}): InsufficientFunds {
  return new InsufficientFunds(
    `The wallet ${wallet} has ${balance} base units of ${token}, and the first period costs ${firstCharge}.`,
    { details: { wallet, token, required: firstCharge.toString(), available: balance.toString() } },
  );
}

/** What a signup may charge within a day: the price too, when a voucher's period is over by then. */
function chargedAtOnce(price: bigint, voucher: Voucher | undefined): bigint {
  if (!voucher) return price;
  const { firstAmount, firstInterval } = voucher;
  return firstInterval > 0 && firstInterval < DAY_SEC ? firstAmount + price : firstAmount;
}

const spendOf = (context: AgentContext, entry: SubscriptionEntry, amount: bigint): SpendEntry => ({
  type: "spend",
  id: spendIdOf(entry),
  state: "held",
  atSec: context.effects.clock.nowSec(),
  payTo: entry.payTo,
  amount: amount.toString(),
});

async function signSubscribe(
  context: AgentContext,
  entry: SubscriptionEntry,
  secret: Hex,
  {
    nowSec,
    permit,
    untilSec: until,
    voucher,
  }: ApprovalFacts & Pick<SignupJob, "untilSec"> & { voucher?: Voucher | undefined },
): Promise<SubscribeRequestWire> {
  const { subscriber, planId, cap } = entry;
  const secretHash = secretHashOf(secret);
  const deadline = BigInt(nowSec + context.policy.maxWindowSec);
  const end = until === undefined ? {} : { until };
  const message = { subscriber, planId, secretHash, maxOverage: BigInt(cap), deadline, ...end };
  const first = voucher && { first: voucher };
  const signature = await context.signer.sign(subscribeTypedData(entry, termsOfEntry(entry), { ...message, ...first }));
  return {
    network: entry.network,
    subscriber,
    planId,
    secretHash,
    maxOverage: cap,
    ...end,
    ...(voucher && { voucher: voucherToWire(voucher) }),
    deadline: deadline.toString(),
    signature,
    ...(permit ? { permit } : {}),
  };
}

const voucherToWire = ({ firstAmount, deadline, ...voucher }: Voucher): VoucherWire => ({
  ...voucher,
  firstAmount: firstAmount.toString(),
  deadline: deadline.toString(),
});

const termsOfEntry = ({ token, payTo, amount, intervalSec, months }: SubscriptionEntry): SignedTerms => ({
  token,
  payTo,
  amount: BigInt(amount),
  intervalSec,
  months,
});
