/**
 * Accepts acts that subscribers signed. Each act is simulated before it is sent, submitted once, and answered from the
 * rows that the indexer committed. Repeating a request is always safe.
 */
import type {
  ChangeAct,
  ChangeQuote,
  ChangeRequest,
  PermitFields,
  PlanWire,
  SubscribeRequest,
  SubscriptionChangeWire,
  SubscriptionWire,
} from "turnpike/facilitator";
import { type Address, type Clock, type Hex, idHashOf, TurnpikeError, Unavailable } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import {
  type ActCall,
  actKeyOf,
  changeCall,
  decodeQuote,
  quoteCall,
  renewedFirst,
  resultingIdHash,
  subscribeCall,
} from "./acts";
import { createLander } from "./landing";
import { createPermits, type Permits } from "./permits";
import { policyAgainst } from "./policy";
import {
  findPlan,
  findSubscription,
  listPlans,
  listSubscriptions,
  type PlanPage,
  planToWire,
  type SubscriptionRecord,
  statusOf,
  subscriptionToWire,
} from "./records";

export interface SubscriptionsDeps {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly clock: Clock;
  /** monotonic milliseconds */
  readonly monotonicMs?: () => number;
}

export interface Waiting {
  readonly waitMs: number;
}

export type ActOutcome =
  | { readonly kind: "done"; readonly change: SubscriptionChangeWire }
  | { readonly kind: "pending" };

/** Every method throws a TurnpikeError with the reason; `Unavailable` when the answer cannot be known now. */
export interface Subscriptions {
  readonly permits: Permits;
  subscribe(request: SubscribeRequest, waiting: Waiting): Promise<ActOutcome>;
  change<A extends ChangeAct>(act: A, idHash: Hex, request: ChangeRequest<A>, waiting: Waiting): Promise<ActOutcome>;
  get(idHash: Hex): Promise<SubscriptionWire>;
  /** those of one account, newest first */
  of(subscriber: Address): Promise<{ readonly subscriptions: SubscriptionWire[]; readonly more: boolean }>;
  quote(idHash: Hex, newPlanId: Hex): Promise<ChangeQuote>;
  plan(planId: Hex): Promise<PlanWire>;
  plans(page: PlanPage): Promise<{ readonly plans: PlanWire[]; readonly next?: number }>;
}

