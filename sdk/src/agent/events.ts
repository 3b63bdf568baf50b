/**
 * What happens inside a call, for user interfaces and logs, in the order in which it happens. No event bears a secret:
 * no key, signature, proof or subscription id, no query string, no text that a server wrote.
 */
import type { Address, Hex } from "../protocol";

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
type Act = "subscribe" | "pause" | "resume" | "cancel" | "max-overage" | "plan" | "rekey";

/** One step of a payment, a subscription or an approval. Amounts are base units; nothing in it is secret. */
export type AgentEvent =
  /** A 402 was read: how many one-time options and plans it offers. `resource` is origin and path. */
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
  | ({
      readonly type: "subscription.signing" | "subscription.submitted" | "subscription.pending";
      readonly act: Act;
    } & OfSubscription)
  /** It stands on chain, first period paid. */
  | ({ readonly type: "subscription.created" } & OfSubscription)
  | ({ readonly type: "subscription.changed"; readonly act: Act } & OfSubscription)
  /** A signup or change was not made, and why. */
  | ({ readonly type: "subscription.failed"; readonly act: Act; readonly code: string } & OfSubscription)
  /** A provider that offers the plan did not serve the subscription. */
  | ({ readonly type: "subscription.refused" } & OfSubscription)
  /** A 402 named a plan the agent is subscribed to, from an origin that is not recorded for it: nothing was sent. */
  | ({ readonly type: "subscription.origin_unknown"; readonly origin: string } & OfSubscription)
  /** `signing`: the wallet is asked for a permit. `raised`: it has signed one over `value`, in all. */
  | { readonly type: "approval.signing" | "approval.raised"; readonly token: Address; readonly value: bigint }
  /** A permit of `topUp` stands on chain. */
  | {
      readonly type: "approval.topped_up";
      readonly token: Address;
      readonly value: bigint;
      readonly transaction: Hex | undefined;
    };

/** The types of events that tell of one payment. */
export type PaymentEventType = Extract<AgentEvent, OfPayment>["type"];
