/**
 * Keeps plans, subscriptions and allowances in memory, where a gate would read the chain. The rules are the contract's.
 */
import type { Plan } from "../chain/plans";
import type { StateReader, SubscriptionState } from "../chain/states";
import type { Terms } from "../gate/core/terms";
import type { MeterPort } from "../gate/metering/meter";
import { nextReceipt, type ReceiptCount } from "../gate/metering/receipt-count";
import { GONE, heldByOthers, type MeterReport, smallest } from "../gate/metering/store";
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
import { aBigint, aText } from "../protocol/arguments";
import { DAY_SEC } from "../protocol/periods";

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

export interface TestBooksParts {
  readonly clock: Clock;
  readonly token: { readonly address: Address; readonly name: string; readonly version: string };
  readonly payTo: Address;
  readonly payer: Address;
  /** whether charges get usage receipts */
  readonly receipts: boolean;
  readonly report: MeterReport;
}

export class TestBooks {
  readonly terms: Terms;
  readonly states: StateReader;
  readonly meter: MeterPort;
  /** whether the chain can be asked */
  isDown = false;
  readonly #parts: TestBooksParts;
  readonly #plans = new Map<string, Plan>();
  readonly #states = new Map<string, SubscriptionState>();
  readonly #blocked = new Set<string>();
  /** what running meters have reserved ahead, by name */
  readonly #holds = new Map<Hex, { readonly idHash: Hex; readonly amount: bigint; readonly charged: bigint }>();
  readonly #receipts = new Map<Hex, ReceiptCount>();
  #subscriptions = 0;

  constructor(parts: TestBooksParts) {
    this.#parts = parts;
    this.terms = this.#createTerms();
    this.states = this.#createStates();
    this.meter = this.#createMeter();
  }

  addPlan({ planId, amount = 10_000_000n, intervalSec, graceSec, deprecated = false }: TestPlan): Plan {
    if (planId !== undefined) aText(planId, "plan.planId");
    aBigint(amount, "plan.amount");
    const { payTo, token } = this.#parts;
    const index = this.#plans.size;
    const id = (planId ?? keccakText(`test plan ${index}`)).toLowerCase() as Hex;
    const plan: Plan = {
      planId: id,
      index,
      provider: payTo,
      token: token.address,
      amount,
      payTo,
      deprecated,
      stopped: false,
      intervalSec: intervalSec ?? 30 * DAY_SEC,
      months: 0,
      firstPayTo: payTo,
      proposedPayTo: undefined,
      graceSec: graceSec ?? DAY_SEC,
      successor: undefined,
    };
    this.#plans.set(id, plan);
    return plan;
  }

