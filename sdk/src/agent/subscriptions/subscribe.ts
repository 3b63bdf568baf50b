/**
 * Signs up for a plan, or returns the subscription that the wallet has on it. A signup whose outcome is unknown is
 * finished first, and a new one is signed over the same secret only.
 */
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import { isTurnpikeError, SubscriptionNotActive, sameAddress, TurnpikeError } from "../../protocol";
import { requireKnownFields } from "../../protocol/arguments";
import type { AgentContext } from "../core/context";
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
