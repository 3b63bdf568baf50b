import secp256k1 from "secp256k1";
import { type Address, addressOfKey, type Hex, hexToBytes, toHex, Unavailable } from "turnpike/protocol";
import type { Secret } from "../config/setting";

export interface DigestSigner {
  readonly address: Address;
  /** whether the key is local, so that signing asks no other service */
  readonly isHere: boolean;
  /** Returns 65 bytes r || s || v, with low s. @throws SignerUnavailable when a remote key's service does not sign */
  signDigest(digest: Hex): Hex | Promise<Hex>;
}

/** The service of a remote key does not sign: it is away, throttles, refuses or answers wrongly. */
export class SignerUnavailable extends Unavailable {}

/** A digest of nothing, to see whether a key signs. */
export const PROBE_DIGEST: Hex = `0x${"5a".repeat(32)}`;

export function digestSigner(key: Secret<Hex>) {
  const bytes = hexToBytes(key.reveal());
  return {
    address: addressOfKey(key.reveal()),
    isHere: true,
    signDigest(digest: Hex): Hex {
      const { signature, recid } = secp256k1.ecdsaSign(hexToBytes(digest), bytes);
      return `${toHex(signature)}${(27 + recid).toString(16)}` as Hex;
    },
  } satisfies DigestSigner;
}
