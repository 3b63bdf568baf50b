/**
 * Encodes calldata for one transfer directly to its token, and for many through the BatchSettler. Hand-written because
 * every payment runs through it; a test compares it with ethers.
 */
import type { Address, Hex, TransferAuthorization } from "turnpike/protocol";

export interface SignedTransfer extends TransferAuthorization {
  readonly token: Address;
  readonly signature: Hex;
}

/** transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32) */
const TRANSFER_VRS = "e3ee160e";

/** transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes) */
const TRANSFER_BYTES = "cf092995";

/** settle((address,address,address,uint256,uint256,uint256,bytes32,bytes)[],uint256) */
const SETTLE = "8d6ee4ff";

const WORD = 32;

const SIGNATURE_DIGITS = 130;

const word = (value: bigint | number): string => value.toString(16).padStart(64, "0");

const addressWord = (address: Address): string => address.slice(2).toLowerCase().padStart(64, "0");

/** Returns the length, then the bytes, padded to whole words. */
function bytesWords(bytes: Hex): string {
  const digits = bytes.slice(2).toLowerCase();
  return word(digits.length / 2) + digits.padEnd(Math.ceil(digits.length / 64) * 64, "0");
}

const terms = (transfer: SignedTransfer): string =>
  addressWord(transfer.from) +
  addressWord(transfer.to) +
  word(transfer.value) +
  word(transfer.validAfter) +
  word(transfer.validBefore) +
  transfer.nonce.slice(2).toLowerCase();

/** Uses the v, r, s form for 65-byte signatures: some tokens have no other form. */
export function transferCalldata(transfer: SignedTransfer): Hex {
  const digits = transfer.signature.slice(2).toLowerCase();
  if (digits.length === SIGNATURE_DIGITS) {
    return `0x${TRANSFER_VRS}${terms(transfer)}${digits.slice(128).padStart(64, "0")}${digits.slice(0, 128)}`;
  }
  return `0x${TRANSFER_BYTES}${terms(transfer)}${word(7 * WORD)}${bytesWords(transfer.signature)}`;
}

export function settleCalldata(transfers: readonly SignedTransfer[], gasPerItem: number): Hex {
  const items = transfers.map(
    (transfer) => addressWord(transfer.token) + terms(transfer) + word(8 * WORD) + bytesWords(transfer.signature),
  );
  let offset = items.length * WORD;
  let heads = "";
  for (const item of items) {
    heads += word(offset);
    offset += item.length / 2;
  }
  return `0x${SETTLE}${word(2 * WORD)}${word(gasPerItem)}${word(items.length)}${heads}${items.join("")}`;
}
