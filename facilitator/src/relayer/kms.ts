/**
 * Signs with a key that never leaves AWS KMS (or a service with its wire API): ECC_SECG_P256K1, SIGN_VERIFY.
 * Credentials and region come from the AWS client's own chain. Independent of what is signed.
 */
import { computeAddress } from "ethers";
import secp256k1 from "secp256k1";
import { type Address, ConfigError, hexToBytes, toHex } from "turnpike/protocol";
import { type DigestSigner, SignerUnavailable } from "./signer";

export interface KmsKey {
  /** key id, alias or ARN */
  readonly keyId: string;
  readonly endpoint?: string | undefined;
}

const TIMEOUT_MS = 5_000;

const SPEC = "ECC_SECG_P256K1";

/** order of the group; the chain rejects an s above half of it, although it is valid mathematically */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

/**
 * Opens a signer for the key.
 * @throws ConfigError when the key is of another kind, SignerUnavailable when KMS does not answer
 */
export async function openKmsSigner({ keyId, endpoint }: KmsKey): Promise<DigestSigner> {
  // Imported only when used: the client is larger than the rest of the service.
  const { GetPublicKeyCommand, KMSClient, SignCommand } = await import("@aws-sdk/client-kms");
  const client = new KMSClient({ ...(endpoint !== undefined && { endpoint }), maxAttempts: 3 });
  const ask = <T>(act: (abort: { abortSignal: AbortSignal }) => Promise<T>): Promise<T> =>
    act({ abortSignal: AbortSignal.timeout(TIMEOUT_MS) }).catch((cause: unknown) => {
      throw new SignerUnavailable(`the key management service does not answer: ${nameOf(cause)}`, { retryAfterSec: 2 });
    });

  const answer = await ask((abort) => client.send(new GetPublicKeyCommand({ KeyId: keyId }), abort));
  if (answer.KeySpec !== SPEC || answer.KeyUsage !== "SIGN_VERIFY" || !answer.PublicKey) {
    throw new ConfigError(`the KMS key must be ${SPEC} for SIGN_VERIFY, and is ${answer.KeySpec} ${answer.KeyUsage}`);
  }
  const publicKey = publicKeyOf(answer.PublicKey);
  const address = computeAddress(toHex(publicKey)) as Address;
  return {
    address,
    isHere: false,
    async signDigest(digest) {
      const message = hexToBytes(digest);
      const { Signature: der } = await ask((abort) =>
        client.send(
          new SignCommand({ KeyId: keyId, Message: message, MessageType: "DIGEST", SigningAlgorithm: "ECDSA_SHA_256" }),
          abort,
        ),
      );
      const compact = compactOf(der);
      for (const recovery of [0, 1]) {
        if (isSame(recovered(compact, recovery, message), publicKey)) {
          return `${toHex(compact)}${(27 + recovery).toString(16)}`;
        }
      }
      // A faulty or malicious service: a signature of another key must not be sent under this address.
      throw new SignerUnavailable("the key management service answered with another key's signature");
    },
  };
}

/** Returns the uncompressed point: the last 65 bytes of a SubjectPublicKeyInfo of this curve. */
function publicKeyOf(info: Uint8Array): Uint8Array {
  const point = info.slice(-65);
  if (point.length !== 65 || point[0] !== 4 || !secp256k1.publicKeyVerify(point)) {
    throw new ConfigError("the KMS key's public key is not a point of secp256k1");
  }
  return point;
}

/** Converts DER `SEQUENCE { INTEGER r, INTEGER s }` to 64 bytes, with s in the lower half. */
export function compactOf(der: Uint8Array | undefined): Uint8Array {
  if (der?.[0] !== 0x30 || der[1] !== der.length - 2) throw malformed();
  const [r, rest] = integerOf(der.subarray(2));
  const [s, end] = integerOf(rest);
  if (end.length > 0 || r <= 0n || r >= ORDER || s <= 0n || s >= ORDER) throw malformed();
  const low = s > ORDER / 2n ? ORDER - s : s;
  return hexToBytes(`0x${wordOf(r)}${wordOf(low)}`);
}

function integerOf(bytes: Uint8Array): readonly [bigint, Uint8Array] {
  const length = bytes[1] ?? 0;
  if (bytes[0] !== 0x02 || length === 0 || length > 33 || bytes.length < 2 + length) throw malformed();
  return [BigInt(toHex(bytes.subarray(2, 2 + length))), bytes.subarray(2 + length)];
}

function recovered(compact: Uint8Array, recovery: number, message: Uint8Array): Uint8Array | undefined {
  try {
    return secp256k1.ecdsaRecover(compact, recovery, message, false);
  } catch {
    // One of the two candidates need not be a point.
    return undefined;
  }
}

const wordOf = (value: bigint): string => value.toString(16).padStart(64, "0");

const isSame = (a: Uint8Array | undefined, b: Uint8Array): boolean =>
  a !== undefined && a.length === b.length && a.every((byte, index) => byte === b[index]);

const malformed = (): SignerUnavailable => new SignerUnavailable("the key management service's signature is malformed");

/** Returns only the error's name: its message may contain accounts and keys. */
const nameOf = (cause: unknown): string => (cause instanceof Error ? cause.name : "unknown");
