/**
 * Signs token approvals for Turnpike, by EIP-2612. A permit *sets* the approval, so each covers all of the wallet's
 * subscriptions on that token, for a bounded number of periods; permits of one wallet are signed one after the other.
 * The spender is the agent's own deployment, whatever a peer says.
 */
import type { Account, PermitRequestWire } from "../../facilitator/subscriptions";
import {
  type Address,
  type Hex,
  isTurnpikeError,
  PolicyRefused,
  permitTypedData,
  sameAddress,
  type TurnpikeDeployment,
  TurnpikeError,
} from "../../protocol";
import { requireKnownFields } from "../../protocol/arguments";
import type { AgentContext } from "../core/context";
import { type Facilitator, isRefused, submit } from "../core/facilitators";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { tokenDomain } from "../payments/methods/token-domain";
import { onPresentPlan, requireFacilitator, signingTimeSec, stateOnChain } from "./subscription";

export const DEFAULT_PERIODS = 12;

const MAX_PERIODS = 120;

/** An approval that covers fewer periods than this is topped up. */
const LOW_PERIODS = 2;

export type SignedPermit = Pick<PermitRequestWire, "value" | "deadline" | "signature">;

export interface ApprovalNeed {
  readonly ledger: AgentLedger;
  readonly facilitator: Facilitator;
  readonly deployment: TurnpikeDeployment;
  readonly token: Address;
  /** a new subscription, or a changed one in place of the ledger's */
  readonly planned?: Pick<SubscriptionEntry, "id" | "amount" | "cap" | "periods">;
  /** `whole`: for all periods. `low`: only when it covers less than two; then it is raised to all periods. */
  readonly when: "whole" | "low";
}

export interface ApprovalFacts {
  readonly account: Account;
  readonly nowSec: number;
  /** undefined when the approval suffices */
  readonly permit: SignedPermit | undefined;
}

/**
 * Signs a permit where one is needed and runs `work` with it, one at a time per wallet and token: the next permit's
 * nonce is known only when this one has been used.
 */
export async function withApproval<T>(
  context: AgentContext,
  need: ApprovalNeed,
  work: (facts: ApprovalFacts) => Promise<T>,
): Promise<T> {
  const owner = await context.signer.address();
  const { ledger, facilitator, deployment, token } = need;
  const queue = `permit:${deployment.chainId}:${token.toLowerCase()}:${owner.toLowerCase()}`;
  return ledger.serialize(queue, async () => {
    const account = await facilitator.account({ address: owner, token, chainId: deployment.chainId });
    const nowSec = await signingTimeSec(context, deployment.chainId, account.chainTimeSec);
    return work({ account, nowSec, permit: await permitFor(context, need, { owner, account, nowSec }) });
  });
}

async function permitFor(
  context: AgentContext,
  need: ApprovalNeed,
  { owner, account, nowSec }: { readonly owner: Address; readonly account: Account; readonly nowSec: number },
): Promise<SignedPermit | undefined> {
  const { deployment, token } = need;
  const shares = await sharesOf(context, need, owner);
  const sum = (periodsOf: (periods: number) => number) =>
    shares.reduce((total, { amount, cap, periods }) => total + (amount + cap) * BigInt(periodsOf(periods)), 0n);
  const value = sum((periods) => periods);
  const chain = context.chainOf(deployment.chainId);
  const approval = (await chain?.approval(token, owner, deployment.turnpike)) ?? account.approval;
  const floor = need.when === "whole" ? value : sum((periods) => Math.min(periods, LOW_PERIODS));
  if (approval >= floor || value <= approval) return undefined;

  const nonce = (await chain?.permitNonce(token, owner)) ?? account.permitNonce;
  if (nonce === undefined) throw noPermit("the token has no permits", value, approval);
  const reported = { name: account.tokenName, version: account.tokenVersion };
  const domain = await tokenDomain(context, { chainId: deployment.chainId, token, reported });
  const deadline = BigInt(nowSec + context.policy.maxWindowSec);
  const message = { owner, spender: deployment.turnpike, value, nonce, deadline };
  context.effects.emit({ type: "approval.signing", token, value });
  const signature = await context.signer.sign(permitTypedData(domain, message));
  context.effects.emit({ type: "approval.raised", token, value });
  return { value: value.toString(), deadline: deadline.toString(), signature };
}

const noPermit = (why: string, required: bigint, available: bigint) =>
  new TurnpikeError(
    "InsufficientApproval",
    `The token approval for Turnpike is too small, and ${why}: approve it directly.`,
    {
      details: { required: required.toString(), available: available.toString() },
    },
  );

