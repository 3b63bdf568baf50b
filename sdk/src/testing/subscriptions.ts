/**
 * Keeps plans, subscriptions and allowances in memory, where a gate would read the chain. The rules are the contract's.
 */
import type { Plan } from "../chain/plans";
import type { StateReader, SubscriptionState } from "../chain/states";
import type { Terms } from "../gate/core/terms";
import type { MeterPort } from "../gate/metering/meter";
import {
  type Address,
  AllowanceExhausted,
  type Clock,
  type Hex,
  InsufficientFunds,
  keccakText,
  parseSubscriptionId,
  type SubscriptionStatus,
  statusAt,
  subscriptionId,
  TurnpikeError,
  Unavailable,
} from "../protocol";
import { DAY_SEC } from "../protocol/durations";

/** A plan of the test provider; amounts in base units. */
export interface TestPlan {
  readonly planId?: string;
  /** base units per period; default 10,000,000 */
  readonly amount?: bigint;
  /** default 30 days */
  readonly intervalSec?: number;
  /** default 1 day */
  readonly graceSec?: number;
  readonly deprecated?: boolean;
}

/** A subscription of the test provider. */
export interface TestSubscription {
  readonly planId: string;
  /** cap of metered overage, base units; default 0 */
  readonly maxOverage?: bigint;
  /** default: the test payer */
  readonly subscriber?: Address;
}

/** What a test may change of a subscription, by its id. */
export type TestChange = Partial<
  Pick<SubscriptionState, "paused" | "ending" | "cancelled" | "paidThroughSec"> & {
    readonly cap: bigint;
    readonly spent: bigint;
    /** as if an earlier debit had failed for funds */
    readonly blocked: boolean;
  }
>;

export interface Books {
  readonly terms: Terms;
  readonly states: StateReader;
  readonly meter: MeterPort;
  addPlan(plan: TestPlan): Plan;
  subscribe(subscription: TestSubscription): string;
  ownedBy(wallet: Address): { readonly idHash: Hex; readonly planId: Hex; readonly status: SubscriptionStatus }[];
  change(id: string, change: TestChange): void;
  /** base units charged so far in this cycle */
  spentOf(id: string): bigint;
  /** whether the chain can be asked */
  isDown: boolean;
}

export interface BooksParts {
  readonly clock: Clock;
  readonly token: { readonly address: Address; readonly name: string; readonly version: string };
  readonly payTo: Address;
  readonly payer: Address;
}

