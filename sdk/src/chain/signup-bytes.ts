import { AbiCoder } from "ethers/abi";
import type { Hex } from "../protocol";
import { fieldsOf, wrongKind } from "../protocol/arguments";

const VOUCHER = "tuple(address signer, uint96 firstAmount, uint32 firstInterval, uint256 deadline, bytes signature)";
const PERMIT = "tuple(uint256 value, uint256 deadline, bytes signature)";

function encode(type: string, field: string, value: object | undefined): Hex {
  if (value === undefined) return "0x";
  const fields = fieldsOf(value, field);
  try {
    return AbiCoder.defaultAbiCoder().encode([type], [fields]) as Hex;
  } catch {
    throw wrongKind(value, field, `what the contract takes: ${type.slice("tuple".length)}`);
  }
}

/** Encodes a provider's voucher for `Turnpike.subscribe`. @param voucher none: empty bytes */
export const encodeVoucher = (voucher?: {
  readonly signer: string;
  readonly firstAmount: bigint;
  /** seconds */
  readonly firstInterval: number;
  /** unix seconds, inclusive */
  readonly deadline: bigint;
  readonly signature: string;
}): Hex => encode(VOUCHER, "voucher", voucher);

/** Encodes an EIP-2612 permit for `Turnpike.subscribe`. @param permit none: empty bytes */
export const encodePermit = (permit?: {
  /** base units */
  readonly value: bigint;
  /** unix seconds, inclusive */
  readonly deadline: bigint;
  readonly signature: string;
}): Hex => encode(PERMIT, "permit", permit);
