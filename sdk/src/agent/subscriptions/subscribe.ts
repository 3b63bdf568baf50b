/**
 * Signs up for a plan, or returns the subscription that the wallet has on it. A signup whose outcome is unknown is
 * finished first, and a new one is signed over the same secret only.
 */
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import { isTurnpikeError, SubscriptionNotActive, sameAddress, TurnpikeError } from "../../protocol";
import type { AgentContext } from "../core/context";
import { requireKnownFields } from "../core/known-fields";
import { derivedSecret, randomSecret } from "../signing/wallet";
import { requireUntil, setMaxOverage, setUntil } from "./changes";
import { requireCap, requireFuture } from "./ends";
import { offerOf, type SubscribeOptions } from "./offers";
import { DEFAULT_PERIODS, requirePeriods } from "./permits";
import { adopt, originsOf, searchDerived } from "./recover";
import { type SignupSecret, signUp } from "./sign-signup";
import { finishSignup, isSignupOf, PERMIT_TROUBLE, type SignupJob } from "./signup";
import { readState, type Subscription, secretOf, signingTimeSec, viewOf } from "./subscription";

/** How many fresh permits one call signs when others keep using the nonce. */
const MAX_PERMITS = 3;

const OPTIONS: Readonly<Record<keyof SubscribeOptions, true>> = {
  planId: true,
  url: true,
  maxOverage: true,
  until: true,
  voucher: true,
  origins: true,
  facilitator: true,
  periods: true,
  another: true,
};

/**
 * Subscribes, or returns the active subscription this agent already has on the plan.
 * @throws SubscriptionNotActive when the one it has is paused or past due, and `another` is not set; PlanDeprecated,
 * PolicyRefused, InsufficientFunds; PaymentPending when the outcome is unknown
 */
export async function subscribe(context: AgentContext, options: SubscribeOptions): Promise<Subscription> {
  requireKnownFields(options, Object.keys(OPTIONS));
  const ledger = await context.ledger();
  const cap = requireCap(options.maxOverage ?? 0n, "maxOverage");
  const periods = requirePeriods(options.periods ?? DEFAULT_PERIODS);
  const untilSec = options.until === undefined ? undefined : requireUntil(options.until);
  const offer = await offerOf(context, options);
  const { facilitator, plan } = offer;
  const origins = [...new Set([...originsOf(options.origins), ...offer.origins])];
  const subscriber = await context.signer.address();
  if (untilSec !== undefined) {
    const { token, chainId } = plan;
    const { chainTimeSec } = await facilitator.account({ address: subscriber, token, chainId });
    requireFuture(untilSec, await signingTimeSec(context, chainId, chainTimeSec));
  }
  const job: SignupJob = { ledger, facilitator, plan, cap, untilSec, askVoucher: options.voucher, origins, periods };
  return ledger.serialize(`subscribe:${plan.planId}:${subscriber}`, async () => {
    const unfinished = await finishSignup(context, job);
    if (unfinished) return asWanted(context, job, unfinished);
    const { existing, suspended, secret } = await secretFor(context, job);
    if (existing && !options.another) return asWanted(context, job, existing);
    if (suspended && !options.another) throw suspendedError(suspended);
    return signUpWithRetries(context, job, secret);
  });
}

/**
 * Signs up, with a new permit if needed: another process of the same wallet may use the permit's nonce first. The
 * unused signup itself is then posted again.
 */
async function signUpWithRetries(context: AgentContext, job: SignupJob, secret: SignupSecret): Promise<Subscription> {
  for (let turn = 0; ; turn++) {
    try {
      const made = turn === 0 ? await signUp(context, job, secret) : await finishSignup(context, job);
      if (made) return made;
      throw new TurnpikeError("InsufficientApproval");
    } catch (error) {
      const isTrouble = isTurnpikeError(error) && PERMIT_TROUBLE.has(error.code);
      if (!isTrouble || turn >= MAX_PERMITS) throw error;
    }
  }
}

