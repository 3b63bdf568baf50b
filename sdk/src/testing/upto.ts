/** Signs a test payer's payment of the scheme `upto`, as stock clients do. */
import {
  type Address,
  addressOfKey,
  ConfigError,
  checksum,
  decodeJsonHeader,
  encodeJsonHeader,
  HEADER,
  type Hex,
  randomBytes,
  signDigest,
  toHex,
  typedDataDigest,
} from "../protocol";
import { aText } from "../protocol/arguments";
import { proxiedTransfer } from "../protocol/transfer-methods";

export interface TestPayer {
  readonly chainId: number;
  /** unix seconds */
  readonly nowSec: number;
  readonly key: Hex;
}

interface UptoEntry {
  readonly scheme: string;
  readonly asset: string;
  readonly amount: string;
  readonly payTo: string;
  readonly maxTimeoutSeconds: number;
  readonly extra: { readonly facilitatorAddress: Address };
}

/** @param header value of PAYMENT-REQUIRED. @throws ConfigError when it offers no `upto` option */
export function payUpto(header: string, { chainId, nowSec, key }: TestPayer): Record<string, string> {
  aText(header, "header");
  const { accepts, resource } = decodeJsonHeader(header) ?? {};
  const accepted = (Array.isArray(accepts) ? (accepts as UptoEntry[]) : []).find((entry) => entry?.scheme === "upto");
  if (!accepted) throw new ConfigError('payUpto() needs the PAYMENT-REQUIRED of a 402 with a price of type "upto"');
  const { typedData, payload } = proxiedTransfer(chainId, {
    from: addressOfKey(key),
    token: checksum(accepted.asset),
    amount: BigInt(accepted.amount),
    nonce: BigInt(toHex(randomBytes(32))),
    deadline: BigInt(nowSec + accepted.maxTimeoutSeconds),
    to: checksum(accepted.payTo),
    facilitator: accepted.extra.facilitatorAddress,
  });
  const signed = payload(signDigest(typedDataDigest(typedData), key));
  return { [HEADER.paymentSignatureV2]: encodeJsonHeader({ x402Version: 2, resource, accepted, payload: signed }) };
}
