/**
 * The service's keys and everything that signs with them. A key that is held here signs with native secp256k1, RFC 6979
 * nonces and low s: the same digest always gives the same signature. A key management service signs afresh each time.
 */
import type { KeySource } from "../config/key-source";
import { openKmsSigner } from "./kms";
import { type DigestSigner, digestSigner } from "./signer";

export interface SignerOptions {
  /** of the key management service; its own when absent */
  readonly kmsEndpoint?: string | undefined;
}

/** @throws ConfigError when the key is not one that can sign here, Unavailable when it cannot be asked */
export async function openSigner(source: KeySource, { kmsEndpoint }: SignerOptions): Promise<DigestSigner> {
  if (source.kind === "local") return digestSigner(source.key);
  return openKmsSigner({ keyId: source.keyId, endpoint: kmsEndpoint });
}
