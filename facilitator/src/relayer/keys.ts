/**
 * Opens the service's keys. A local key signs with native secp256k1, RFC 6979 nonces and low s: the same digest always
 * gives the same signature. A key management service gives a different signature each time.
 */
import { type Address, ConfigError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
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

/**
 * Opens the signers of REFUND_KEYS, by provider. Each account is one provider's alone: a shared one would refund one
 * provider's payments with another's money.
 * @param others this process's further keys
 * @throws ConfigError, Unavailable as {@link openSigner} does
 */
export async function openRefundSigners(
  config: Pick<FacilitatorConfig, "refundKeys" | "kmsEndpoint">,
  others: readonly DigestSigner[],
): Promise<ReadonlyMap<Address, DigestSigner>> {
  const taken = new Set(others.map(({ address }) => address));
  const signers = new Map<Address, DigestSigner>();
  for (const { provider, source } of config.refundKeys ?? []) {
    const signer = await openSigner(source, config);
    if (taken.has(signer.address)) {
      throw new ConfigError(
        `REFUND_KEYS has the key of ${signer.address} for ${provider}, which is in use for something else: give each provider a key of its own`,
      );
    }
    taken.add(signer.address);
    signers.set(provider, signer);
  }
  return signers;
}
