/** Judges whether an `X-Service-Sub` grants this request. Reads the chain only where no record is cached. */
import type { AllowanceFacts } from "../../../chain/debit-sender";
import type { Plan } from "../../../chain/plans";
import type { SubscriptionState } from "../../../chain/states";
import {
  ConfigError,
  formatAmount,
  type Hex,
  isTurnpikeError,
  type ParsedSubscriptionId,
  parseSubscriptionId,
  periodText,
  statusAt,
  Unavailable,
} from "../../../protocol";
import { BoundedMap } from "../../../protocol/bounded-map";
import type { GateContext } from "../../core/context";
import type { MeteredRoute, Refusal } from "../../core/payment";
import { requireCollectable } from "../../core/readiness";
import { requireLoaded } from "../../core/terms";
import type { MeterPort } from "../../metering/meter";
import { heldByOthers } from "../../metering/store";
import { factsOf, SubscriberPayment, type SubscriptionVerdict } from "./payment";

const CAPACITY_WAIT_MS = 10_000;

const CAPACITY_POLL_MS = 50;

export async function judgeSubscription(
  context: GateContext,
  route: MeteredRoute,
  id: string,
): Promise<SubscriptionVerdict> {
  const parsed = parseRemembered(id);
  if (!parsed) return inactive("malformed", "X-Service-Sub is no subscription id: 0x and 104 hex digits.");
  if (route.planIds.length === 0) return inactive("not_offered", "This resource is not part of any subscription.");
  return judgeIdHash(context, route, parsed.idHash);
}

/** Judges a subscription by its idHash, for an owner who is proven by other means. */
export async function judgeIdHash(
  context: GateContext,
  route: MeteredRoute,
  idHash: Hex,
): Promise<SubscriptionVerdict> {
  try {
    if (!context.states)
      throw new ConfigError("rpcUrl is not set (TURNPIKE_RPC_URL): subscriptions are read from the chain");
    const state = context.states.peek(idHash) ?? (await context.states.read(idHash));
    const verdict = await judgeState(context, route, state);
    if (verdict.kind !== "refused") return verdict;
    // A record that is one block old would refuse a subscriber who has just signed up, resumed or raised the cap.
    const newest = await context.states.recheck(idHash);
    return newest === state ? verdict : await judgeState(context, route, newest);
  } catch (error) {
    if (isTurnpikeError(error) && error.status === 503) return { kind: "unavailable", cause: error };
    throw error;
  }
}

/**
 * Grants from cached records alone, as for most requests, without waiting.
 * @returns undefined where `judgeSubscription` must decide, and gives the reason for a refusal
 */
export function grantFromCache(context: GateContext, route: MeteredRoute, id: string): SubscriberPayment | undefined {
  const idHash = parsedIds.get(id)?.idHash;
  const state = idHash && context.states?.peek(idHash);
  return state && grantFrom(context, route, state);
}

function grantFrom(context: GateContext, route: MeteredRoute, state: SubscriptionState): SubscriberPayment | undefined {
  if (!state.known || !route.planIds.includes(state.planId)) return undefined;
  const plan = context.terms.plan(state.planId);
  if (!plan || statusOf(state, plan, context) !== "ACTIVE") return undefined;
  if (route.metered && !isMeterOpenTo(context, state)) return undefined;
  return new SubscriberPayment(context, route, state, plan);
}

const statusOf = (state: SubscriptionState, { intervalSec, months, graceSec }: Plan, { time }: GateContext) => {
  const { known, cancelled, paused, ending, paidThroughSec, anchorDay, untilSec } = state;
  const record = {
    known,
    cancelled,
    paused,
    ending,
    paidThroughSec,
    anchorDay,
    untilSec,
    intervalSec,
    months,
    graceSec,
  };
  return statusAt(record, time.nowSec());
};

function isMeterOpenTo(context: GateContext, state: SubscriptionState): boolean {
  const { meter } = context;
  const { idHash, planId } = state;
  if (!meter?.canCollect(planId) || !context.isMeterOpen()) return false;
  if (meter.isBlocked(idHash) || meter.isSaturated(idHash)) return false;
  return meter.remaining(idHash, factsOf(state)) > 0n;
}

