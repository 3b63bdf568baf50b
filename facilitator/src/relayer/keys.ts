/**
 * The service's keys and everything that signs with them. Native secp256k1 with RFC 6979 nonces and low s: the same
 * digest always gives the same signature.
 */
import { Signature, Transaction } from "ethers";
import secp256k1 from "secp256k1";
import { type Address, addressOfKey, type Hex, hexToBytes, toHex } from "turnpike/protocol";
import type { Secret } from "../config";

export interface DigestSigner {
  readonly address: Address;
  /** 65 bytes r || s || v */
  signDigest(digest: Hex): Hex;
}

export function digestSigner(key: Secret<Hex>): DigestSigner {
  const bytes = hexToBytes(key.reveal());
  return {
    address: addressOfKey(key.reveal()),
    signDigest(digest) {
      const { signature, recid } = secp256k1.ecdsaSign(hexToBytes(digest), bytes);
      return `${toHex(signature)}${(27 + recid).toString(16)}` as Hex;
    },
  };
}

export interface TransactionFields {
  readonly chainId: number;
  readonly nonce: number;
  readonly to: Address;
  readonly data: Hex;
  readonly gasLimit: bigint;
  readonly maxFeeWei: bigint;
  readonly priorityFeeWei: bigint;
}

export interface SignedTransaction {
  readonly hash: Hex;
  readonly raw: Hex;
}

/** An EIP-1559 transaction, signed. */
export function signTransaction(signer: DigestSigner, fields: TransactionFields): SignedTransaction {
  const transaction = Transaction.from({
    type: 2,
    chainId: fields.chainId,
    nonce: fields.nonce,
    to: fields.to,
    data: fields.data,
    gasLimit: fields.gasLimit,
    maxFeePerGas: fields.maxFeeWei,
    maxPriorityFeePerGas: fields.priorityFeeWei,
    value: 0n,
  });
  transaction.signature = Signature.from(signer.signDigest(transaction.unsignedHash as Hex));
  return { hash: transaction.hash as Hex, raw: transaction.serialized as Hex };
}
