/** Decodes what the chain returns for a record: words of 32 bytes, by their places in the contract's structs. */
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import { type Address, checksum, type Hex, STATUSES, toHex, Unavailable } from "../../protocol";

/** What of a plan its id does not prove. */
export interface PlanOnChain {
  readonly provider: Address;
  readonly token: Address;
  readonly payTo: Address;
  /** another payee that is proposed, and from when on (unix seconds) anyone can apply it */
  readonly proposedPayTo: { readonly payTo: Address; readonly effectiveAtSec: number } | undefined;
}

/** What the contract says of one subscription: the part of a Facilitator's answer that needs no index. */
export type SubscriptionOnChain = Pick<
  SubscriptionState,
  "planId" | "status" | "paidThrough" | "version" | "ending" | "until" | "nextPlanId" | "allowance"
>;

/** Positions in the result of `getPlan`. */
const PLAN_WORDS = { planId: 0, provider: 2, token: 3, payTo: 8, proposedPayTo: 13, effectiveAt: 14 };

/** Positions in the result of `getStates` for one id: after the list's offset and length. */
const STATE_WORDS = {
  subscriber: 3,
  planId: 4,
  paidThrough: 5,
  version: 6,
  ending: 8,
  until: 12,
  nextPlanId: 13,
  status: 14,
  cap: 15,
  spent: 16,
  remaining: 17,
  debits: 19,
};

/** @throws Unavailable where the result is too short */
export function wordAt(bytes: Uint8Array, index: number): bigint {
  const word = bytes.slice(index * 32, index * 32 + 32);
  if (word.length < 32) throw new Unavailable("The agent's RPC gave no usable answer to a call.");
  return BigInt(toHex(word));
}

/** Returns the version of the subscription in a result of `getStates`. */
export const versionIn = (bytes: Uint8Array): number => Number(wordAt(bytes, STATE_WORDS.version));

/** Returns whether a result of `getStates` has a subscription. */
export const isSubscribedIn = (bytes: Uint8Array): boolean => wordAt(bytes, STATE_WORDS.subscriber) !== 0n;

/** Returns the subscription in a result of `getStates`; undefined when there is none. @throws Unavailable */
export function subscriptionIn(bytes: Uint8Array): SubscriptionOnChain | undefined {
  const field = (name: keyof typeof STATE_WORDS) => wordAt(bytes, STATE_WORDS[name]);
  const hashAt = (name: "planId" | "nextPlanId"): Hex =>
    toHex(bytes.slice(STATE_WORDS[name] * 32, STATE_WORDS[name] * 32 + 32));
  if (!isSubscribedIn(bytes)) return undefined;
  const status = STATUSES[Number(field("status"))];
  if (!status) throw new Unavailable("The agent's RPC returned an unknown subscription status.");
  const until = Number(field("until"));
  return {
    planId: hashAt("planId"),
    ...(until > 0 && { until }),
    ...(field("nextPlanId") !== 0n && { nextPlanId: hashAt("nextPlanId") }),
    status,
    paidThrough: Number(field("paidThrough")),
    version: Number(field("version")),
    ending: field("ending") !== 0n,
    allowance: {
      cap: field("cap"),
      spent: field("spent"),
      remaining: field("remaining"),
      debits: Number(field("debits")),
    },
  };
}

/** Returns the plan in a result of `getPlan`; undefined when there is none. @throws Unavailable */
export function planIn(bytes: Uint8Array): PlanOnChain | undefined {
  const field = (name: keyof typeof PLAN_WORDS) => wordAt(bytes, PLAN_WORDS[name]);
  const addressAt = (name: keyof typeof PLAN_WORDS) => checksum(`0x${field(name).toString(16).padStart(40, "0")}`);
  if (field("planId") === 0n) return undefined;
  return {
    provider: addressAt("provider"),
    token: addressAt("token"),
    payTo: addressAt("payTo"),
    proposedPayTo:
      field("proposedPayTo") === 0n
        ? undefined
        : { payTo: addressAt("proposedPayTo"), effectiveAtSec: Number(field("effectiveAt")) },
  };
}
