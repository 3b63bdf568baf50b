/** Builds the payment of one subscriber's request: who pays by which plan, and access to the allowance. */
import type { AllowanceFacts } from "../../../chain/debit-sender";
import type { Plan } from "../../../chain/plans";
import type { SubscriptionState } from "../../../chain/states";
import {
  type Address,
  ConfigError,
  type Hex,
  type PricedToken,
  SubscriptionNotActive,
  type TurnpikeError,
  toAmount,
} from "../../../protocol";
import type { GateContext } from "../../core/context";
import { chargesNothing, type MeteredRoute, type Refusal, type SubscriptionPayment } from "../../core/payment";
import { requireCollectable } from "../../core/readiness";
import type { GateRequest } from "../../core/request";
import { ReceiptTray } from "../../core/usage-receipts";
import type { Deduction } from "../../metering/charges";
import { HeldMeter } from "../../metering/held-meter";
import type { ReceiptCount } from "../../metering/receipt-count";
import { GONE, type HeldCharge, type UnstatedBasis } from "../../metering/store";
import {
  type ChargedUsage,
  type ChargeHold,
  type DeductUsage,
  deductUsageOf,
  type HoldAhead,
  type UsageAccount,
  type UsageMeter,
  type UsageMeterOptions,
  usageTermsOf,
} from "../../metering/usage-meter";

export type SubscriptionVerdict =
  | { readonly kind: "grants"; readonly payment: SubscriberPayment }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "unavailable"; readonly cause: TurnpikeError };

// A class, since one is made for every request: literals with closures and getters in them cost several times as much.
export class SubscriberPayment implements SubscriptionPayment {
  readonly kind = "subscription";
  readonly status = "ACTIVE";
  readonly subscriber: Address;
  readonly idHash: Hex;
  readonly planId: Hex;
  readonly paidThroughSec: number;
  readonly allowance: Allowance;
  /** a bound function, so that it can be passed on without its payment */
  readonly deduct: SubscriptionPayment["deduct"];
  readonly charge = chargesNothing;
  readonly #observer: ChargeObserver = { onFailure: undefined, request: undefined, receipts: undefined };
  readonly #charged: Charged;
  /** once there is a meter */
  #account: SubscriptionAccount | undefined;

