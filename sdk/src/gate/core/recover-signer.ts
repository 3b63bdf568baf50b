/**
 * Recovers a digest's signer: by the native package `secp256k1` where the application has installed it (twenty times as
 * fast), otherwise by the portable library. Both are equally strict.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import {
  type RecoverSigner,
  type RecoveryCurve,
  recoverSigner as recoverPortably,
  signerRecovery,
} from "../../protocol";

function loadNative(): RecoveryCurve | undefined {
  try {
    // The bindings themselves: the package's own fallback would be slower than ours.
    return createRequire(join(process.cwd(), "package.json"))("secp256k1/bindings") as RecoveryCurve;
  } catch {
    // Not installed, or not built for this machine: optional.
    return undefined;
  }
}

const native = loadNative();

export const recoverSigner: RecoverSigner = native ? signerRecovery(native) : recoverPortably;
