/** A wallet whose signatures are valid every time and never the same twice, as with hedged nonces. */

import { secp256k1 } from "@noble/curves/secp256k1";
import { walletFromKey } from "turnpike/agent";
import { type TypedData, type TypedDataField, typedDataDigest } from "turnpike/protocol";
import { testKey } from "./world";

export function moodyWallet(role: string) {
  return {
    getAddress: walletFromKey(testKey(role)).getAddress,
    signTypedData: async (domain: object, types: Record<string, TypedDataField[]>, message: object) => {
      const primaryType = Object.keys(types)[0] ?? "";
      const digest = typedDataDigest({ domain, types, message, primaryType } as unknown as TypedData);
      const signature = secp256k1.sign(digest.slice(2), testKey(role).slice(2), { lowS: true, extraEntropy: true });
      return `0x${signature.toCompactHex()}${(27 + signature.recovery).toString(16)}`;
    },
  };
}