  constructor(
    context: GateContext,
    route: MeteredRoute,
    state: SubscriptionState,
    readonly plan: Plan,
  ) {
    this.subscriber = state.subscriber;
    this.idHash = state.idHash;
    this.planId = state.planId;
    this.paidThroughSec = state.paidThroughSec;
    this.allowance = new Allowance(context, state);
    this.#charged = { context, route, state, plan, observer: this.#observer };
    this.deduct = charge.bind(undefined, this.#charged);
  }

  meter(options: UsageMeterOptions): UsageMeter {
    const terms = usageTermsOf(options, pricedTokenOf(this.#charged));
    this.#account ??= new SubscriptionAccount(this.#charged);
    return new HeldMeter(terms, { account: this.#account });
  }

  /**
   * Names the request that it pays for, and sets a callback for charges that fail, which runs before the handler gets the
   * error.
   */
  watch(request: GateRequest, onFailure: (error: unknown) => void): void {
    this.#observer.request = request;
    this.#observer.onFailure = onFailure;
  }

  /** Signs the receipts of charges that no answer has carried yet; each is returned once. */
  takeReceipts(): readonly string[] {
    return this.#observer.receipts?.take() ?? [];
  }
}

interface ChargeObserver {
  onFailure: ((error: unknown) => void) | undefined;
  request: GateRequest | undefined;
  /** once there is one */
  receipts: ReceiptTray | undefined;
}

/** Base units; what remains may shrink while the request runs. */
class Allowance {
  readonly cap: bigint;
  readonly #context: GateContext;
  readonly #state: SubscriptionState;

  constructor(context: GateContext, state: SubscriptionState) {
    this.cap = state.allowance.cap;
    this.#context = context;
    this.#state = state;
  }

  get remaining(): bigint {
    const { meter } = this.#context;
    const { idHash } = this.#state;
    const newest = this.#context.states?.peek(idHash) ?? this.#state;
    if (meter && this.#context.isMeterOpen()) return meter.remaining(idHash, factsOf(newest));
    const { cap, spent } = this.#state.allowance;
    return cap > spent ? cap - spent : 0n;
  }
}

interface Charged {
  readonly context: GateContext;
  readonly route: MeteredRoute;
  readonly state: SubscriptionState;
  readonly plan: Plan;
  readonly observer: ChargeObserver;
}

/** The token that prices are written in; nameless where the plan's is another one. */
function pricedTokenOf({ context, plan }: Charged): PricedToken {
  const { token } = context.settings;
  return token?.address.toLowerCase() === plan.token.toLowerCase() ? token : {};
}

async function charge(charged: Charged, amount: bigint | number | string, usage?: DeductUsage): Promise<Deduction> {
  const { context, state } = charged;
  return observed(charged, async () => {
    const units = toAmount(amount, "amount");
    const described = deductUsageOf(units, usage, pricedTokenOf(charged));
    const { meter, record } = await openMeter(charged);
    const done = await meter.reserve(state.idHash, units, factsOf(record), () => newestFacts(context, state));
    const { receipt, ...deduction } = done;
    noteReceipt(charged, { count: receipt, usage: described, amount: done.charged });
    return deduction;
  });
}

interface NumberedCharge {
  /** undefined: it gets no receipt */
  readonly count: ReceiptCount | undefined;
  readonly usage: ChargedUsage;
  readonly amount: bigint;
}

/** Keeps a charge's receipt for the answer. */
function noteReceipt({ context, state, observer }: Charged, { count, usage, amount }: NumberedCharge): void {
  const { usageReceipts: issuer } = context;
  if (!issuer || !count) return;
  const { planId, idHash } = state;
  observer.receipts ??= new ReceiptTray(issuer, { planId, idHash, request: observer.request });
  observer.receipts.add({ count, usage, amount });
}

async function observed<T>({ observer }: Charged, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    observer.onFailure?.(error);
    throw error;
  }
}

/**
 * Returns the meter, open, and the current record: a renewal or another cap may have come since the request was judged.
 * @throws SubscriptionNotActive when it was cancelled, paused or rekeyed meanwhile: what is charged now might never be paid
 */
async function openMeter({ context, route, state }: Charged) {
  route.metered = true;
  const { meter } = context;
  if (!meter) {
    throw new ConfigError("operatorKey or apiKey is not set: deductAllowance needs a key that may debit the plan");
  }
  await requireCollectable(context, state.planId);
  if (!context.isMeterOpen()) await context.meterStarted();
  const record = await recordOf(context, state);
  if (!record.known || record.cancelled || record.paused) throw endedMeanwhile();
  return { meter, record };
}

/** Reserves and charges what the meters of one subscriber's request use. */
class SubscriptionAccount implements UsageAccount {
  readonly #charged: Charged;
  readonly #holds = new Set<Hex>();
  #facts: AllowanceFacts;

  constructor(charged: Charged) {
    this.#charged = charged;
    this.#facts = factsOf(charged.state);
  }

  hold(request: HoldAhead) {
    const { context, state } = this.#charged;
    const { idHash } = state;
    return observed(this.#charged, async () => {
      const { meter, record } = await openMeter(this.#charged);
      this.#facts = factsOf(record);
      const asked = { ...request, idHash, facts: this.#facts, own: [...this.#holds] };
      const held = await meter.holdAhead(asked, () => newestFacts(context, state));
      this.#holds.add(request.hold);
      return held;
    });
  }

  async charge(request: ChargeHold): Promise<HeldCharge> {
    const { context, state } = this.#charged;
    const { idHash } = state;
    const done = await context.meter?.chargeHold({ ...request, idHash, facts: this.#facts });
    if (done === undefined) return GONE;
    if (request.release) this.#holds.delete(request.hold);
    noteReceipt(this.#charged, { count: done.receipt, usage: request.usage, amount: done.added });
    return done;
  }

  track(end: () => Promise<unknown>): () => void {
    return this.#charged.context.meter?.onStop(end) ?? (() => undefined);
  }

  takeReceipts(): readonly string[] {
    return this.#charged.observer.receipts?.take() ?? [];
  }

  noteUnstated(basis: UnstatedBasis): void {
    const { context, state } = this.#charged;
    context.meter?.noteUnstated(state.idHash, basis);
  }
}

function endedMeanwhile(): SubscriptionNotActive {
  return new SubscriptionNotActive("The subscription ended while this request was served.");
}

async function recordOf({ states }: GateContext, judged: SubscriptionState): Promise<SubscriptionState> {
  const held = states?.peek(judged.idHash);
  if (held || !states) return held ?? judged;
  // A block has touched it. In an outage the call is charged by the record that it was granted with.
  return states.read(judged.idHash).catch(() => judged);
}

/** @throws Unavailable; SubscriptionNotActive */
async function newestFacts({ states }: GateContext, judged: SubscriptionState): Promise<AllowanceFacts> {
  const newest = states ? await states.recheck(judged.idHash) : judged;
  if (newest.known && !newest.cancelled) return factsOf(newest);
  throw endedMeanwhile();
}

export function factsOf({ allowance, paidThroughSec, version, blockNumber }: SubscriptionState): AllowanceFacts {
  const { cap, spent, debits } = allowance;
  return { cap, spent, debits, paidThroughSec, version, blockNumber };
}
