/**
 * Checks that a proof is sound: signed, by a signer of its Facilitator, over exactly what the agent asked for. Whether
 * the provider accepts it is the provider's decision.
 */
import {
  findNetwork,
  isProofSignedBy,
  type PaymentProof,
  type PaymentProofWire,
  paymentProofSchema,
  sameAddress,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { Facilitator } from "../core/facilitators";
import type { PaymentEntry } from "../ledger/ledger-store";

/** What is wrong with a proof, as the end of a sentence that begins with "a proof". */
export type ProofFault = string;

/** @returns undefined when the terms are the payment's own and the named signer signed them */
export function faultOfProof(
  { networks }: AgentContext,
  entry: PaymentEntry,
  proof: PaymentProof,
): ProofFault | undefined {
  const signed = entry.signedPayment;
  const matches: Readonly<Record<string, boolean>> = {
    network: findNetwork(proof.network, networks)?.chainId === entry.chainId,
    token: sameAddress(proof.token, entry.token),
    payer: sameAddress(proof.payer, entry.payer),
    payTo: sameAddress(proof.payTo, entry.payTo),
    amount: proof.amount === BigInt(entry.amount),
    // A served payment keeps its proof longer than its authorization.
    memo: signed === undefined || proof.memo === signed.memo,
    resource: proof.resource === entry.resource,
  };
  const wrong = Object.keys(matches).find((field) => !matches[field]);
  if (wrong !== undefined) return `of another payment: its ${wrong} differs`;
  if (!isProofSignedBy(proof, entry.chainId, proof.facilitator)) {
    return `that ${proof.facilitator}, which it names as its signer, did not sign`;
  }
  return undefined;
}

/** Checks a proof from the ledger, which a disk fault or another program may have changed. */
export function faultOfStoredProof(
  context: AgentContext,
  entry: PaymentEntry,
  stored: PaymentProofWire,
): ProofFault | undefined {
  const proof = paymentProofSchema.safeParse(stored);
  return proof.success ? faultOfProof(context, entry, proof.data) : "that is malformed";
}

/**
 * Checks a proof's signer. Signers that the agent's options pin count alone; otherwise those that the Facilitator
 * announces. The list is read again for a signer that is not in it, since keys are rotated. A Facilitator that
 * announces none is not refused for it: the provider rejects what it does not trust, and the agent then fetches another
 * proof.
 */
export async function faultOfSigner(facilitator: Facilitator, proof: PaymentProof): Promise<ProofFault | undefined> {
  const isKnown = (signers: readonly string[] | undefined) =>
    signers === undefined || signers.some((signer) => sameAddress(signer, proof.facilitator));
  if (isKnown(await facilitator.proofSigners())) return undefined;
  if (facilitator.pinned) return `signed by ${proof.facilitator}, which is not among its pinned signers`;
  if (isKnown(await facilitator.proofSigners({ again: true }))) return undefined;
  return `signed by ${proof.facilitator}, which it does not announce as its signer`;
}
