/**
 * Defines every typed message that a subscriber or payer signs: Turnpike's, EIP-3009's, EIP-2612's, the root's.
 */
import type { Address } from "./address";
import type { TypedData, TypedDataDomain, TypedDataField, TypedDataValue } from "./eip712";
import type { Hex } from "./hex";

const field = (declaration: string): TypedDataField => {
  const [type, name] = declaration.split(" ") as [TypedDataField["type"], string];
  return { name, type };
};

const struct = (declaration: string): readonly TypedDataField[] => declaration.split(",").map(field);

const TYPES = {
  Subscribe: struct("address subscriber,bytes32 planId,bytes32 secretHash,uint256 maxOverage,uint256 deadline"),
  Pause: struct("address subscriber,bytes32 idHash,uint16 version,uint256 deadline"),
  Resume: struct("address subscriber,bytes32 idHash,uint256 maxCharge,uint16 version,uint256 deadline"),
  Cancel: struct("address subscriber,bytes32 idHash,bool atPeriodEnd,uint16 version,uint256 deadline"),
  SetMaxOverage: struct("address subscriber,bytes32 idHash,uint256 cap,uint16 version,uint256 deadline"),
  ChangePlan: struct(
    "address subscriber,bytes32 idHash,bytes32 newPlanId,uint256 maxOverage,uint256 maxCharge,uint16 version,uint256 deadline",
  ),
  Rekey: struct("address subscriber,bytes32 idHash,bytes32 newSecretHash,uint16 version,uint256 deadline"),
  TransferWithAuthorization: struct(
    "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce",
  ),
  Permit: struct("address owner,address spender,uint256 value,uint256 nonce,uint256 deadline"),
  TurnpikeRoot: struct("string warning"),
} as const;

/** A change of a subscription that is made by a signature. */
export type SignedAct = "Pause" | "Resume" | "Cancel" | "SetMaxOverage" | "ChangePlan" | "Rekey";

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

/** The fields of a signup; `maxOverage` in base units, `deadline` in unix seconds. */
export interface SubscribeMessage {
  readonly subscriber: Address;
  readonly planId: Hex;
  readonly secretHash: Hex;
  readonly maxOverage: bigint;
  readonly deadline: bigint;
}

/** What a subscriber signs to sign up. */
export function subscribeTypedData(deployment: TurnpikeDeployment, message: SubscribeMessage): TypedData {
  return typed(turnpikeDomain(deployment), "Subscribe", { ...message });
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
  readonly Resume: { readonly maxCharge: bigint };
  readonly Cancel: { readonly atPeriodEnd: boolean };
  readonly SetMaxOverage: { readonly cap: bigint };
  readonly ChangePlan: { readonly newPlanId: Hex; readonly maxOverage: bigint; readonly maxCharge: bigint };
  readonly Rekey: { readonly newSecretHash: Hex };
}

/** A subscriber's change: `pause`, `resume`, `cancel`, `setMaxOverage`, `changePlan` or `rekey` BySig. */
export function actTypedData<A extends SignedAct>(
  deployment: TurnpikeDeployment,
  act: A,
  message: ActBase & ActFields[A],
): TypedData {
  return typed(turnpikeDomain(deployment), act, { ...message });
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
