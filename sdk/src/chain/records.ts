/**
 * Reads subscriptions, by the places of their fields in the contract's struct. Without a chain library: agents in browsers
 * read them too.
 */
import {
  type Address,
  type Hex,
  idOrNone,
  STATUSES,
  type SubscriptionStatus,
  Unavailable,
  ZERO_ADDRESS,
} from "../protocol";
import { type Caller, readEach, type Words } from "./views";

/** A subscription and its allowance at one block; amounts in base units, times in unix seconds. */
export interface RecordOnChain {
  readonly idHash: Hex;
  /** whether it was ever made */
  readonly known: boolean;
  readonly subscriber: Address;
  readonly planId: Hex;
  /** exclusive end of the paid period */
  readonly paidThroughSec: number;
  readonly version: number;
  readonly paused: boolean;
  /** it ends with the paid period */
  readonly ending: boolean;
  readonly cancelled: boolean;
  /** the paid period was begun with a voucher */
  readonly intro: boolean;
  /** the day of the month on which periods start; 0 on a plan in seconds */
  readonly anchorDay: number;
  /** 0: no end is set */
  readonly untilSec: number;
  readonly nextPlanId: Hex | undefined;
  /** at the block's time */
  readonly status: SubscriptionStatus;
  readonly allowance: {
    readonly cap: bigint;
    /** in the current cycle */
    readonly spent: bigint;
    readonly remaining: bigint;
    /** the next debit's index */
    readonly debits: number;
  };
}

/** Words of a SubscriptionState, in contracts/interfaces/TurnpikeTypes.sol. */
const SIZE = 18;

/** @returns one record for each id, in their order, all at one block. @throws Unavailable */
export async function readRecords(
  rpc: Caller,
  turnpike: Address,
  idHashes: readonly Hex[],
  block?: string,
): Promise<RecordOnChain[]> {
  const each = { turnpike, view: "getStates(bytes32[])", ids: idHashes, field: "idHashes", size: SIZE };
  const states = await readEach(rpc, { ...each, ...(block !== undefined && { block }) });
  return states.map((words, i) => recordOf(words, idHashes[i] as Hex));
}

function recordOf(words: Words, idHash: Hex): RecordOnChain {
  const subscriber = words.address(1);
  const status = STATUSES[words.number(12)];
  if (!status) throw new Unavailable("The contract returned an unknown subscription status.");
  return {
    idHash,
    known: subscriber !== ZERO_ADDRESS,
    subscriber,
    planId: words.hash(2),
    paidThroughSec: words.number(3),
    version: words.number(4),
    paused: words.flag(5),
    ending: words.flag(6),
    cancelled: words.flag(7),
    intro: words.flag(8),
    anchorDay: words.number(9),
    untilSec: words.number(10),
    nextPlanId: idOrNone(words.hash(11)),
    status,
    allowance: { cap: words.uint(13), spent: words.uint(14), remaining: words.uint(15), debits: words.number(17) },
  };
}
