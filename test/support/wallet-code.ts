/** A contract wallet (ERC-1271) whose signatures are no 65 bytes, as those of smart wallets. */
import type { Address, Hex } from "turnpike/protocol";

/** Runtime code that accepts a key's signature as three words v, r, s: no v,r,s form of a permit has that length. */
export const walletCodeOf = (owner: Address): string =>
  [
    "0x60043560005260606064602037", // hash, v, r, s to memory
    "602060806080600060015afa50", // ecrecover of these
    `73${owner.slice(2)}60805114`, // whether it is the owner
    "631626ba7e60e01b0260005260206000f3", // the word of ERC-1271, or zero
  ].join("");

export const inWords = (signature: string): Hex =>
  `0x${signature.slice(130).padStart(64, "0")}${signature.slice(2, 130)}`;
