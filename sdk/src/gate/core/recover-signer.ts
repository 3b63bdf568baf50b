/**
 * Recovers a digest's signer: by the native package `secp256k1` where the application has installed it (twenty times as
 * fast), otherwise by the portable library. Both are equally strict.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import {
  type Address,
  checksum,
  type Hex,
  hexToBytes,
  keccak256,
  recoverSigner as recoverPortably,
  SIGNATURE_65,
} from "../../protocol";

interface Native {
  signatureNormalize(signature: Uint8Array): Uint8Array;
  ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: boolean): Uint8Array;
}

function loadNative(): Native | undefined {
  try {
    // The bindings themselves: the package's own fallback would be slower than ours.
    return createRequire(join(process.cwd(), "package.json"))("secp256k1/bindings") as Native;
  } catch {
    // Not installed, or not built for this machine: optional.
    return undefined;
  }
}

const native = loadNative();

/** @returns undefined when it is malformed, has a high s or a v other than 27/28, or recovers nothing */
export function recoverSigner(digest: Hex, signature: string): Address | undefined {
  return native ? recoverNatively(native, digest, signature) : recoverPortably(digest, signature);
}

function recoverNatively(curve: Native, digest: Hex, signature: string): Address | undefined {
  if (!SIGNATURE_65.test(signature)) return undefined;
  const v = Number.parseInt(signature.slice(130), 16);
  if (v !== 27 && v !== 28) return undefined;
  const compact = hexToBytes(signature.slice(0, 130) as Hex);
  try {
    // Normalising changes a high s: then it was one.
    const normal = curve.signatureNormalize(compact.slice());
    if (normal.some((byte, index) => byte !== compact[index])) return undefined;
    const publicKey = curve.ecdsaRecover(compact, v - 27, hexToBytes(digest), false);
    return checksum(`0x${keccak256(publicKey.slice(1)).slice(26)}`);
  } catch {
    // The library throws for r or s out of range and for points off the curve: no signer.
    return undefined;
  }
}
