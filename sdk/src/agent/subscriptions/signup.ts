/**
 * Follows a signup that the ledger holds: posts it, reads what became of it, and ends one that was never made. A signup
 * whose outcome is unknown stays in the ledger, and is posted again until its deadline.
 */
import type { SubscribeRequestWire, Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import {
  type Address,
  type Hex,
  NO_PLAN,
  PaymentPending,
  sameAddress,
  secretHashOf,
  TurnpikeError,
  Unavailable,
  voidTypedData,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import type { AgentContext } from "../core/context";
import { type Facilitator, isRefused, submit } from "../core/facilitators";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { recordCharge } from "./charges";
import { isoOf, lastUsableSec } from "./ends";
import type { SubscribeOptions } from "./offers";
import { withApproval } from "./permits";
import {
  entryOf,
  readState,
  requireFacilitator,
  type Subscription,
  type SubscriptionRef,
  secretOf,
  signingTimeSec,
  type VerifiedPlan,
  viewOf,
} from "./subscription";

/** Errors that a new permit resolves: its nonce was used meanwhile, or its deadline has passed. */
export const PERMIT_TROUBLE: ReadonlySet<string> = new Set(["InsufficientApproval", "PermitTooLow"]);

export interface SignupJob {
  readonly ledger: AgentLedger;
  readonly facilitator: Facilitator;
  readonly plan: VerifiedPlan;
  readonly cap: bigint;
  /** unix seconds; undefined: no end */
  readonly untilSec: number | undefined;
  readonly askVoucher: SubscribeOptions["voucher"];
  readonly origins: readonly string[];
  readonly periods: number;
}

export const spendIdOf = ({ id }: SubscriptionEntry): string => `signup:${id}`;

/** Returns to the budget what a signup that can never be made had reserved. */
async function release(ledger: AgentLedger, entry: SubscriptionEntry): Promise<void> {
  const spend = ledger.spend(spendIdOf(entry));
  if (spend) await ledger.put({ ...spend, state: "released" });
}

/** Posts a signup that the ledger holds, and returns its outcome. */
export async function postSignup(
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

export function emitOf(
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
  const chain = context.chainOf(entry.chainId);
  if (!chain) return undefined;
  if (await chain.subscription(entry.turnpike, entry.id))
    throw new Unavailable("The subscription is on chain, and its Facilitator does not show it yet.");
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
export const isSignupOf = (
  { state, planId, subscriber }: SubscriptionEntry,
  plan: VerifiedPlan,
  wallet: Address,
): boolean => state === "signup" && planId === plan.planId && sameAddress(subscriber, wallet);

/** Finishes an earlier call's signup on this plan: found on chain, posted again, or ended. */
export async function finishSignup(context: AgentContext, job: SignupJob): Promise<Subscription | undefined> {
  const { ledger, facilitator, plan } = job;
  const subscriber = await context.signer.address();
  for (const known of ledger.subscriptions()) {
    if (!isSignupOf(known, plan, subscriber)) continue;
    await ledger.requireSaved(known);
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
