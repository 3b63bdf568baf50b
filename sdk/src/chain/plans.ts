/**
 * Reads plans, by the places of their fields in the contract's struct. A plan's terms never change; its payee, its
 * provider and its end can. Without a chain library: agents in browsers read them too.
 */
import { type Address, type Hex, idOrNone, lengthOf, type PeriodLength, ZERO_ADDRESS } from "../protocol";
import { aList } from "../protocol/arguments";
import { requireRpc } from "./require-rpc";
import { type Caller, readEach, type Words } from "./views";

/** A plan as the chain has it; amounts in base units, times in seconds. */
export interface Plan extends PeriodLength {
  readonly planId: Hex;
  readonly index: number;
  readonly provider: Address;
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  readonly graceSec: number;
  /** receives every charge and debit now */
  readonly payTo: Address;
  /** the payee at creation, which the planId proves */
  readonly firstPayTo: Address;
  /** a payee that is proposed, and from when on (unix seconds) anyone can apply it */
  readonly proposedPayTo: { readonly payTo: Address; readonly effectiveAtSec: number } | undefined;
  readonly deprecated: boolean;
  /** it charges nothing any more, and its subscriptions end with the period that is paid */
  readonly stopped: boolean;
  readonly successor: Hex | undefined;
}

/** Words of a PlanView, in contracts/interfaces/TurnpikeTypes.sol. */
const SIZE = 16;

const PLANS_PER_CALL = 200;

/** @returns the plans that exist, by lower-case id. @throws Unavailable */
export async function loadPlans(rpc: Caller, turnpike: Address, planIds: readonly Hex[]): Promise<Map<Hex, Plan>> {
  requireRpc(rpc);
  aList(planIds, "planIds");
  const each = { turnpike, view: "getPlans(bytes32[])", field: "planIds", size: SIZE };
  const plans = new Map<Hex, Plan>();
  for (let start = 0; start < planIds.length; start += PLANS_PER_CALL) {
    const ids = planIds.slice(start, start + PLANS_PER_CALL);
    for (const words of await readEach(rpc, { ...each, ids })) {
      const planId = idOrNone(words.hash(0));
      if (planId) plans.set(planId, planOf(words, planId));
    }
  }
  return plans;
}

function planOf(words: Words, planId: Hex): Plan {
  const proposed = words.address(13);
  return {
    planId,
    index: words.number(1),
    provider: words.address(2),
    token: words.address(3),
    amount: words.uint(4),
    ...lengthOf({ unit: words.flag(6) ? "month" : "second", count: words.number(5) }),
    graceSec: words.number(7),
    payTo: words.address(8),
    deprecated: words.flag(9),
    stopped: words.flag(10),
    successor: idOrNone(words.hash(11)),
    firstPayTo: words.address(12),
    proposedPayTo: proposed === ZERO_ADDRESS ? undefined : { payTo: proposed, effectiveAtSec: words.number(14) },
  };
}
