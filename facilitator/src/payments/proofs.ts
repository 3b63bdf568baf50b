/**
 * Issues the proof of a settled payment: a pure function of the request, the chain's facts and the signer. Proofs are
 * not stored.
 */
import {
  type Hex,
  type PaymentProof,
  PROOF_LIFE_SEC,
  proofDigest,
  type SignedPayment,
  type UnsignedPaymentProof,
} from "turnpike/protocol";
import type { PaymentRow } from "../db/tables/payments";
import type { DigestSigner } from "../relayer/signer";

/** Facts of a row that the chain has settled. */
export interface SettledFacts {
  readonly transaction: Hex;
  readonly blockNumber: number;
  /** block time, unix seconds */
  readonly settledAt: number;
}

export function settledFacts(row: PaymentRow): SettledFacts | undefined {
  if (row.state !== "settled" || row.tx_hash === null || row.block_number === null || row.block_time === null)
    return undefined;
  return { transaction: row.tx_hash as Hex, blockNumber: row.block_number, settledAt: row.block_time };
}

/** Signs the proof. @throws Unavailable when a remote key's service does not answer */
export async function issueProof(
  signed: SignedPayment,
  facts: SettledFacts,
  chainId: number,
  signer: DigestSigner,
): Promise<PaymentProof> {
  const unsigned: UnsignedPaymentProof = {
    version: "1",
    network: signed.network,
    token: signed.token,
    payer: signed.authorization.from,
    payTo: signed.authorization.to,
    amount: signed.authorization.value,
    memo: signed.memo,
    resource: signed.resource,
    ...facts,
    expiresAt: facts.settledAt + PROOF_LIFE_SEC,
    facilitator: signer.address,
  };
  return { ...unsigned, signature: await signer.signDigest(proofDigest(unsigned, chainId)) };
}
