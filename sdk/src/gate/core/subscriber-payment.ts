/** Builds the payment of one subscriber's request: who pays by which plan, and access to the allowance. */
import type { AllowanceFacts } from "../../chain/debit-sender";
import type { Plan } from "../../chain/plans";
import type { SubscriptionState } from "../../chain/states";
import {
  type Address,
  ConfigError,
  type Hex,
  SubscriptionNotActive,
  type TurnpikeError,
  toAmount,
} from "../../protocol";
import type { Deduction } from "../metering/charges";
import {
  type ChargeHold,
  HeldMeter,
  type HoldAhead,
  type UsageAccount,
  type UsageEvent,
  type UsageMeter,
  type UsageMeterOptions,
  usageTermsOf,
} from "../metering/usage-meter";
import type { GateContext } from "./context";
import { chargesNothing, type MeteredRoute, type SubscriptionPayment } from "./payment";
import type { Refusal } from "./quote";
import { requireCollectable } from "./readiness";

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
  readonly #observer: ChargeObserver = { onFailure: undefined, onUsage: undefined };
  readonly #charged: Charged;

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
    this.#charged = { context, route, state, observer: this.#observer };
    this.deduct = charge.bind(undefined, this.#charged);
  }

  meter(options: UsageMeterOptions): UsageMeter {
    const { token } = this.#charged.context.settings;
    const isPriced = token?.address.toLowerCase() === this.plan.token.toLowerCase();
    const terms = usageTermsOf(options, isPriced ? token : {});
    return new HeldMeter(terms, { account: new SubscriptionAccount(this.#charged) });
  }

  /** Sets a callback for charges that fail; it runs before the handler gets the error. */
  watch(onFailure: (error: unknown) => void): void {
    this.#observer.onFailure = onFailure;
  }

  /** Sets a callback for what this payment's meters have recorded; it runs once each record is durable. */
  watchUsage(onUsage: (event: UsageEvent) => void): void {
    this.#observer.onUsage = onUsage;
  }
}

interface ChargeObserver {
  onFailure: ((error: unknown) => void) | undefined;
  onUsage: ((event: UsageEvent) => void) | undefined;
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
  readonly observer: ChargeObserver;
}

async function charge(charged: Charged, amount: bigint | number | string): Promise<Deduction> {
  const { context, state } = charged;
  return observed(charged, async () => {
    const units = toAmount(amount, "amount");
    const { meter, record } = await openMeter(charged);
    return meter.reserve(state.idHash, units, factsOf(record), () => newestFacts(context, state));
  });
}

async function observed<T>({ observer }: Charged, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    observer.onFailure?.(error);
    throw error;
  }
}

/** @returns the meter, open, and the current record: a renewal or another cap may have come since the request was judged */
async function openMeter({ context, route, state }: Charged) {
  route.metered = true;
  const { meter } = context;
  if (!meter) {
    throw new ConfigError("operatorKey or apiKey is not set: deductAllowance needs a key that may debit the plan");
  }
  await requireCollectable(context, state.planId);
  if (!context.isMeterOpen()) await context.meterStarted();
  return { meter, record: await recordOf(context, state) };
}

/** Reserves and charges what the meters of one subscriber's request use. */
class SubscriptionAccount implements UsageAccount {
  readonly #charged: Charged;
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
      if (!record.known || record.cancelled || record.paused) throw endedMeanwhile();
      this.#facts = factsOf(record);
      return meter.holdAhead({ ...request, idHash, facts: this.#facts }, () => newestFacts(context, state));
    });
  }

  async charge(request: ChargeHold): Promise<bigint> {
    const { context, state } = this.#charged;
    const { idHash } = state;
    return (await context.meter?.chargeHold({ ...request, idHash, facts: this.#facts })) ?? 0n;
  }

  track(end: () => Promise<unknown>): () => void {
    return this.#charged.context.meter?.onStop(end) ?? (() => undefined);
  }

  onUsage(event: UsageEvent): void {
    this.#charged.observer.onUsage?.(event);
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

export function factsOf({ allowance, paidThroughSec, blockNumber }: SubscriptionState): AllowanceFacts {
  const { cap, spent, debits } = allowance;
  return { cap, spent, debits, paidThroughSec, blockNumber };
}
