/**
 * The service's keys and everything that signs with them. A key that is held here signs with native secp256k1, RFC 6979
 * nonces and low s: the same digest always gives the same signature. A key management service signs afresh each time.
 */
import secp256k1 from "secp256k1";
import { type Address, addressOfKey, type Hex, hexToBytes, toHex } from "turnpike/protocol";
import type { KeySource, Secret } from "../config";
import { openKmsSigner } from "./kms";

export interface DigestSigner {
  readonly address: Address;
  /** signs without asking anybody */
  readonly isHere: boolean;
  /**
   * 65 bytes r || s || v, with low s
   * @throws Unavailable when the key is elsewhere and nobody answers there
   */
  signDigest(digest: Hex): Hex | Promise<Hex>;
}

export interface SignerOptions {
  /** of the key management service; its own when absent */
  readonly kmsEndpoint?: string | undefined;
}

/** @throws ConfigError when the key is not one that can sign here, Unavailable when it cannot be asked */
export async function openSigner(source: KeySource, { kmsEndpoint }: SignerOptions): Promise<DigestSigner> {
  if (source.kind === "local") return digestSigner(source.key);
  return openKmsSigner({ keyId: source.keyId, endpoint: kmsEndpoint });
}

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
