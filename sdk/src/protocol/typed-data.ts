/**
 * Defines every typed message that a subscriber or payer signs: Turnpike's, EIP-3009's, EIP-2612's, the root's.
 */
import { type Address, ZERO_ADDRESS } from "./address";
import { fieldsOf, wholeOf, wrongKind } from "./arguments";
import type { TypedData, TypedDataDomain, TypedDataField, TypedDataValue } from "./eip712";
import type { Hex } from "./hex";
import { type PeriodLength, periodOf } from "./periods";

const field = (declaration: string): TypedDataField => {
  const [type, name] = declaration.split(" ") as [TypedDataField["type"], string];
  return { name, type };
};

const struct = (declaration: string): readonly TypedDataField[] => declaration.split(",").map(field);

const TYPES = {
  Subscribe: struct(
    "address subscriber,bytes32 planId,address token,address payTo,uint256 amount,uint256 interval,string unit," +
      "uint256 firstAmount,uint256 firstInterval,uint256 maxOverage,uint256 until,bytes32 secretHash,uint256 deadline",
  ),
  Voucher: struct(
    "bytes32 planId,address subscriber,bytes32 secretHash,address token,uint256 firstAmount,uint256 firstInterval," +
      "uint256 deadline",
  ),
  Void: struct("address subscriber,bytes32 secretHash,uint256 deadline"),
  Pause: struct("address subscriber,bytes32 idHash,uint16 version,uint256 deadline"),
  Resume: struct("address subscriber,bytes32 idHash,address token,uint256 maxCharge,uint16 version,uint256 deadline"),
  Cancel: struct("address subscriber,bytes32 idHash,bool atPeriodEnd,uint16 version,uint256 deadline"),
  SetMaxOverage: struct("address subscriber,bytes32 idHash,address token,uint256 cap,uint16 version,uint256 deadline"),
  SetNext: struct(
    "address subscriber,bytes32 idHash,uint40 until,bytes32 nextPlanId,address token,address payTo,uint256 amount," +
      "uint256 interval,string unit,uint16 version,uint256 deadline",
  ),
  ChangePlan: struct(
    "address subscriber,bytes32 idHash,bytes32 newPlanId,address token,address payTo,uint256 amount,uint256 interval," +
      "string unit,uint256 maxOverage,uint256 maxCharge,uint16 version,uint256 deadline",
  ),
  Rekey: struct("address subscriber,bytes32 idHash,bytes32 newSecretHash,uint16 version,uint256 deadline"),
  TransferWithAuthorization: struct(
    "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce",
  ),
  Permit: struct("address owner,address spender,uint256 value,uint256 nonce,uint256 deadline"),
  TurnpikeRoot: struct("string warning"),
} as const;

/** A change of a subscription that is made by a signature. */
export type SignedAct = "Pause" | "Resume" | "Cancel" | "SetMaxOverage" | "SetNext" | "ChangePlan" | "Rekey";

const typed = (
  domain: TypedDataDomain,
  primaryType: keyof typeof TYPES,
  message: Record<string, TypedDataValue>,
): TypedData => ({ domain, primaryType, types: { [primaryType]: TYPES[primaryType] }, message });

/** Turnpike's chain and address: every signature for it is bound to them. */
export interface TurnpikeDeployment {
  readonly chainId: number;
  readonly turnpike: Address;
}

const turnpikeDomain = ({ chainId, turnpike }: TurnpikeDeployment): TypedDataDomain => ({
  name: "Turnpike",
  version: "1",
  chainId,
  verifyingContract: turnpike,
});

/** A plan's terms as they are signed: with its present payee. */
export interface SignedTerms extends PeriodLength {
  readonly token: Address;
  readonly payTo: Address;
  /** base units */
  readonly amount: bigint;
}

/** The terms as fields that a wallet shows: `interval` counts the unit. */
export function shownTerms(terms: SignedTerms) {
  const { token, payTo, amount, ...length } = fieldsOf(terms, "terms");
  const { unit, count } = periodOf(length);
  return { token, payTo, amount, interval: wholeOf(count, "terms"), unit: `${unit}s` as const };
}

/** What a `SetNext` without a plan shows. */
const NO_TERMS = { token: ZERO_ADDRESS, payTo: ZERO_ADDRESS, amount: 0n, interval: 0n, unit: "" } as const;

/** The longest first period that the contract takes: 366 days. */
export const LONGEST_FIRST_INTERVAL_SEC = 31_622_400;

/** A first period that a provider offers to one subscriber for one secret. */
export interface FirstPeriod {
  /** base units, at most the plan's price */
  readonly firstAmount: bigint;
  /** seconds, at most 366 days; 0: one regular period */
  readonly firstInterval: number;
}

/** The fields of a signup; `maxOverage` in base units, `until` and `deadline` in unix seconds. */
export interface SubscribeMessage {
  readonly subscriber: Address;
  readonly planId: Hex;
  readonly secretHash: Hex;
  readonly maxOverage: bigint;
  /** from when on nothing is charged; absent: no end */
  readonly until?: number;
  /** of a voucher; absent: the plan's price for one period */
  readonly first?: FirstPeriod;
  readonly deadline: bigint;
}

/** What a subscriber signs to sign up. The contract checks that the terms are the plan's. */
export function subscribeTypedData(
  deployment: TurnpikeDeployment,
  terms: SignedTerms,
  message: SubscribeMessage,
): TypedData {
  fieldsOf(deployment, "deployment");
  fieldsOf(terms, "terms");
  const { first, until = 0, ...fields } = fieldsOf(message, "message");
  return typed(turnpikeDomain(deployment), "Subscribe", {
    ...fields,
    ...shownTerms(terms),
    firstAmount: first?.firstAmount ?? terms.amount,
    firstInterval: wholeOf(first?.firstInterval ?? 0, "message.first.firstInterval"),
    until: wholeOf(until, "message.until"),
  });
}