export function createSubscriptions(deps: SubscriptionsDeps): Subscriptions {
  const { config, store, relayer, indexer, clock } = deps;
  const { chainId, turnpike, actsPerHour } = config;
  const monotonicMs = deps.monotonicMs ?? (() => performance.now());
  const lander = createLander({ chainId, store, relayer, indexer, clock, actsPerHour, monotonicMs });
  const permits = createPermits({ config, relayer, clock, lander });

  /** Checks that the indexer is current: while it is behind, an absent row proves nothing. @throws Unavailable */
  function requireCurrent(): void {
    const { ok, lagSec } = indexer.health();
    if (!ok || lagSec > config.maxLagSec)
      throw new Unavailable("The chain's newest blocks are still being read.", { retryAfterSec: 2 });
  }

  async function requireSubscription(idHash: Hex): Promise<SubscriptionRecord> {
    const record = await findSubscription(store.db, chainId, idHash);
    if (record) return record;
    requireCurrent();
    throw new TurnpikeError("UnknownSubscription", undefined, { details: { idHash } });
  }

  async function requirePlan(planId: Hex) {
    const plan = await findPlan(store.db, chainId, planId);
    if (plan) return plan;
    requireCurrent();
    throw new TurnpikeError("UnknownPlan", undefined, { details: { planId } });
  }

  async function resultOf(idHash: Hex, transaction: Hex, previousIdHash?: Hex): Promise<SubscriptionChangeWire> {
    const record = await requireSubscription(idHash);
    return {
      idHash,
      status: statusOf(record, clock.nowSec()),
      transaction,
      paidThrough: record.row.paid_through,
      version: record.row.version,
      ...(previousIdHash && { previousIdHash }),
    };
  }

  /** Submits the permit to the token first. @returns false while it is pending */
  async function applyPermit(
    permit: PermitFields,
    { token, owner }: { token: string; owner: string },
    untilMs: number,
  ): Promise<boolean> {
    const landing = await permits.apply({ ...permit, token: token as Address, owner: owner as Address }, untilMs);
    return landing.kind === "done";
  }

  return {
    permits,

    async subscribe(request, { waitMs }) {
      const untilMs = monotonicMs() + waitMs;
      const idHash = idHashOf(request.subscriber, request.secretHash);
      const standing = await findSubscription(store.db, chainId, idHash);
      // Also answers after this service lost its database, and when someone else submitted the signature first.
      if (standing && isSameSignup(standing, request)) {
        return { kind: "done", change: await resultOf(idHash, standing.row.transaction as Hex) };
      }
      const landing = await lander.land(
        {
          name: "subscribe",
          key: actKeyOf("subscribe", idHash, request.signature),
          objectId: idHash,
          signer: request.subscriber,
          to: turnpike,
          prepare: async () => {
            const against = policyAgainst(await requirePlan(request.planId), config);
            if (against) throw against;
            const call = subscribeCall(request);
            await lander.rehearse(turnpike, call);
            return call;
          },
        },
        untilMs,
      );
      if (landing.kind === "pending") return { kind: "pending" };
      return { kind: "done", change: await resultOf(idHash, landing.transaction) };
    },

    async change(act, idHash, request, { waitMs }) {
      const untilMs = monotonicMs() + waitMs;
      const { row, plan } = await requireSubscription(idHash);
      // A subscriber can always cancel, also when this Facilitator no longer serves the plan.
      const against = act === "cancel" ? undefined : policyAgainst(plan, config);
      if (against) throw against;

      const rehearsed = async (): Promise<ActCall> => {
        const call = changeCall(act, idHash, request);
        try {
          await lander.rehearse(turnpike, call);
          return call;
        } catch (error) {
          if (act !== "plan" || !(error instanceof TurnpikeError) || error.code !== "RenewalDue") throw error;
        }
        const both = renewedFirst(idHash, call);
        await lander.rehearse(turnpike, both);
        return both;
      };
      const { permit } = request;
      const prepare = async (): Promise<ActCall> => {
        if (!permit) return rehearsed();
        // Simulated before the permit costs gas, and again once the permit is effective.
        await rehearsed().catch((error: unknown) => {
          if (!(error instanceof TurnpikeError) || error.code !== "InsufficientApproval") throw error;
        });
        const isEffective = await applyPermit(permit, { token: plan.token, owner: row.subscriber }, untilMs);
        if (!isEffective) throw new PermitPending();
        return rehearsed();
      };

      try {
        const key = actKeyOf(act, idHash, request.signature);
        const signer = row.subscriber as Address;
        const landing = await lander.land({ name: act, key, objectId: idHash, signer, to: turnpike, prepare }, untilMs);
        if (landing.kind === "pending") return { kind: "pending" };
        const resulting = resultingIdHash(act, idHash, row, request);
        const previous = resulting === idHash ? undefined : idHash;
        return { kind: "done", change: await resultOf(resulting, landing.transaction, previous) };
      } catch (error) {
        if (error instanceof PermitPending) return { kind: "pending" };
        throw error;
      }
    },

    async get(idHash) {
      return subscriptionToWire(await requireSubscription(idHash), config, clock.nowSec());
    },

    async of(subscriber) {
      // Nothing is known of an account whose funds have not been read yet.
      requireCurrent();
      const nowSec = clock.nowSec();
      const { records, more } = await listSubscriptions(store.db, chainId, subscriber);
      return { subscriptions: records.map((record) => subscriptionToWire(record, config, nowSec)), more };
    },

    async quote(idHash, newPlanId) {
      const answer = await lander.rehearse(turnpike, { data: quoteCall(idHash, newPlanId), gasLimit: 500_000n });
      return { idHash, newPlanId, ...decodeQuote(answer), chainTimeSec: clock.nowSec() };
    },

    async plan(planId) {
      return planToWire(await requirePlan(planId), config);
    },

    async plans(page) {
      const rows = await listPlans(store.db, chainId, { ...page, limit: page.limit + 1 });
      const shown = rows.slice(0, page.limit);
      const last = rows.length > page.limit ? shown.at(-1)?.plan_index : undefined;
      return { plans: shown.map((row) => planToWire(row, config)), ...(last === undefined ? {} : { next: last }) };
    },
  };
}

/** Used only within `change`: while the permit's transaction is pending, the act cannot be simulated. */
class PermitPending extends TurnpikeError {
  constructor() {
    super("PaymentPending");
  }
}

function isSameSignup({ row, allowance }: SubscriptionRecord, request: SubscribeRequest): boolean {
  return row.plan_id === request.planId && BigInt(allowance?.cap ?? "0") === request.maxOverage;
}