/** Raises an existing subscription's cap to the larger one that was requested, and sets the end that was. */
async function asWanted(
  context: AgentContext,
  { cap, untilSec }: SignupJob,
  subscription: Subscription,
): Promise<Subscription> {
  let wanted = subscription;
  if (untilSec !== undefined && untilSec !== subscription.untilSec) {
    wanted = Object.assign(await setUntil(context, subscription, untilSec), { existing: true });
  }
  if (cap <= wanted.maxOverage) return wanted;
  return Object.assign(await setMaxOverage(context, subscription, cap), { existing: true });
}

/** Whether it is active, or can become active and charge again without a new signup by resume or renewal. */
const canCharge = ({ status }: SubscriptionState): boolean =>
  status === "ACTIVE" || status === "PAUSED" || status === "PAST_DUE";

interface SignupState {
  /** the active subscription on the plan */
  readonly existing: Subscription | undefined;
  /** one on the plan that is paused or past due; undefined where another one is active */
  readonly suspended: SubscriptionState | undefined;
  /** what a new one would have */
  readonly secret: SignupSecret;
}

/** Finds the wallet's subscription on the plan, in the ledger and on chain. */
async function secretFor(
  context: AgentContext,
  { ledger, facilitator, plan, origins }: SignupJob,
): Promise<SignupState> {
  const subscriber = await context.signer.address();
  const root = await context.roots.ofSubscriptions(plan.deployment);
  const unknown = ledger.subscriptions().find((entry) => entry.signup && isSignupOf(entry, plan, subscriber));
  let secret: SignupSecret;
  if (root) {
    const search = await searchDerived(ledger, facilitator, { root, planId: plan.planId, subscriber });
    const nearest = search.found.filter(({ state }) => canCharge(state) && state.planId === plan.planId);
    await adopt(context, ledger, facilitator, { asked: plan, search: { ...search, found: nearest }, origins });
    secret = {
      value: derivedSecret(root, plan.planId, search.nextN),
      kept: { from: "root", planId: plan.planId, n: search.nextN },
    };
  } else {
    const value = randomSecret();
    secret = { value, kept: { from: "ledger", value } };
  }
  // The chain takes a secret once: whatever becomes of the earlier signup, no second subscription is made.
  if (unknown) secret = { value: await secretOf(context, unknown), kept: unknown.secret };
  let suspended: SubscriptionState | undefined;
  for (const entry of ledger.subscriptions()) {
    if (entry.state !== "live" || entry.planId !== plan.planId || !sameAddress(entry.subscriber, subscriber)) continue;
    const state = await readState(facilitator.client, entry.id);
    if (!state || !canCharge(state)) continue;
    if (state.status !== "ACTIVE") {
      suspended ??= state;
      continue;
    }
    const merged = { ...entry, origins: [...new Set([...entry.origins, ...origins])] };
    await ledger.put(merged);
    return { existing: await viewOf(context, merged, state, { existing: true }), suspended: undefined, secret };
  }
  return { existing: undefined, suspended, secret };
}

/** A second one would be paid for beside the first, and both would renew once the first is active again. */
function suspendedError({ idHash, planId, status }: SubscriptionState): SubscriptionNotActive {
  const isPaused = status === "PAUSED";
  const why = isPaused
    ? `is paused. Call agent.resume("${idHash}") to use it`
    : "is past due. Add funds or call agent.topUp(), and it can renew";
  return new SubscriptionNotActive(
    `Subscription ${idHash} on this plan ${why}. Nothing was signed. Set another: true to buy a second one.`,
    { reason: isPaused ? "paused" : "past_due", details: { idHash, planId, status } },
  );
}
<<<<<<< HEAD
=======