  subscribe({ planId, maxOverage = 0n, subscriber = this.#parts.payer }: TestSubscription): string {
    aText(planId, "subscription.planId");
    aText(subscriber, "subscription.subscriber");
    aBigint(maxOverage, "subscription.maxOverage");
    const plan = this.#plans.get(planId.toLowerCase()) ?? this.addPlan({ planId });
    const id = subscriptionId(subscriber, keccakText(`test secret ${this.#subscriptions++}`));
    const idHash = parseSubscriptionId(id)?.idHash as Hex;
    this.#states.set(idHash, {
      ...this.#unknown(idHash),
      known: true,
      subscriber,
      planId: plan.planId,
      paidThroughSec: this.#parts.clock.nowSec() + plan.intervalSec,
      allowance: { cap: maxOverage, spent: 0n, debits: 0 },
    });
    return id;
  }

  ownedBy(wallet: Address): { readonly idHash: Hex; readonly planId: Hex; readonly status: SubscriptionStatus }[] {
    const owned = [...this.#states.values()].filter(({ subscriber }) => subscriber === wallet);
    return owned.reverse().map((state) => {
      const { intervalSec = 0, months = 0, graceSec = 0 } = this.#plans.get(state.planId) ?? {};
      const status = statusAt({ ...state, intervalSec, months, graceSec }, this.#parts.clock.nowSec());
      return { idHash: state.idHash, planId: state.planId, status };
    });
  }

  change(id: string, { cap, spent, blocked: isBlocked, ...record }: TestChange): void {
    const idHash = this.#hashOf(id);
    const state = this.#at(idHash);
    const allowance = {
      ...state.allowance,
      ...(cap === undefined ? {} : { cap }),
      ...(spent === undefined ? {} : { spent }),
    };
    this.#states.set(idHash, { ...state, ...record, allowance });
    if (isBlocked === true) this.#blocked.add(idHash);
    if (isBlocked === false) this.#blocked.delete(idHash);
  }

  /** base units charged so far in this cycle */
  spentOf(id: string): bigint {
    return this.#at(this.#hashOf(id)).allowance.spent;
  }

  #createTerms(): Terms {
    return {
      plan: (planId) => this.#plans.get(planId),
      token: () => this.#parts.token,
      // A plan that a route names exists: a test need not add it.
      load: async (planIds) => {
        for (const planId of planIds) if (!this.#plans.has(planId)) this.addPlan({ planId });
      },
      checkChain: async () => undefined,
      checkDomain: async () => undefined,
      onAdvance: () => undefined,
      onReset: () => undefined,
    };
  }

  #createStates(): StateReader {
    const read = async (idHash: Hex): Promise<SubscriptionState> => {
      if (this.isDown) throw new Unavailable("The test's chain is down.", { retryAfterSec: 1 });
      return this.#at(idHash);
    };
    return {
      peek: (idHash) => (this.isDown ? undefined : this.#states.get(idHash)),
      read,
      recheck: read,
      close: () => undefined,
    };
  }

  #createMeter(): MeterPort {
    let charged = 0n;
    return {
      prove: async () => undefined,
      proveAny: async () => undefined,
      canCollect: () => true,
      onBlocks: () => undefined,
      start: async () => undefined,
      reserve: async (idHash, amount) => {
        const left = amount > 0n ? this.#available(idHash) : this.#remaining(idHash);
        const clipped = amount > left;
        const taken = clipped ? left : amount;
        charged += taken;
        this.#charge(idHash, taken);
        return { charged: taken, remaining: left - taken, clipped, receipt: this.#receiptOf(idHash, taken) };
      },
      holdAhead: async ({ idHash, hold, need, ahead, own = [] }) => {
        const left = this.#available(idHash, own);
        if (need > left && this.#isHeld(idHash, own)) throw heldByOthers();
        const needed = smallest(need, left);
        const held = needed + smallest(ahead, (left - needed) / 4n);
        this.#holds.set(hold, { idHash, amount: held, charged: 0n });
        return { held, remaining: left - held };
      },
      chargeHold: async ({ idHash, hold, total, release }) => {
        const at = this.#holds.get(hold);
        if (!at) return GONE;
        const added = total - at.charged;
        charged += added;
        this.#charge(idHash, added);
        if (release) this.#holds.delete(hold);
        else this.#holds.set(hold, { idHash, amount: at.amount - added, charged: total });
        return { charged: total, added, receipt: this.#receiptOf(idHash, added) };
      },
      noteUnstated: (idHash, basis) => this.#parts.report({ kind: "unstated", idHash, basis }),
      onStop: () => () => undefined,
      remaining: (idHash) => this.#remaining(idHash),
      isHeld: (idHash) => this.#isHeld(idHash),
      isBlocked: (idHash) => this.#blocked.has(idHash),
      retryBlocked: () => undefined,
      isSaturated: () => false,
      // Every charge is final at once here.
      unsettled: () => ({ unsettled: 0n, charged, settled: charged, lost: 0n, subscriptions: [] }),
      flush: async () => undefined,
      stop: async () => undefined,
    };
  }

  /** @returns what remains, more than 0. @throws AllowanceExhausted, InsufficientFunds, Unavailable */
  #available(idHash: Hex, own: readonly Hex[] = []): bigint {
    if (this.#blocked.has(idHash)) {
      throw new InsufficientFunds("A debit of this subscription could not be collected.");
    }
    const left = this.#remaining(idHash);
    if (left === 0n) throw this.#isHeld(idHash, own) ? heldByOthers() : new AllowanceExhausted();
    return left;
  }

  /** @param own holds to leave out */
  #isHeld(idHash: Hex, own: readonly Hex[] = []): boolean {
    for (const [name, hold] of this.#holds) {
      if (hold.idHash === idHash && hold.amount > 0n && !own.includes(name)) return true;
    }
    return false;
  }

  #remaining(idHash: Hex): bigint {
    const { cap, spent } = this.#at(idHash).allowance;
    let left = cap - spent;
    for (const hold of this.#holds.values()) if (hold.idHash === idHash) left -= hold.amount;
    return left > 0n ? left : 0n;
  }

  #charge(idHash: Hex, amount: bigint): void {
    const state = this.#at(idHash);
    const { allowance } = state;
    this.#states.set(idHash, { ...state, allowance: { ...allowance, spent: allowance.spent + amount } });
  }

  #receiptOf(idHash: Hex, amount: bigint): ReceiptCount | undefined {
    if (!this.#parts.receipts || amount === 0n) return undefined;
    const receipt = nextReceipt(this.#receipts.get(idHash), this.#at(idHash), amount);
    this.#receipts.set(idHash, receipt);
    return receipt;
  }

  #at(idHash: Hex): SubscriptionState {
    return this.#states.get(idHash) ?? this.#unknown(idHash);
  }

  #unknown(idHash: Hex): SubscriptionState {
    return {
      idHash,
      known: false,
      subscriber: this.#parts.payer,
      planId: idHash,
      paidThroughSec: 0,
      version: 0,
      paused: false,
      ending: false,
      cancelled: false,
      blockNumber: 0,
      intro: false,
      anchorDay: 0,
      untilSec: 0,
      nextPlanId: undefined,
      allowance: { cap: 0n, spent: 0n, debits: 0 },
    };
  }

  #hashOf(id: string): Hex {
    const idHash = parseSubscriptionId(id)?.idHash;
    if (idHash && this.#states.has(idHash)) return idHash;
    throw new TurnpikeError(
      "UnknownSubscription",
      "This test has no such subscription: use the id that subscribe() gave.",
    );
  }
}