export function openBooks({ clock, token, payTo, payer }: BooksParts): Books {
  const plans = new Map<string, Plan>();
  const states = new Map<string, SubscriptionState>();
  const blocked = new Set<string>();
  let subscriptions = 0;

  const unknown = (idHash: Hex): SubscriptionState => ({
    ...{ idHash, known: false, subscriber: payer, planId: idHash, paidThroughSec: 0, version: 0 },
    ...{ paused: false, ending: false, cancelled: false, blockNumber: 0 },
    allowance: { cap: 0n, spent: 0n, debits: 0 },
  });

  async function read(idHash: Hex): Promise<SubscriptionState> {
    if (books.isDown) throw new Unavailable("The test's chain is down.", { retryAfterSec: 1 });
    return states.get(idHash) ?? unknown(idHash);
  }

  function addPlan({ planId, amount = 10_000_000n, intervalSec, graceSec, deprecated = false }: TestPlan): Plan {
    const id = (planId ?? keccakText(`test plan ${plans.size}`)).toLowerCase() as Hex;
    const plan: Plan = {
      ...{ planId: id, index: plans.size, provider: payTo, token: token.address, amount, payTo, deprecated },
      intervalSec: intervalSec ?? 30 * DAY_SEC,
      graceSec: graceSec ?? DAY_SEC,
      successor: undefined,
    };
    plans.set(id, plan);
    return plan;
  }

  function hashOf(id: string): Hex {
    const idHash = parseSubscriptionId(id)?.idHash;
    if (idHash && states.has(idHash)) return idHash;
    throw new TurnpikeError(
      "UnknownSubscription",
      "This test has no such subscription: use the id that subscribe() gave.",
    );
  }

  const at = (idHash: string): SubscriptionState => states.get(idHash) ?? unknown(idHash as Hex);
  const remaining = (idHash: string): bigint => {
    const { cap, spent } = at(idHash).allowance;
    return cap > spent ? cap - spent : 0n;
  };
  const book = (idHash: string, spent: bigint): void => {
    const state = at(idHash);
    states.set(idHash, { ...state, allowance: { ...state.allowance, spent } });
  };

  let charged = 0n;
  const books: Books = {
    isDown: false,
    terms: {
      plan: (planId) => plans.get(planId),
      token: () => token,
      // A plan that a route names exists: a test need not add it.
      async load(planIds) {
        for (const planId of planIds) if (!plans.has(planId)) addPlan({ planId });
      },
      onAdvance: () => undefined,
      onReset: () => undefined,
    },
    states: {
      peek: (idHash) => (books.isDown ? undefined : states.get(idHash)),
      read,
      recheck: read,
      close: () => undefined,
    },
    meter: {
      prove: async () => undefined,
      proveAny: async () => undefined,
      canCollect: () => true,
      onBlocks: () => undefined,
      start: async () => undefined,
      async reserve(idHash, amount) {
        if (blocked.has(idHash)) throw new InsufficientFunds("A debit of this subscription could not be collected.");
        const left = remaining(idHash);
        if (amount > 0n && left === 0n) throw new AllowanceExhausted();
        const clipped = amount > left;
        const taken = clipped ? left : amount;
        charged += taken;
        book(idHash, at(idHash).allowance.spent + taken);
        return { charged: taken, remaining: left - taken, clipped };
      },
      remaining: (idHash) => remaining(idHash),
      isBlocked: (idHash) => blocked.has(idHash),
      retryBlocked: () => undefined,
      isSaturated: () => false,
      // Every charge is final at once here.
      unsettled: () => ({ unsettled: 0n, charged, settled: charged, lost: 0n, subscriptions: [] }),
      flush: async () => undefined,
      stop: async () => undefined,
    },
    addPlan,
    subscribe({ planId, maxOverage = 0n, subscriber = payer }) {
      const plan = plans.get(planId.toLowerCase()) ?? addPlan({ planId });
      const id = subscriptionId(subscriber, keccakText(`test secret ${subscriptions++}`));
      const idHash = parseSubscriptionId(id)?.idHash as Hex;
      const paidThroughSec = clock.nowSec() + plan.intervalSec;
      const allowance = { cap: maxOverage, spent: 0n, debits: 0 };
      states.set(idHash, {
        ...unknown(idHash),
        known: true,
        subscriber,
        planId: plan.planId,
        paidThroughSec,
        allowance,
      });
      return id;
    },
    ownedBy(wallet) {
      const owned = [...states.values()].filter(({ subscriber }) => subscriber === wallet);
      return owned.reverse().map((state) => {
        const { intervalSec = 0, graceSec = 0 } = plans.get(state.planId) ?? {};
        const status = statusAt({ ...state, intervalSec, graceSec }, clock.nowSec());
        return { idHash: state.idHash, planId: state.planId, status };
      });
    },
    change(id, { cap, spent, blocked: isBlocked, ...record }) {
      const idHash = hashOf(id);
      const state = at(idHash);
      const allowance = {
        ...state.allowance,
        ...(cap === undefined ? {} : { cap }),
        ...(spent === undefined ? {} : { spent }),
      };
      states.set(idHash, { ...state, ...record, allowance });
      if (isBlocked === true) blocked.add(idHash);
      if (isBlocked === false) blocked.delete(idHash);
    },
    spentOf: (id) => at(hashOf(id)).allowance.spent,
  };
  return books;
}