async function signUp(context: AgentContext, job: SignupJob, secret: SignupSecret): Promise<Subscription> {
  const { ledger, facilitator, plan, cap, untilSec, origins, periods } = job;
  const subscriber = await context.signer.address();
  if (context.policy.requireUntil && untilSec === undefined) {
    throw new PolicyRefused("policy.requireUntil is set: name the subscription's end in `until`.", { reason: "until" });
  }
  if (plan.deprecated) {
    const details: Record<string, string> = { planId: plan.planId };
    if (plan.successor) details.successor = plan.successor;
    throw new PlanDeprecated(undefined, { details });
  }
  const { deployment, token } = plan;
  const facts: SpendFacts = {
    kind: "subscription",
    amount: plan.amount + cap,
    periodSec: plan.interval,
    chainId: plan.chainId,
    token,
    payTo: plan.payTo,
  };
  const verdict = context.policy.judge(facts, ledger);
  if (verdict.kind === "refuse") throw verdict.error;
  const entry: SubscriptionEntry = {
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
  const voucher = await voucherFor(job, subscriber, secretHashOf(secret.value));
  const firstCharge = voucher?.firstAmount ?? plan.amount;
  const firstAmount = chargedAtOnce(plan.amount, voucher);
  const { limits } = context.policy;
  await context.policy.require({ ...facts, firstAmount }, ledger, () =>
    ledger.requireBudget(spendOf(context, entry, firstAmount), limits),
  );
  const need = { ledger, facilitator, deployment, token, planned: entry, when: "whole" as const };
  return withApproval(context, need, async (approval) => {
    // The policy's question may have taken long.
    if (untilSec !== undefined) requireFuture(untilSec, approval.nowSec);
    if (approval.account.balance < firstCharge) {
      const { balance } = approval.account;
      const lacks = `The wallet ${subscriber} has ${balance} base units of ${token}, and the first period costs ${firstCharge}.`;
      throw new InsufficientFunds(lacks, {
        details: {
          wallet: subscriber,
          token,
          required: firstCharge.toString(),
          available: approval.account.balance.toString(),
        },
      });
    }
    const earlier = ledger.spend(spendIdOf(entry));
    const spend = await ledger.reserve(spendOf(context, entry, firstAmount), limits);
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

/** @throws PolicyRefused for a voucher that would cost more than the plan */
async function voucherFor(
  { plan, askVoucher }: SignupJob,
  subscriber: Address,
  secretHash: Hex,
): Promise<Voucher | undefined> {
  const { chainId, turnpike } = plan.deployment;
  const answer = await askVoucher?.({ chainId, turnpike, planId: plan.planId, subscriber, secretHash });
  if (answer === undefined) return undefined;
  const parsed = voucherSchema.safeParse(answer);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join(".") || "it";
    throw new InvalidRequest(`The voucher cannot be used: ${field} is missing or malformed.`);
  }
  const { firstAmount, firstInterval } = parsed.data;
  if (firstAmount > plan.amount) {
    throw new PolicyRefused("The voucher's first amount is above the plan's price.", { reason: "voucher" });
  }
  if (firstAmount === plan.amount && firstInterval === 0) {
    throw new PolicyRefused("The voucher offers what the plan has without it. Subscribe without it.", {
      reason: "voucher",
    });
  }
  return parsed.data;
}

/** What a signup may charge within a day: the price too, when a voucher's period is over by then. */
function chargedAtOnce(price: bigint, voucher: Voucher | undefined): bigint {
  if (!voucher) return price;
  const { firstAmount, firstInterval } = voucher;
  return firstInterval > 0 && firstInterval < DAY_SEC ? firstAmount + price : firstAmount;
}

const spendIdOf = ({ id }: SubscriptionEntry): string => `signup:${id}`;

const spendOf = (context: AgentContext, entry: SubscriptionEntry, amount: bigint): SpendEntry => ({
  type: "spend",
  id: spendIdOf(entry),
  state: "held",
  atSec: context.effects.clock.nowSec(),
  payTo: entry.payTo,
  amount: amount.toString(),
});

/** Returns to the budget what a signup that can never be made had reserved. */
async function release(ledger: AgentLedger, entry: SubscriptionEntry): Promise<void> {
  const spend = ledger.spend(spendIdOf(entry));
  if (spend) await ledger.put({ ...spend, state: "released" });
}

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

/** Posts a signup that the ledger holds, and returns its outcome. */
async function postSignup(
  context: AgentContext,
  job: SignupJob,
  entry: SubscriptionEntry,
  isRepeated: boolean,
): Promise<Subscription> {
  const { ledger, facilitator } = job;
  const { signup } = entry;
  if (!signup) throw new PaymentPending(undefined, { details: { idHash: entry.id } });
  emitOf(context, entry, "subscription.submitted");
  const { outcome } = await submit(context.effects, {
    idHash: entry.id,
    isRepeated,
    post: () => facilitator.client.subscribe(signup),
    onPending: () => emitOf(context, entry, "subscription.pending"),
  });
  const state = await readState(facilitator.client, entry.id).catch((error: unknown) => {
    // The refusal says more than a failed look-up behind it.
    throw isRefused(outcome) ? outcome.error : error;
  });
  if (state && !isVoided(state)) return created(context, ledger, entry, state);
  if (!isRefused(outcome)) {
    throw new PaymentPending("The signup was accepted, and is not readable yet. Repeat the call.", {
      details: { idHash: entry.id },
    });
  }
  const { code } = outcome.error;
  context.effects.emit({ type: "subscription.failed", act: "subscribe", ...namesOf(entry), code });
  throw await afterRefusal(context, ledger, { ...entry, signup }, outcome.error);
}

/**
 * Returns the refusal of a signup with how long the agent keeps it. Despite a refusal the signature is valid while its
 * terms hold: until then the next call posts the same one. The agent's own RPC ends it as soon as none can succeed.
 */
async function afterRefusal(
  context: AgentContext,
  ledger: AgentLedger,
  entry: SubscriptionEntry & { readonly signup: SubscribeRequestWire },
  refusal: TurnpikeError,
): Promise<TurnpikeError> {
  const usableUntilSec = lastUsableSec(entry.signup);
  const chain = context.chainOf(entry.chainId);
  const nowSec = await chain?.timeSec().catch(() => undefined);
  if (nowSec !== undefined && nowSec > usableUntilSec) {
    await giveUp(context, ledger, entry);
    return refusal;
  }
  const spend = ledger.spend(spendIdOf(entry));
  // Without an RPC of its own the agent cannot know that the Facilitator did not use what it refused.
  const heldUntilSec = chain || !spend ? usableUntilSec : spend.atSec + DAY_SEC;
  const { code, message, reason, retryAfterSec, details } = refusal;
  return new TurnpikeError(
    code,
    `${message.replace(/\.$/, "")}. What was signed can be used until ${isoOf(usableUntilSec)}: until then the next call posts the same, and agent.void() withdraws it. Its first charge stays in the budget until ${isoOf(heldUntilSec)}.`,
    {
      cause: refusal,
      details: { ...details, idHash: entry.id, usableUntilSec, heldUntilSec },
      ...(reason !== undefined && { reason }),
      ...(retryAfterSec !== undefined && { retryAfterSec }),
    },
  );
}

const namesOf = ({ id, planId }: SubscriptionEntry) => ({ idHash: id, planId });

function emitOf(
  context: AgentContext,
  entry: SubscriptionEntry,
  type: "subscription.signing" | "subscription.submitted" | "subscription.pending",
): void {
  context.effects.emit({ type, act: "subscribe", ...namesOf(entry) });
}

async function created(
  context: AgentContext,
  ledger: AgentLedger,
  { signup: _done, ...entry }: SubscriptionEntry,
  state: SubscriptionState,
): Promise<Subscription> {
  const live: SubscriptionEntry = { ...entry, state: "live", cap: state.allowance.cap.toString() };
  await ledger.put(live);
  await recordCharge(ledger, spendIdOf(live), live, state);
  context.recentChanges.mark(live.id, "status");
  context.effects.emit({ type: "subscription.created", idHash: live.id, planId: live.planId });
  return viewOf(context, live, state);
}

/**
 * Ends a signup that the contract can accept no more, by its own terms, where the agent's own RPC proves that it was
 * never used. Else its charge stays in the budget, and the entry in the ledger: the next signup reuses its secret, which
 * can make one subscription only.
 */
async function giveUp(
  context: AgentContext,
  ledger: AgentLedger,
  { signup: _void, ...entry }: SubscriptionEntry,
): Promise<undefined> {
  const isCreated = await context.chainOf(entry.chainId)?.isSubscribed(entry.turnpike, entry.id);
  if (isCreated) throw new Unavailable("The subscription is on chain, and its Facilitator does not show it yet.");
  if (isCreated === undefined) return undefined;
  await ledger.put({ ...entry, state: "ended" });
  await release(ledger, entry);
  return undefined;
}

/**
 * Withdraws a signup whose outcome is not known: its idHash is used up on chain, so that what was signed is worth
 * nothing. Finds out that it was too late, and returns the subscription then.
 * @returns undefined when no subscription was made, and none can be
 */
export async function voidSignup(context: AgentContext, ref: SubscriptionRef): Promise<Subscription | undefined> {
  const ledger = await context.ledger();
  const entry = entryOf(ledger, ref);
  if (entry.state !== "signup") {
    throw new TurnpikeError("IdHashUsed", "This subscription is not waiting for its signup. Call agent.cancel().");
  }
  const { client, account: accountOf } = requireFacilitator(context, entry.facilitator);
  const secretHash = secretHashOf(await secretOf(context, entry));
  const { subscriber, network, token, chainId } = entry;
  const { chainTimeSec } = await accountOf({ address: subscriber, token, chainId });
  const nowSec = await signingTimeSec(context, chainId, chainTimeSec);
  const deadline = BigInt(nowSec + context.policy.maxWindowSec);
  const signature = await context.signer.sign(voidTypedData(entry, { subscriber, secretHash, deadline }));
  const request = { network, subscriber, secretHash, deadline: deadline.toString(), signature };
  const { outcome } = await submit(context.effects, { idHash: entry.id, post: () => client.void(request) });
  if (isRefused(outcome) && outcome.error.code !== "IdHashUsed") throw outcome.error;
  const state = await readState(client, entry.id);
  if (!state) throw new PaymentPending(undefined, { details: { idHash: entry.id } });
  return isVoided(state) ? endVoided(context, ledger, entry) : created(context, ledger, entry, state);
}

/** Whether the record is what `void` leaves: it has no plan, and no signup can ever take its place. */
const isVoided = ({ planId }: { readonly planId: Hex }): boolean => planId === NO_PLAN;

/** Ends a signup that was voided. As in `giveUp`, only the agent's own RPC returns the charge to the budget. */
async function endVoided(
  context: AgentContext,
  ledger: AgentLedger,
  { signup: _void, ...entry }: SubscriptionEntry,
): Promise<undefined> {
  const proven = await context.chainOf(entry.chainId)?.subscription(entry.turnpike, entry.id);
  if (proven && !isVoided(proven)) {
    throw new Unavailable("The subscription is on chain, and its Facilitator says that its signup was voided.");
  }
  await ledger.put({ ...entry, state: "ended" });
  if (proven) await release(ledger, entry);
  return undefined;
}

/** Whether it is a signup on the plan whose outcome is not known. */
const isSignupOf = ({ state, planId, subscriber }: SubscriptionEntry, plan: VerifiedPlan, wallet: Address): boolean =>
  state === "signup" && planId === plan.planId && sameAddress(subscriber, wallet);

/** Finishes an earlier call's signup on this plan: found on chain, posted again, or ended. */
async function finishSignup(context: AgentContext, job: SignupJob): Promise<Subscription | undefined> {
  const { ledger, facilitator, plan } = job;
  const subscriber = await context.signer.address();
  for (const known of ledger.subscriptions()) {
    if (!isSignupOf(known, plan, subscriber)) continue;
    const entry = { ...known, origins: [...new Set([...known.origins, ...job.origins])] };
    const state = await readState(facilitator.client, entry.id);
    if (state && isVoided(state)) {
      await endVoided(context, ledger, entry);
      continue;
    }
    if (state) return created(context, ledger, entry, state);
    const { deployment, token } = plan;
    const need = { ledger, facilitator, deployment, token, planned: entry, when: "whole" as const };
    const finished = await withApproval(context, need, async ({ nowSec, permit }) => {
      if (!entry.signup) return undefined;
      if (nowSec > lastUsableSec(entry.signup)) return giveUp(context, ledger, entry);
      try {
        return await postSignup(context, job, entry, true);
      } catch (error) {
        if (!permit || !PERMIT_TROUBLE.has((error as TurnpikeError).code)) throw error;
        const renewed = { ...entry, signup: { ...entry.signup, permit } };
        await ledger.put(renewed);
        return postSignup(context, job, renewed, true);
      }
    });
    if (finished) return finished;
  }
  return undefined;
}
>>>>>>> main
