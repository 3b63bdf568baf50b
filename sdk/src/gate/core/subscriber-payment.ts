/** What a subscriber's request carries: who pays by which plan, and the door to the allowance. Made for one request. */
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
import type { Deduction } from "../metering/meter";
import { requireCollectable } from "./collectable";
import type { Room } from "./context";
import type { MeteredRoute, SubscriptionPayment } from "./payment";
import type { Refusal } from "./quote";

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
  /** of its own, so that it can be handed on without its payment */
  readonly deduct: SubscriptionPayment["deduct"];
  readonly #seat: Seat = { onFailure: undefined };

  constructor(
    room: Room,
    route: MeteredRoute,
    state: SubscriptionState,
    readonly plan: Plan,
  ) {
    this.subscriber = state.subscriber;
    this.idHash = state.idHash;
    this.planId = state.planId;
    this.paidThroughSec = state.paidThroughSec;
    this.allowance = new Allowance(room, state);
    const seat = this.#seat;
    this.deduct = (amount) => charge({ room, route, state, seat }, amount);
  }

  /** Told of charges that fail, before whoever asked for them. */
  watch(onFailure: (error: unknown) => void): void {
    this.#seat.onFailure = onFailure;
  }
}

interface Seat {
  onFailure: ((error: unknown) => void) | undefined;
}

/** Base units; what remains may shrink while the request runs. */
class Allowance {
  readonly cap: bigint;
  readonly #room: Room;
  readonly #state: SubscriptionState;

  constructor(room: Room, state: SubscriptionState) {
    this.cap = state.allowance.cap;
    this.#room = room;
    this.#state = state;
  }

  get remaining(): bigint {
    const { meter } = this.#room;
    const { idHash } = this.#state;
    const newest = this.#room.states?.peek(idHash) ?? this.#state;
    if (meter && this.#room.isMeterOpen()) return meter.remaining(idHash, factsOf(newest));
    const { cap, spent } = this.#state.allowance;
    return cap > spent ? cap - spent : 0n;
  }
}

interface Charged {
  readonly room: Room;
  readonly route: MeteredRoute;
  readonly state: SubscriptionState;
  readonly seat: Seat;
}

async function charge({ room, route, state, seat }: Charged, amount: bigint | number | string): Promise<Deduction> {
  try {
    const units = toAmount(amount, "amount");
    route.metered = true;
    if (!room.meter) {
      throw new ConfigError("operatorKey or apiKey is not set: deductAllowance needs a key that may debit the plan");
    }
    await requireCollectable(room, state.planId);
    if (!room.isMeterOpen()) await room.meterStarted();
    // What the record says now: a renewal or another cap may have come since this request was judged.
    const facts = factsOf(await recordOf(room, state));
    return await room.meter.reserve(state.idHash, units, facts, () => newestFacts(room, state));
  } catch (error) {
    seat.onFailure?.(error);
    throw error;
  }
}

async function recordOf({ states }: Room, judged: SubscriptionState): Promise<SubscriptionState> {
  const held = states?.peek(judged.idHash);
  if (held || !states) return held ?? judged;
  // A block has touched it. In an outage the call that was let through is charged by what it was let through with.
  return states.read(judged.idHash).catch(() => judged);
}

/** @throws Unavailable; SubscriptionNotActive */
async function newestFacts({ states }: Room, judged: SubscriptionState): Promise<AllowanceFacts> {
  const newest = states ? await states.recheck(judged.idHash) : judged;
  if (newest.known && !newest.cancelled) return factsOf(newest);
  throw new SubscriptionNotActive("The subscription ended while this request was served.");
}

export function factsOf({ allowance, paidThroughSec, blockNumber }: SubscriptionState): AllowanceFacts {
  const { cap, spent, debits } = allowance;
  return { cap, spent, debits, paidThroughSec, blockNumber };
}