interface Share {
  readonly amount: bigint;
  readonly cap: bigint;
  readonly periods: number;
}

/** Returns what each live subscription of this wallet on this token may charge per period. */
async function sharesOf(context: AgentContext, need: ApprovalNeed, owner: Address): Promise<readonly Share[]> {
  const { ledger, token, deployment, planned } = need;
  const others = ledger.subscriptions().filter(
    (entry) =>
      // A rekey under way is the old record by another name: it counts once.
      (entry.state === "live" || entry.signup !== undefined) &&
      entry.id !== planned?.id &&
      entry.chainId === deployment.chainId &&
      sameAddress(entry.turnpike, deployment.turnpike) &&
      sameAddress(entry.token, token) &&
      sameAddress(entry.subscriber, owner),
  );
  const current = await Promise.all(others.map((entry) => refreshed(context, ledger, entry)));
  return [...current.filter((entry) => entry.state !== "ended"), ...(planned ? [planned] : [])].map((entry) => ({
    amount: BigInt(entry.amount),
    cap: BigInt(entry.cap),
    periods: requirePeriods(entry.periods),
  }));
}

export function requirePeriods(periods: number): number {
  if (Number.isSafeInteger(periods) && periods >= 1 && periods <= MAX_PERIODS) return periods;
  throw new PolicyRefused(`periods must be a whole number from 1 to ${MAX_PERIODS}: no approval is unlimited.`, {
    reason: "periods",
  });
}

/** Updates an entry from the chain. One that cannot be read stays as it is: it may be live. */
export async function refreshed(
  context: AgentContext,
  ledger: AgentLedger,
  entry: SubscriptionEntry,
): Promise<SubscriptionEntry> {
  try {
    const state = await stateOnChain(context, entry);
    if (!state) return entry;
    const ended = state.status === "CANCELLED";
    const cap = state.allowance.cap.toString();
    const present = await onPresentPlan(context, ledger, entry, state.planId);
    if (!ended && cap === present.cap && present.state === "live") return present;
    const { signup: _done, ...kept } = present;
    const next: SubscriptionEntry = { ...kept, cap, state: ended ? "ended" : "live" };
    await ledger.put(next);
    return next;
  } catch (error) {
    if (isTurnpikeError(error)) return entry;
    throw error;
  }
}

/** A token approval after `topUp`; base units. */
export interface TopUp {
  readonly token: Address;
  readonly chainId: number;
  /** what Turnpike may collect in all, base units */
  readonly approval: bigint;
  /** of the permit's transaction; undefined when nothing was needed, or the permit was already submitted */
  readonly transaction: Hex | undefined;
}

/** How far approvals are raised. */
export interface TopUpOptions {
  /** how many periods the approval should cover from now on; default: what each was subscribed with */
  readonly periods?: number;
  /** raise it to the whole even where it is not low; default false */
  readonly whole?: boolean;
}

/** Raises the token approvals that have become low, by permits that the Facilitator relays. */
export async function topUp(context: AgentContext, options: TopUpOptions = {}): Promise<TopUp[]> {
  requireKnownFields(options, ["periods", "whole"] satisfies (keyof TopUpOptions)[]);
  const ledger = await context.ledger();
  if (options.periods !== undefined) {
    const periods = requirePeriods(options.periods);
    for (const entry of ledger.subscriptions()) if (entry.state === "live") await ledger.put({ ...entry, periods });
  }
  const owner = await context.signer.address();
  const groups = new Map<string, SubscriptionEntry>();
  for (const entry of ledger.subscriptions()) {
    if (entry.state === "live" && entry.subscriber === owner) groups.set(`${entry.chainId}:${entry.token}`, entry);
  }
  const topUps: TopUp[] = [];
  for (const entry of groups.values()) {
    const { token, chainId } = entry;
    const facilitator = requireFacilitator(context, entry.facilitator);
    const need = { ledger, facilitator, deployment: entry, token, when: options.whole ? "whole" : "low" } as const;
    const done = await withApproval(context, need, async ({ account, permit }) => {
      if (!permit) return { token, chainId, approval: account.approval, transaction: undefined };
      const request = { network: entry.network, token, owner, ...permit };
      const { outcome } = await submit(context.effects, {
        idHash: undefined,
        post: () => facilitator.client.permit(request),
      });
      if (isRefused(outcome)) throw outcome.error;
      const { approval, transaction } = outcome.permit;
      context.effects.emit({ type: "approval.topped_up", token, value: approval, transaction });
      return { token, chainId, approval, transaction };
    });
    topUps.push(done);
  }
  return topUps;
}
