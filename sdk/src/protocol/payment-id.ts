/**
 * Computes a one-time payment's identity: the nonce that binds it to what it buys, and the id that keys every record of
 * it.
 */
import type { Address } from "./address";
import { abiEncodeStrings, concatBytes, type Hex, hexToBytes, keccak256, wordOfAddress, wordOfUint } from "./hex";

/** The EIP-3009 nonce of a native payment: the payer's signature thereby covers `ref` and `resource`. */
export function paymentNonce(ref: string, resource: string): Hex {
  return keccak256(abiEncodeStrings(ref, resource));
}

/** What names one payment: two payers of one memo are two payments. */
export interface PaymentKey {
  readonly chainId: number;
  readonly token: Address;
  readonly payer: Address;
  readonly nonce: Hex;
}

/** keccak256(abi.encode(uint256 chainId, address token, address payer, bytes32 nonce)): of claims, proofs, status. */
export function paymentIdOf({ chainId, token, payer, nonce }: PaymentKey): Hex {
  return keccak256(concatBytes(wordOfUint(chainId), wordOfAddress(token), wordOfAddress(payer), hexToBytes(nonce)));
}
