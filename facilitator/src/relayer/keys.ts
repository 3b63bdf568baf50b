/**
 * Opens the service's keys. A local key signs with native secp256k1, RFC 6979 nonces and low s: the same digest always
 * gives the same signature. A key management service gives a different signature each time.
 */
import type { KeySource } from "../config/key-source";
import { openKmsSigner } from "./kms";
import { type DigestSigner, digestSigner } from "./signer";

export interface SignerOptions {
  /** endpoint of the key management service; its default when absent */
  readonly kmsEndpoint?: string | undefined;
}

/**
 * Opens the signer of a key.
 * @throws ConfigError when the key cannot sign here, Unavailable when its service does not answer
 */
export async function openSigner(source: KeySource, { kmsEndpoint }: SignerOptions): Promise<DigestSigner> {
  if (source.kind === "local") return digestSigner(source.key);
  return openKmsSigner({ keyId: source.keyId, endpoint: kmsEndpoint });
}
