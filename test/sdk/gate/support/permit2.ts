/** Payloads over Permit2 as stock x402 clients sign them, for gates of the small test provider. */
import {
  type Address,
  checksum,
  encodeJsonHeader,
  type Hex,
  keccakText,
  type Permit2Authorization,
  permit2TypedData,
  proxyOf,
  signDigest,
  typedDataDigest,
} from "turnpike/protocol";
import { addressOf, CHAIN_ID, keyOf, NOW } from "../../../support/gate";
import type { Accepted } from "./standard";

export interface Permit2Changes extends Partial<Permit2Authorization> {
  /** name of the key */
  readonly payer?: string;
  /** what the payload says of the option, where it is not the quoted one */
  readonly accepted?: object;
  readonly resource?: object;
  readonly chainId?: number;
}

let nonces = 0;

/** @param changes what is signed otherwise than the entry asks */
export function permit2Headers(entry: Accepted, changes: Permit2Changes = {}): Record<string, string> {
  const { payer = "payer", chainId = CHAIN_ID, accepted, resource, ...signed } = changes;
  const isUpto = entry.scheme === "upto";
  const terms: Permit2Authorization = {
    from: addressOf(payer),
    token: checksum(entry.asset),
    amount: BigInt(entry.amount),
    spender: proxyOf(isUpto ? "upto" : "permit2"),
    nonce: BigInt(keccakText(`permit2 nonce ${nonces++}`)),
    deadline: BigInt(NOW + 300),
    to: checksum(entry.payTo),
    validAfter: 0n,
    ...(isUpto && { facilitator: entry.extra.facilitatorAddress as Address }),
    ...signed,
  };
  const signature: Hex = signDigest(typedDataDigest(permit2TypedData(chainId, terms)), keyOf(payer));
  const { from, token, amount, spender, nonce, deadline, to, validAfter, facilitator } = terms;
  const permit2Authorization = {
    from,
    spender,
    nonce: `${nonce}`,
    deadline: `${deadline}`,
    permitted: { token, amount: `${amount}` },
    witness: { to, validAfter: `${validAfter}`, ...(facilitator && { facilitator }) },
  };
  const payload = { signature, permit2Authorization };
  const body = { x402Version: 2, payload, accepted: { ...entry, ...accepted }, ...(resource && { resource }) };
  return { "PAYMENT-SIGNATURE": encodeJsonHeader(body) };
}
