/** Other forms of a key's signature. */
import type { Hex } from "turnpike/protocol";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/** With 0 or 1 as its v, as some wallets write it. */
export const bare = (signature: string) =>
  `${signature.slice(0, 130)}${signature.toLowerCase().endsWith("1b") ? "00" : "01"}` as Hex;

/** The same point with the other s, which anybody can make of it. */
export const highS = (signature: string) => {
  const s = (ORDER - BigInt(`0x${signature.slice(66, 130)}`)).toString(16).padStart(64, "0");
  return `${signature.slice(0, 66)}${s}${signature.toLowerCase().endsWith("1b") ? "1c" : "1b"}` as Hex;
};
