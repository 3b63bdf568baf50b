/** Turnpike's logs as typed facts. Amounts are base units, times unix seconds. */
import { AbiCoder, type Result } from "ethers/abi";
import { getBytes } from "ethers/utils";
import { type Address, checksum, type Hex, idOrNone, lengthOf, type PeriodLength, ZERO_ADDRESS } from "../protocol";
import { aList, aText, fieldsOf } from "../protocol/arguments";
import { turnpikeInterface } from "./abi";

/** A log as JSON-RPC answers it. */
export interface RawLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly blockNumber: string;
  readonly blockHash: string;
  readonly transactionHash: string;
  readonly logIndex: string;
  readonly removed?: boolean;
}

/** An event of the contract, decoded; amounts in base units, times in unix seconds. */
export type TurnpikeEvent =
  | {
      readonly name: "PlanCreated";
      readonly planId: Hex;
      readonly provider: Address;
      readonly index: number;
      readonly terms: PeriodLength & {
        readonly token: Address;
        readonly amount: bigint;
        readonly graceSec: number;
        readonly payTo: Address;
      };
      readonly salt: Hex;
      /** anyone's bytes: what is no UTF-8 is replaced by U+FFFD, and NUL and control characters may be in it */
      readonly metadata: string;
    }
  | { readonly name: "PlanClosed"; readonly planId: Hex; readonly successor: Hex }
  | { readonly name: "PlanEnded"; readonly planId: Hex }
  | { readonly name: "OperatorSet"; readonly planId: Hex; readonly account: Address; readonly rights: number }
  | {
      readonly name: "PayToProposed";
      readonly planId: Hex;
      /** undefined: withdrawn */
      readonly payTo: Address | undefined;
      readonly effectiveAtSec: number;
      readonly by: Address;
    }
  | { readonly name: "PayToMoved"; readonly planId: Hex; readonly payTo: Address }
  | { readonly name: "PlanOffered"; readonly planId: Hex; readonly nextProvider: Address | undefined }
  | { readonly name: "PlanTransferred"; readonly planId: Hex; readonly provider: Address }
  | { readonly name: "VoucherUsed"; readonly idHash: Hex; readonly signer: Address; readonly firstAmount: bigint }
  | { readonly name: "Voided"; readonly idHash: Hex; readonly subscriber: Address }
  | { readonly name: "Anchored"; readonly idHash: Hex; readonly day: number }
  | {
      readonly name: "NextSet";
      readonly idHash: Hex;
      /** 0: no end */
      readonly untilSec: number;
      readonly nextPlanId: Hex | undefined;
    }
  | { readonly name: "ChangeMade"; readonly idHash: Hex; readonly newPlanId: Hex }
  | {
      readonly name: "Subscribed";
      readonly idHash: Hex;
      readonly planId: Hex;
      readonly subscriber: Address;
      readonly maxOverage: bigint;
      readonly paidThroughSec: number;
    }
  | { readonly name: "Renewed"; readonly idHash: Hex; readonly paidThroughSec: number }
  | { readonly name: "RenewalFailed"; readonly idHash: Hex; readonly reason: Hex }
  | { readonly name: "Paused"; readonly idHash: Hex }
  | { readonly name: "Resumed"; readonly idHash: Hex; readonly charged: bigint; readonly paidThroughSec: number }
  | { readonly name: "Cancelled"; readonly idHash: Hex; readonly atPeriodEnd: boolean; readonly by: Address }
  | { readonly name: "MaxOverageSet"; readonly idHash: Hex; readonly cap: bigint }
  | {
      readonly name: "PlanChanged";
      readonly idHash: Hex;
      readonly newPlanId: Hex;
      readonly maxOverage: bigint;
      readonly charged: bigint;
      readonly paidThroughSec: number;
    }
  | { readonly name: "Rekeyed"; readonly idHash: Hex; readonly newIdHash: Hex }
  | { readonly name: "Debited"; readonly idHash: Hex; readonly amount: bigint; readonly index: bigint }
  | {
      readonly name: "DebitFailed";
      readonly idHash: Hex;
      readonly amount: bigint;
      readonly index: bigint;
      readonly reason: Hex;
    };

type Reader<N extends TurnpikeEvent["name"]> = (
  args: Result,
  data: string,
) => Omit<Extract<TurnpikeEvent, { name: N }>, "name">;

const accountOrNone = (account: string): Address | undefined =>
  account === ZERO_ADDRESS ? undefined : checksum(account);

const idHash = (args: Result) => ({ idHash: args.idHash as Hex });

const paidThrough = (args: Result) => ({ paidThroughSec: Number(args.paidThrough) });

