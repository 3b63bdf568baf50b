/** Builds a subscription's view from the ledger, the wallet and the chain, and verifies its plan. */
import type { RecordOnChain } from "../../chain/records";
import type { PayerClient } from "../../facilitator/payer-client";
import type { NextTermsWire, Plan, Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import {
  type Address,
  ConfigError,
  type Hex,
  idHashOf,
  isHash32,
  isTurnpikeError,
  lengthOf,
  networkOfChain,
  PlanDeprecated,
  PolicyRefused,
  parseSubscriptionId,
  planIdOf,
  type SignedTerms,
  type SubscriptionStatus,
  sameAddress,
  secretHashOf,
  shownTerms,
  subscriptionId,
  type TurnpikeDeployment,
  TurnpikeError,
} from "../../protocol";
import { aText } from "../../protocol/arguments";
import { windowTimeSec } from "../../protocol/periods";
import type { AgentContext } from "../core/context";
import { type Facilitator, plausibleTimeSec } from "../core/facilitators";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { derivedSecret } from "../signing/wallet";

/** One subscription as the chain has it; amounts in base units, times in unix seconds. */
export interface Subscription {
  /** The credential itself, sent as `X-Service-Sub`. Anyone who has it is served: keep it out of logs. */
  readonly id: Hex;
  /** its public name */
  readonly idHash: Hex;
  readonly planId: Hex;
  readonly network: string;
  readonly chainId: number;
  readonly turnpike: Address;
  readonly subscriber: Address;
  readonly provider: Address;
  readonly token: Address;
  readonly payTo: Address;
  /** price of one period, base units */
  readonly amount: bigint;
  /** seconds; with `months` a nominal length, 30 days for each month */
  readonly intervalSec: number;
  /** calendar months in one period; 0: `intervalSec` counts */
  readonly months: number;
  readonly graceSec: number;
  /** cap of metered overage per cycle, base units; 0: none */
  readonly maxOverage: bigint;
  /** what may still be debited in this cycle */
  readonly remaining: bigint;
  readonly status: SubscriptionStatus;
  /** unix seconds, exclusive */
  readonly paidThroughSec: number;
  readonly version: number;
  /** cancelled at the period's end */
  readonly ending: boolean;
  /** unix seconds, from when on nothing is charged but debits of the paid period; undefined: no end is set */
  readonly untilSec: number | undefined;
  /** the plan of the next charged period; undefined: the same */
  readonly nextPlanId: Hex | undefined;
  /** the only origins that `agent.fetch` sends the id to */
  readonly origins: readonly string[];
  /**
   * `derived`: found again from the wallet alone. `random`: lost with the ledger, since the wallet's signatures differ.
   */
  readonly secrets: "derived" | "random";
  /** whether `subscribe` found it rather than made it */
  readonly existing: boolean;
}

/** A subscription, its id, or its idHash. */
export type SubscriptionRef = Hex | { readonly idHash: Hex };

/** @throws TurnpikeError UnknownSubscription when the ledger does not hold it */
export function entryOf(ledger: AgentLedger, ref: SubscriptionRef): SubscriptionEntry {
  const text = typeof ref === "string" ? ref : ref?.idHash;
  const idHash = isHash32(text) ? (text.toLowerCase() as Hex) : parseSubscriptionId(text)?.idHash;
  let entry = idHash && ledger.subscription(idHash);
  // A reference from before a rekey resolves to the current record.
  while (entry?.rekeyedTo) entry = ledger.subscription(entry.rekeyedTo);
  if (entry) return entry;
  throw new TurnpikeError("UnknownSubscription", "This agent's ledger holds no such subscription; recover it first.");
}

export async function secretOf(context: AgentContext, entry: SubscriptionEntry): Promise<Hex> {
  if (entry.secret.from === "ledger") return entry.secret.value;
  const root = await context.roots.ofSubscriptions(entry);
  if (root) return derivedSecret(root, entry.secret.planId, entry.secret.n);
  throw new PolicyRefused("The wallet no longer makes the signature that this subscription's secret comes from.", {
    reason: "wallet",
  });
}

export function idHashOfSecret(subscriber: Address, secret: Hex): Hex {
  return idHashOf(subscriber, secretHashOf(secret));
}

export async function viewOf(
  context: AgentContext,
  entry: SubscriptionEntry,
  state: SubscriptionOnChain,
  { existing = false } = {},
): Promise<Subscription> {
  const view: Subscription = {
    id: subscriptionId(entry.subscriber, await secretOf(context, entry)),
    idHash: entry.id,
    planId: entry.planId,
    network: networkOfChain(entry.chainId, context.networks).name,
    chainId: entry.chainId,
    turnpike: entry.turnpike,
    subscriber: entry.subscriber,
    provider: entry.provider,
    token: entry.token,
    payTo: entry.payTo,
    amount: BigInt(entry.amount),
    intervalSec: entry.intervalSec,
    months: entry.months,
    graceSec: entry.graceSec,
    maxOverage: state.allowance.cap,
    remaining: state.allowance.remaining,
    status: state.status,
    paidThroughSec: state.paidThrough,
    version: state.version,
    ending: state.ending,
    untilSec: state.until,
    nextPlanId: state.nextPlanId,
    origins: entry.origins,
    secrets: entry.secret.from === "root" ? "derived" : "random",
    existing,
  };
  // Printing the object shows no credential; `id` itself stays readable.
  return Object.defineProperty(view, Symbol.for("nodejs.util.inspect.custom"), {
    value: () => ({ ...view, id: "[secret]" }),
  });
}

/**
 * Returns the time to sign by, unix seconds: of the caller's clock, else of the agent's own RPC, else what the
 * Facilitator reports, where that can be true.
 */
export async function signingTimeSec(context: AgentContext, chainId: number, reportedSec: number): Promise<number> {
  const { chainClock, networks } = context;
  if (chainClock) return chainClock.nowSec();
  const chainSec = (await context.chainOf(chainId)?.timeSec()) ?? plausibleTimeSec(reportedSec, chainId, networks);
  return windowTimeSec(chainSec, networkOfChain(chainId, networks).name);
}

/** @returns undefined when the chain knows no such subscription */
export async function readState(client: PayerClient, idHash: Hex): Promise<SubscriptionState | undefined> {
  const found = await client.subscription(idHash);
  if (found.kind === "found") return found.value.status === "NONE" ? undefined : found.value;
  if (found.error.code === "UnknownSubscription") return undefined;
  throw found.error;
}

/** What the contract says of one subscription: the part of a Facilitator's answer that needs no index. */
export type SubscriptionOnChain = Pick<
  SubscriptionState,
  "planId" | "status" | "paidThrough" | "version" | "ending" | "until" | "nextPlanId" | "allowance"
>;

function stateOf(record: RecordOnChain): SubscriptionOnChain {
  const { planId, status, paidThroughSec: paidThrough, version, ending, untilSec, nextPlanId, allowance } = record;
  const optional = { ...(untilSec > 0 && { until: untilSec }), ...(nextPlanId && { nextPlanId }) };
  return { planId, status, paidThrough, version, ending, allowance, ...optional };
}

/**
 * Returns one of the ledger's subscriptions as the chain has it: by the agent's own RPC where it has one, which needs
 * no Facilitator; else, or when the RPC cannot be reached, by the Facilitator.
 * @returns undefined when the chain knows no such subscription, or there is neither RPC nor Facilitator
 */
export async function stateOnChain(
  context: AgentContext,
  { id, chainId, turnpike, facilitator: url }: SubscriptionEntry,
): Promise<SubscriptionOnChain | undefined> {
  const facilitator = context.facilitators.find(url);
  try {
    const chain = context.chainOf(chainId);
    const record = await chain?.subscription(turnpike, id);
    if (chain) return record && stateOf(record);
  } catch (error) {
    if (!facilitator || !isTurnpikeError(error) || error.code !== "Unavailable") throw error;
  }
  return facilitator && readState(facilitator.client, id);
}

/** @throws PolicyRefused for a Facilitator that is not of this agent's configuration */
export function requireFacilitator(context: AgentContext, url: string | undefined): Facilitator {
  if (url !== undefined) aText(url, "facilitator");
  const facilitator = context.facilitators.find(url);
  if (facilitator) return facilitator;
  throw new PolicyRefused(`The Facilitator ${url ?? "that is meant"} is not in the agent's \`facilitators\`.`, {
    reason: "facilitator",
  });
}

export interface VerifiedPlan extends Plan {
  readonly deployment: TurnpikeDeployment;
}

/** Names the plan that new subscriptions should take instead, where there is one. */
export function deprecatedPlan({ planId, successor }: VerifiedPlan): PlanDeprecated {
  return new PlanDeprecated(undefined, { details: { planId, ...(successor && { successor }) } });
}

/**
 * Reads a plan's terms and proves them by the plan's id, on a deployment of the agent's own configuration.
 * @throws PolicyRefused when terms or contract are not what they should be; UnknownPlan
 */
export async function verifiedPlan(
  context: AgentContext,
  facilitator: Facilitator,
  planId: Hex,
): Promise<VerifiedPlan> {
  const found = await facilitator.client.plan(planId);
  if (found.kind === "refused") throw found.error;
  const plan = found.value;
  const { firstProvider, token, amount, interval, period, grace, firstPayTo, salt, metadata, chainId } = plan;
  const deployment = context.deploymentOf(chainId);
  if (!deployment) {
    const message = `no deployment is known on chain ${chainId}: name it in the agent's deployments`;
    throw new ConfigError(message, { reason: "no_deployment", details: { chainId } });
  }
  if (!sameAddress(deployment.turnpike, plan.turnpike)) {
    throw new PolicyRefused("The Facilitator works with another contract than this agent.", { reason: "turnpike" });
  }
  const length = lengthOf(period);
  const proven = planIdOf({
    chainId,
    turnpike: deployment.turnpike,
    token,
    amount,
    ...length,
    graceSec: grace,
    salt,
    metadata,
    provider: firstProvider,
    payTo: firstPayTo,
  });
  if (proven !== planId.toLowerCase() || length.intervalSec !== interval) {
    throw new PolicyRefused("The plan's terms do not belong to its id.", { reason: "plan_terms" });
  }
  return { ...plan, deployment };
}

/** The terms of a plan as an entry carries them. */
export function termsOf(plan: VerifiedPlan) {
  return {
    planId: plan.planId,
    provider: plan.provider,
    token: plan.token,
    payTo: plan.payTo,
    amount: plan.amount.toString(),
    ...lengthOf(plan.period),
    graceSec: plan.grace,
  } as const;
}

/** Brings an entry to the plan that the chain has it on: a scheduled change is made without the agent. */
export async function onPresentPlan(
  context: AgentContext,
  ledger: AgentLedger,
  entry: SubscriptionEntry,
  planId: Hex,
): Promise<SubscriptionEntry> {
  if (planId.toLowerCase() === entry.planId.toLowerCase()) return entry;
  const plan = await verifiedPlan(context, requireFacilitator(context, entry.facilitator), planId);
  const moved: SubscriptionEntry = { ...entry, ...termsOf(plan) };
  await ledger.put(moved);
  return moved;
}

/** What a `SetNext` to the plan signs and carries. */
export function nextTermsOf(plan: VerifiedPlan): { signed: { terms: SignedTerms }; shown: NextTermsWire } {
  const terms = signedTermsOf(plan);
  const { amount, interval, ...shown } = shownTerms(terms);
  return { signed: { terms }, shown: { ...shown, amount: amount.toString(), interval: Number(interval) } };
}

/** The terms of a plan as they are signed: the contract refuses a signature over any others. */
export function signedTermsOf({ token, payTo, amount, period }: VerifiedPlan): SignedTerms {
  return { token, payTo, amount, ...lengthOf(period) };
}
