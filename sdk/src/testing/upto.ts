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
  permit2TypedData,
  randomBytes,
  signDigest,
  toHex,
  typedDataDigest,
  UPTO_PERMIT2_PROXY,
} from "../protocol";
import { aText } from "../protocol/arguments";

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
  const signed = {
    from: addressOfKey(key),
    token: checksum(accepted.asset),
    amount: BigInt(accepted.amount),
    spender: UPTO_PERMIT2_PROXY,
    nonce: BigInt(toHex(randomBytes(32))),
    validAfter: 0n,
    deadline: BigInt(nowSec + accepted.maxTimeoutSeconds),
    to: checksum(accepted.payTo),
    facilitator: accepted.extra.facilitatorAddress,
  };
  const signature = signDigest(typedDataDigest(permit2TypedData(chainId, signed)), key);
  const { from, token, amount, spender, nonce, deadline, to, facilitator } = signed;
  const permit2Authorization = {
    from,
    spender,
    nonce: `${nonce}`,
    deadline: `${deadline}`,
    permitted: { token, amount: `${amount}` },
    witness: { to, facilitator, validAfter: "0" },
  };
  const payload = { signature, permit2Authorization };
  return { [HEADER.paymentSignatureV2]: encodeJsonHeader({ x402Version: 2, resource, accepted, payload }) };
}
