/** Recovers a wallet's subscriptions from its signatures and the chain alone, and lists those of the ledger. */
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import { type Address, type Hex, isTurnpikeError, sameAddress } from "../../protocol";
import { anObject } from "../../protocol/arguments";
import type { AgentContext } from "../core/context";
import type { Facilitator } from "../core/facilitators";
import { originOf } from "../core/request";
import type { AgentLedger } from "../ledger/ledger";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { derivedSecret } from "../signing/wallet";
import { DEFAULT_PERIODS } from "./permits";
import {
  entryOf,
  idHashOfSecret,
  onPresentPlan,
  readState,
  requireFacilitator,
  type Subscription,
  type SubscriptionRef,
  stateOnChain,
  termsOf,
  type VerifiedPlan,
  verifiedPlan,
  viewOf,
} from "./subscription";

/**
 * Lists the ledger's subscriptions that have not ended, by the chain's current state. With an RPC it needs no
 * Facilitator.
 */
export async function list(context: AgentContext): Promise<Subscription[]> {
  const ledger = await context.ledger();
  const views: Subscription[] = [];
  for (const entry of ledger.subscriptions()) {
    if (entry.state === "ended") continue;
    const state = await stateOnChain(context, entry);
    if (!state) continue;
    const { signup: _done, ...kept } = entry;
    const now: SubscriptionEntry = {
      ...kept,
      state: state.status === "CANCELLED" ? "ended" : "live",
      cap: state.allowance.cap.toString(),
    };
    if (now.state !== entry.state || now.cap !== entry.cap) await ledger.put(now);
    // Without a Facilitator the new plan cannot be proven: the entry keeps the terms that it knows.
    const present = await onPresentPlan(context, ledger, now, state.planId).catch((error: unknown) => {
      if (isTurnpikeError(error)) return now;
      throw error;
    });
    views.push(await viewOf(context, present, state));
  }
  return views;
}

export async function addOrigins(
  context: AgentContext,
  ref: SubscriptionRef,
  origins: readonly string[],
): Promise<readonly string[]> {
  const ledger = await context.ledger();
  const entry = entryOf(ledger, ref);
  const merged = { ...entry, origins: [...new Set([...entry.origins, ...originsOf(origins)])] };
  await ledger.put(merged);
  return merged.origins;
}

/** Which subscriptions to look for. */
export interface RecoverOptions {
  /** the plan that was signed up for; a later plan change does not matter */
  readonly planId: Hex;
  /** where `agent.fetch` may use what is found; none: nowhere, until the caller names them */
  readonly origins?: readonly string[];
  readonly facilitator?: string;
}

/** Recovery ends after this many numbers in a row that the chain never saw. Tombstones count as seen. */
const UNKNOWN_IN_A_ROW = 5;

const MAX_NUMBER = 10_000;

export interface DerivedSearch {
  readonly found: readonly { readonly n: number; readonly idHash: Hex; readonly state: SubscriptionState }[];
  /** the lowest number after everything that was ever used */
  readonly nextN: number;
}

export async function searchDerived(
  ledger: AgentLedger,
  facilitator: Facilitator,
  { root, planId, subscriber }: { readonly root: Hex; readonly planId: Hex; readonly subscriber: Address },
): Promise<DerivedSearch> {
  const inLedger = new Set(
    ledger
      .subscriptions()
      .filter((entry) => sameAddress(entry.subscriber, subscriber) && entry.secret.from === "root")
      .map((entry) => entry.id),
  );
  const found: { n: number; idHash: Hex; state: SubscriptionState }[] = [];
  let lastSeen = -1;
  for (let from = 0; from <= lastSeen + UNKNOWN_IN_A_ROW && from < MAX_NUMBER; ) {
    const upTo = lastSeen + UNKNOWN_IN_A_ROW;
    const numbers = Array.from({ length: upTo - from + 1 }, (_, index) => from + index);
    const states = await Promise.all(
      numbers.map(async (n) => {
        const idHash = idHashOfSecret(subscriber, derivedSecret(root, planId, n));
        return { n, idHash, state: await readState(facilitator.client, idHash) };
      }),
    );
    for (const { n, idHash, state } of states) {
      if (state) found.push({ n, idHash, state });
      if (state || inLedger.has(idHash)) lastSeen = n;
    }
    from = upTo + 1;
  }
  return { found, nextN: lastSeen + 1 };
}

/** Returns the plan that the record has now: another one after a plan change. */
async function planOf(
  context: AgentContext,
  facilitator: Facilitator,
  asked: VerifiedPlan,
  state: SubscriptionState,
): Promise<VerifiedPlan> {
  return state.planId === asked.planId ? asked : verifiedPlan(context, facilitator, state.planId);
}

/** Records the live subscriptions that were found in the ledger. Known entries keep their origins. */
export async function adopt(
  context: AgentContext,
  ledger: AgentLedger,
  facilitator: Facilitator,
  { asked, search, origins }: { asked: VerifiedPlan; search: DerivedSearch; origins: readonly string[] },
): Promise<readonly { readonly entry: SubscriptionEntry; readonly state: SubscriptionState }[]> {
  const subscriber = await context.signer.address();
  const adopted: { entry: SubscriptionEntry; state: SubscriptionState }[] = [];
  for (const { n, idHash, state } of search.found) {
    if (state.status === "CANCELLED" || !sameAddress(state.subscriber, subscriber)) continue;
    const known = ledger.subscription(idHash);
    const plan = await planOf(context, facilitator, asked, state);
    const { signup: _done, ...kept } = known ?? {
      type: "subscription" as const,
      id: idHash,
      subscriber,
      facilitator: facilitator.url,
      periods: DEFAULT_PERIODS,
      secret: { from: "root" as const, planId: asked.planId, n },
      origins: [],
    };
    const entry: SubscriptionEntry = {
      ...kept,
      ...termsOf(plan),
      chainId: plan.chainId,
      network: plan.network,
      turnpike: plan.deployment.turnpike,
      state: "live",
      cap: state.allowance.cap.toString(),
      origins: [...new Set([...kept.origins, ...origins])],
    };
    await ledger.put(entry);
    adopted.push({ entry, state });
  }
  return adopted;
}

/**
 * Finds this wallet's live subscriptions that were made under a plan. For wallets whose signatures differ from one time
 * to the next there is nothing to find.
 */
export async function recover(context: AgentContext, options: RecoverOptions): Promise<Subscription[]> {
  anObject(options, "options");
  const ledger = await context.ledger();
  const facilitator = requireFacilitator(context, options.facilitator);
  const asked = await verifiedPlan(context, facilitator, options.planId);
  const root = await context.roots.ofSubscriptions(asked.deployment);
  if (!root) return [];
  const subscriber = await context.signer.address();
  const search = await searchDerived(ledger, facilitator, { root, planId: asked.planId, subscriber });
  const origins = originsOf(options.origins);
  const adopted = await adopt(context, ledger, facilitator, { asked, search, origins });
  return Promise.all(adopted.map(({ entry, state }) => viewOf(context, entry, state, { existing: true })));
}

/** Returns the origins of the caller's URLs; `stdio:<name>` is the origin of a server without a URL. */
export function originsOf(origins: readonly string[] | undefined): readonly string[] {
  return [...new Set((origins ?? []).map(originOf))];
}