async function judgeState(
  context: GateContext,
  route: MeteredRoute,
  state: SubscriptionState,
): Promise<SubscriptionVerdict> {
  if (!state.known)
    return inactive("unknown", "This subscription is not known on this chain; subscribe to a plan in `plans`.");
  if (!route.planIds.includes(state.planId)) {
    return inactive("other_plan", "This subscription is to a plan that does not cover this resource; see `plans`.");
  }
  let plan = context.terms.plan(state.planId);
  if (!plan) {
    await context.terms.load([state.planId], false);
    plan = requireLoaded(context.terms.plan(state.planId), "The plan's terms");
  }
  const status = statusOf(state, plan, context);
  if (status !== "ACTIVE") return inactive(status.toLowerCase(), REMEDIES[status]);
  const facts = factsOf(state);
  if (route.metered) {
    await requireCollectable(context, state.planId);
    await context.meterStarted();
    const refused = await refusalOfMeter(context, state, plan, facts);
    if (refused) return refused;
  }
  return { kind: "grants", payment: new SubscriberPayment(context, route, state, plan) };
}

const REMEDIES = {
  NONE: "Subscribe to a plan in `plans`.",
  PAST_DUE: "The last renewal could not be collected: fund the wallet or renew the token approval, then renew.",
  EXPIRED: "The subscription has lapsed: resume it, or subscribe again.",
  PAUSED: "The subscription is paused: resume it.",
  CANCELLED: "The subscription was cancelled: subscribe again.",
} as const;

async function refusalOfMeter(
  { meter }: GateContext,
  { idHash }: SubscriptionState,
  plan: Plan,
  facts: AllowanceFacts,
): Promise<SubscriptionVerdict | undefined> {
  if (!meter) return undefined;
  if (meter.isBlocked(idHash)) {
    meter.retryBlocked(idHash);
    const message = "An overage debit failed: add funds to the wallet or renew the token approval, then retry.";
    return { kind: "refused", refusal: { code: "InsufficientFunds", message } };
  }
  if (meter.remaining(idHash, facts) <= 0n && meter.isHeld(idHash))
    return { kind: "unavailable", cause: heldByOthers() };
  if (meter.remaining(idHash, facts) <= 0n) return { kind: "refused", refusal: exhausted(plan, facts) };
  if (meter.isSaturated(idHash) && !(await hasCapacitySoon(meter, idHash))) {
    const cause = new Unavailable("Earlier usage of this subscription is still being settled.", { retryAfterSec: 5 });
    return { kind: "unavailable", cause };
  }
  return undefined;
}

/** Waits for a fast caller's own debits rather than refuse it: they are final within a few blocks. */
async function hasCapacitySoon(meter: MeterPort, idHash: Hex): Promise<boolean> {
  // A flush that does not end shows in isSaturated, which is checked below.
  meter.flush().catch(() => undefined);
  for (let waitedMs = 0; waitedMs < CAPACITY_WAIT_MS; waitedMs += CAPACITY_POLL_MS) {
    if (!meter.isSaturated(idHash)) return true;
    await new Promise((resolve) => setTimeout(resolve, CAPACITY_POLL_MS));
  }
  return !meter.isSaturated(idHash);
}

export function exhausted(plan: Plan, { cap, paidThroughSec }: AllowanceFacts): Refusal {
  const resets = new Date(paidThroughSec * 1_000).toISOString();
  const message =
    cap === 0n
      ? "This subscription has no allowance for overage: raise its cap (maxOverage) above 0."
      : `The overage cap of ${formatAmount(cap)} is spent: raise it (each further unit costs what it is used for), wait for the renewal (period ends ${resets}), or move to a larger plan in \`plans\`. This plan costs ${formatAmount(plan.amount)} per ${periodText(plan)}.`;
  return { code: "AllowanceExhausted", message };
}

function inactive(reason: string, message: string): SubscriptionVerdict {
  return { kind: "refused", refusal: { code: "SubscriptionNotActive", reason, message } };
}

// Two hashes per look-up are most of a subscriber's request's cost, and the same few ids recur.
const parsedIds = new BoundedMap<string, ParsedSubscriptionId>(10_000);

function parseRemembered(id: string): ParsedSubscriptionId | undefined {
  const known = parsedIds.get(id);
  if (known) return known;
  const parsed = parseSubscriptionId(id);
  if (!parsed) return undefined;
  parsedIds.set(id, parsed);
  return parsed;
}
