/** Defines the agent's injected effects (fetch, time, waiting, events) and the limits of its retries. */
import type { Address, Clock, Hex } from "../../protocol";
import type { ReceiptFault, StatementFault } from "../ledger/evidence";
import type { PaymentEntry } from "../ledger/ledger-store";

export type FetchFunction = (input: string, init: RequestInit) => Promise<Response>;

/** Waits `ms`; rejects with the signal's reason when it aborts first. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;

/** The limits of waiting and retrying, milliseconds unless the name says otherwise. */
export interface AgentLimits {
  /** silence until a provider's response begins; an upload in progress is none */
  readonly requestTimeoutMs: number;
  /** for one exchange with a Facilitator */
  readonly facilitatorTimeoutMs: number;
  /** how long one call waits for a payment or a change whose outcome is unknown */
  readonly settleMs: number;
  /** how often one payment is presented in one call */
  readonly presentations: number;
  /** how long one call waits for a proof that is in flight elsewhere */
  readonly inFlightMs: number;
  /** how long after a change of a subscription a refusal may rest on an older record: retried for up to 2 s, never paid around */
  readonly freshMs: number;
  /** how much of a 402's body is read */
  readonly maxQuoteBytes: number;
  /** how long the body of a 402 may take to arrive */
  readonly quoteTimeoutMs: number;
}

/** The limits of an agent that is given none. */
export const DEFAULT_LIMITS: AgentLimits = {
  requestTimeoutMs: 120_000,
  facilitatorTimeoutMs: 40_000,
  settleMs: 120_000,
  presentations: 4,
  inFlightMs: 70_000,
  freshMs: 10_000,
  maxQuoteBytes: 65_536,
  quoteTimeoutMs: 30_000,
};

export interface Effects {
  readonly fetch: FetchFunction;
  /** whether `fetch` takes a stream as a body, and so shows how far an upload is */
  readonly streamsUploads: boolean;
  readonly sleep: Sleep;
  /** of the policy's rolling day; the chain's time is read elsewhere */
  readonly clock: Clock;
  readonly limits: AgentLimits;
  /** aborts when the agent is closed: waiting calls end, and what was signed stays in the ledger */
  readonly closing: AbortSignal;
  /** @returns how to stop listening */
  onClose(listener: () => void): () => void;
  emit(event: AgentEvent): void;
}

/** @throws the signal's reason when it aborts first */
export const sleepFor: Sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });

/** Bounds a retry loop by time and by number of tries, whichever ends first. */
export class RetryBudget {
  readonly #startedMs = performance.now();
  readonly #effects: Pick<Effects, "sleep" | "closing">;
  readonly #signal: AbortSignal | undefined;
  #leftMs: number;
  #turnsLeft: number;

  constructor(options: {
    budgetMs: number;
    turns: number;
    effects: Pick<Effects, "sleep" | "closing">;
    signal?: AbortSignal | undefined;
  }) {
    this.#leftMs = options.budgetMs;
    this.#turnsLeft = options.turns;
    this.#effects = options.effects;
    this.#signal = options.signal;
  }