const READERS: { readonly [N in TurnpikeEvent["name"]]: Reader<N> } = {
  PlanCreated: (args, data) => ({
    planId: args.planId as Hex,
    provider: checksum(args.provider),
    index: Number(args.index),
    terms: {
      token: checksum(args.terms.token),
      amount: args.terms.amount as bigint,
      ...lengthOf({ unit: args.terms.months ? "month" : "second", count: Number(args.terms.interval) }),
      graceSec: Number(args.terms.grace),
      payTo: checksum(args.terms.payTo),
    },
    salt: args.salt as Hex,
    metadata: metadataOf(data),
  }),
  PlanClosed: (args) => ({ planId: args.planId as Hex, successor: args.successor as Hex }),
  PlanEnded: (args) => ({ planId: args.planId as Hex }),
  OperatorSet: (args) => ({
    planId: args.planId as Hex,
    account: checksum(args.account),
    rights: Number(args.rights),
  }),
  PayToProposed: (args) => ({
    planId: args.planId as Hex,
    payTo: accountOrNone(args.payTo),
    effectiveAtSec: Number(args.effectiveAt),
    by: checksum(args.by),
  }),
  PayToMoved: (args) => ({ planId: args.planId as Hex, payTo: checksum(args.payTo) }),
  PlanOffered: (args) => ({ planId: args.planId as Hex, nextProvider: accountOrNone(args.nextProvider) }),
  PlanTransferred: (args) => ({ planId: args.planId as Hex, provider: checksum(args.provider) }),
  VoucherUsed: (args) => ({
    ...idHash(args),
    signer: checksum(args.signer),
    firstAmount: args.firstAmount as bigint,
  }),
  Voided: (args) => ({ ...idHash(args), subscriber: checksum(args.subscriber) }),
  Anchored: (args) => ({ ...idHash(args), day: Number(args.day) }),
  NextSet: (args) => ({ ...idHash(args), untilSec: Number(args.until), nextPlanId: idOrNone(args.nextPlanId) }),
  ChangeMade: (args) => ({ ...idHash(args), newPlanId: args.newPlanId as Hex }),
  Subscribed: (args) => ({
    ...idHash(args),
    ...paidThrough(args),
    planId: args.planId as Hex,
    subscriber: checksum(args.subscriber),
    maxOverage: args.maxOverage as bigint,
  }),
  Renewed: (args) => ({ ...idHash(args), ...paidThrough(args) }),
  RenewalFailed: (args) => ({ ...idHash(args), reason: args.reason as Hex }),
  Paused: idHash,
  Resumed: (args) => ({ ...idHash(args), ...paidThrough(args), charged: args.charged as bigint }),
  Cancelled: (args) => ({ ...idHash(args), atPeriodEnd: args.atPeriodEnd as boolean, by: checksum(args.by) }),
  MaxOverageSet: (args) => ({ ...idHash(args), cap: args.cap as bigint }),
  PlanChanged: (args) => ({
    ...idHash(args),
    ...paidThrough(args),
    newPlanId: args.newPlanId as Hex,
    maxOverage: args.maxOverage as bigint,
    charged: args.charged as bigint,
  }),
  Rekeyed: (args) => ({ ...idHash(args), newIdHash: args.newIdHash as Hex }),
  Debited: (args) => ({ ...idHash(args), amount: args.amount as bigint, index: args.index as bigint }),
  DebitFailed: (args) => ({
    ...idHash(args),
    amount: args.amount as bigint,
    index: args.index as bigint,
    reason: args.reason as Hex,
  }),
};

/** Its `string` read as the bytes that it is: ethers throws on what is no UTF-8, and anyone may emit that. */
const PLAN_CREATED_DATA =
  turnpikeInterface
    .getEvent("PlanCreated")
    ?.inputs.filter(({ indexed }) => !indexed)
    .map((input) => (input.type === "string" ? "bytes" : input)) ?? [];

function metadataOf(data: string): string {
  const bytes = AbiCoder.defaultAbiCoder().decode(PLAN_CREATED_DATA, data).at(-1);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(getBytes(bytes));
}

/** @returns undefined for a log that is none of Turnpike's events; whether its address is Turnpike's is the caller's */
export function decodeTurnpikeLog(log: Pick<RawLog, "topics" | "data">): TurnpikeEvent | undefined {
  aList(fieldsOf(log, "log").topics, "log.topics");
  aText(log.data, "log.data");
  const parsed = turnpikeInterface.parseLog({ topics: [...log.topics], data: log.data });
  if (!parsed || !Object.hasOwn(READERS, parsed.name)) return undefined;
  const name = parsed.name as TurnpikeEvent["name"];
  return { name, ...READERS[name](parsed.args, log.data) } as TurnpikeEvent;
}