/** The fields of a voucher; `deadline` in unix seconds, inclusive. */
export interface VoucherMessage extends FirstPeriod {
  readonly planId: Hex;
  readonly subscriber: Address;
  readonly secretHash: Hex;
  /** the plan's */
  readonly token: Address;
  readonly deadline: bigint;
}

/** What an account with the VOUCHER right signs to offer another first period. */
export function voucherTypedData(deployment: TurnpikeDeployment, message: VoucherMessage): TypedData {
  fieldsOf(deployment, "deployment");
  fieldsOf(message, "message");
  return typed(turnpikeDomain(deployment), "Voucher", {
    ...message,
    firstInterval: wholeOf(message.firstInterval, "message.firstInterval"),
  });
}

/** The fields of a void; `deadline` in unix seconds, inclusive. */
export interface VoidMessage {
  readonly subscriber: Address;
  readonly secretHash: Hex;
  readonly deadline: bigint;
}

/** What a subscriber signs so that a signup that it signed for this secret is worth nothing. */
export function voidTypedData(deployment: TurnpikeDeployment, message: VoidMessage): TypedData {
  fieldsOf(deployment, "deployment");
  fieldsOf(message, "message");
  return typed(turnpikeDomain(deployment), "Void", { ...message });
}

interface ActBase {
  readonly subscriber: Address;
  readonly idHash: Hex;
  readonly version: number;
  readonly deadline: bigint;
}

/** The fields that each change has besides subscriber, idHash, version and deadline. */
export interface ActFields {
  readonly Pause: Record<never, never>;
  /** `token` is the plan's */
  readonly Resume: { readonly token: Address; readonly maxCharge: bigint };
  readonly Cancel: { readonly atPeriodEnd: boolean };
  readonly SetMaxOverage: { readonly token: Address; readonly cap: bigint };
  readonly SetNext: {
    readonly until: number;
    readonly nextPlanId: Hex;
    /** the next plan's, as they are now; absent: no plan */
    readonly terms?: SignedTerms;
  };
  readonly ChangePlan: {
    readonly newPlanId: Hex;
    readonly maxOverage: bigint;
    readonly maxCharge: bigint;
    /** the new plan's, as they are now */
    readonly terms: SignedTerms;
  };
  readonly Rekey: { readonly newSecretHash: Hex };
}

/** A subscriber's change: `pause`, `resume`, `cancel`, `setMaxOverage`, `changePlan`, `rekey` or `setNext`. */
export function actTypedData<A extends SignedAct>(
  deployment: TurnpikeDeployment,
  act: A,
  message: ActBase & ActFields[A],
): TypedData {
  fieldsOf(deployment, "deployment");
  fieldsOf(message, "message");
  if (!Object.hasOwn(TYPES, typeof act === "string" ? act : ""))
    throw wrongKind(act, "act", "Pause, Resume, Cancel, SetMaxOverage, SetNext, ChangePlan or Rekey");
  const { terms, ...fields } = message as ActBase & { readonly terms?: SignedTerms };
  const shown = terms ? shownTerms(terms) : act === "SetNext" ? NO_TERMS : {};
  return typed(turnpikeDomain(deployment), act, { ...fields, ...shown });
}

/** The token as its own EIP-712 domain: name and version as the token's contract says them. */
export interface TokenDomain {
  readonly chainId: number;
  readonly token: Address;
  readonly name: string;
  readonly version: string;
}

const tokenDomain = ({ chainId, token, name, version }: TokenDomain): TypedDataDomain => ({
  name,
  version,
  chainId,
  verifyingContract: token,
});

/** An EIP-3009 authorization; `value` in base units, `validAfter` and `validBefore` in unix seconds, exclusive. */
export interface TransferAuthorization {
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
  /** unix seconds, exclusive */
  readonly validAfter: bigint;
  /** unix seconds, exclusive */
  readonly validBefore: bigint;
  readonly nonce: Hex;
}

/** What a payer signs: an EIP-3009 transfer of the token itself. */
export function transferTypedData(token: TokenDomain, authorization: TransferAuthorization): TypedData {
  fieldsOf(token, "token");
  fieldsOf(authorization, "authorization");
  return typed(tokenDomain(token), "TransferWithAuthorization", { ...authorization });
}

/** An EIP-2612 permit; `value` in base units, `deadline` in unix seconds, inclusive. */
export interface PermitMessage {
  readonly owner: Address;
  readonly spender: Address;
  readonly value: bigint;
  readonly nonce: bigint;
  readonly deadline: bigint;
}

/** What an owner signs to approve Turnpike: an EIP-2612 permit. It *sets* the approval. */
export function permitTypedData(token: TokenDomain, message: PermitMessage): TypedData {
  fieldsOf(token, "token");
  fieldsOf(message, "message");
  return typed(tokenDomain(token), "Permit", { ...message });
}

/** What a wallet shows when it is asked for the signature that all secrets derive from. */
export const ROOT_WARNING =
  "This signature is the master key of your Turnpike subscriptions and purchases. Never sign it for a web page and never send it to anyone.";

/** The agent's root secret. `deployment` is left out for the root of purchase keys: the network is not known yet. */
export function rootTypedData(deployment?: TurnpikeDeployment): TypedData {
  const domain = deployment ? turnpikeDomain(deployment) : { name: "Turnpike", version: "1" };
  return typed(domain, "TurnpikeRoot", { warning: ROOT_WARNING });
}