  /** @returns false, at once, when the budget is spent or the agent is closed */
  async wait(ms: number): Promise<boolean> {
    const { sleep, closing } = this.#effects;
    if (closing.aborted) return false;
    if (this.#turnsLeft <= 0 || this.#leftMs - (performance.now() - this.#startedMs) <= 0) return false;
    this.#turnsLeft--;
    this.#leftMs -= ms;
    if (this.#leftMs < 0) return false;
    const before = performance.now();
    await sleep(ms, this.#signal);
    if (closing.aborted) return false;
    // What really passed while sleeping is counted by the clock already; an injected sleep may pass no time at all.
    this.#leftMs += Math.min(ms, performance.now() - before);
    return true;
  }
}

/** 0.25 s, 0.5 s, 1 s, ... at most 5 s. */
export function backoffMs(turn: number): number {
  return Math.min(250 * 2 ** turn, 5_000);
}

/** Facts of a payment that has an id: from the moment its budget is reserved. Amounts are base units. */
interface OfPayment {
  readonly paymentId: Hex;
  readonly amount: bigint;
  readonly payTo: Address;
  /** whether an earlier call had signed it */
  readonly resumed: boolean;
}

interface OfSubscription {
  /** the subscription's public name */
  readonly idHash: Hex;
  readonly planId: Hex;
}

/** `subscribe`, or the change that is made: `pause`, `resume`, `cancel`, `max-overage`, `plan`, `rekey`. */
type Act = "subscribe" | "pause" | "resume" | "cancel" | "max-overage" | "next" | "plan" | "rekey";

/** One step of a payment, a subscription or an approval. Amounts are base units; nothing in it is secret. */
export type AgentEvent =
  /** A quote was read: how many one-time options and plans it has. `resource`: origin and path, or server and tool. */
  | {
      readonly type: "payment.quoted";
      readonly resource: string;
      /** of the cheapest one-time option, where there is one */
      readonly amount: bigint | undefined;
      readonly options: number;
      readonly plans: number;
    }
  /** Nothing was paid, and why: a stable code, and its reason where it has one. */
  | {
      readonly type: "payment.refused";
      readonly resource: string;
      readonly code: string;
      readonly reason: string | undefined;
    }
  /** `signing`: the wallet is asked. `submitted`: posted to the Facilitator. `presented`: sent to the provider. */
  | ({ readonly type: "payment.signing" | "payment.signed" | "payment.submitted" | "payment.presented" } & OfPayment)
  /** `pending`: the outcome is awaited. `held`: the call gives up waiting, and the ledger keeps the payment. */
  | ({ readonly type: "payment.pending" | "payment.held" } & OfPayment)
  /** `settled`: the money has moved. `served`: the provider has answered for it. `released`: it can never move. */
  | ({ readonly type: "payment.settled" | "payment.served" | "payment.released" } & OfPayment)
  /** What the provider reports of a settlement contradicts what was signed, or the chain. */
  | ({ readonly type: "payment.misreported"; readonly field: "amount" | "payer" | "network" } & OfPayment)
  /** The provider's signed receipt is no evidence of the payment, and why. */
  | ({ readonly type: "receipt.faulty"; readonly fault: StatementFault } & OfPayment)
  /** A usage receipt is no evidence of the charge, and why; it is kept for an audit. */
  | ({ readonly type: "usage-receipt.faulty"; readonly fault: ReceiptFault } & OfSubscription)
  /** Usage receipts could not be kept: an audit will miss them. */
  | ({ readonly type: "usage-receipt.unkept" } & OfSubscription)
  | ({
      readonly type: "subscription.signing" | "subscription.submitted" | "subscription.pending";
      readonly act: Act;
    } & OfSubscription)
  /** It is on chain, first period paid. */
  | ({ readonly type: "subscription.created" } & OfSubscription)
  | ({ readonly type: "subscription.changed"; readonly act: Act } & OfSubscription)
  /** A signup or change was not made, and why. */
  | ({ readonly type: "subscription.failed"; readonly act: Act; readonly code: string } & OfSubscription)
  /** A provider that offers the plan did not serve the subscription. */
  | ({ readonly type: "subscription.refused" } & OfSubscription)
  /** A 402 named a plan the agent is subscribed to, from an origin that is not recorded for it: nothing was sent. */
  | ({ readonly type: "subscription.origin_unknown"; readonly origin: string } & OfSubscription)
  /** With `policy.onPayeeChange`: another payee is proposed for the plan, or has replaced the one of the ledger. */
  | ({
      readonly type: "subscription.payee_change";
      /** the payee that the ledger knows */
      readonly knownPayTo: Address;
      /** the present payee */
      readonly payTo: Address;
      /** a proposed payee, and from when on (unix seconds) anyone can apply it */
      readonly proposed: { readonly payTo: Address; readonly effectiveAtSec: number } | undefined;
      /** what the policy asks for */
      readonly response: "cancel" | "notify";
    } & OfSubscription)
  /** `signing`: the wallet is asked for a permit. `raised`: it has signed one over `value`, in all. */
  | { readonly type: "approval.signing" | "approval.raised"; readonly token: Address; readonly value: bigint }
  /** A permit of `topUp` is on chain. */
  | {
      readonly type: "approval.topped_up";
      readonly token: Address;
      readonly value: bigint;
      readonly transaction: Hex | undefined;
    };

type PaymentEventType = Exclude<Extract<AgentEvent, OfPayment>["type"], "receipt.faulty" | "payment.misreported">;

/** Emits one event of a payment, from its ledger entry. */
export function emitPayment(
  effects: Effects,
  type: PaymentEventType,
  facts: { readonly entry: PaymentEntry; readonly resumed: boolean },
): void {
  effects.emit({ type, ...eventFacts(facts) });
}

export function eventFacts({
  entry: { id, amount, payTo },
  resumed,
}: {
  readonly entry: PaymentEntry;
  readonly resumed: boolean;
}): OfPayment {
  return { paymentId: id, amount: BigInt(amount), payTo, resumed };
}
