/**
 * Fetches the proof of one signed payment, and checks that it is sound: signed, by a signer of its Facilitator, over
 * exactly what the agent asked for. Posting the same authorization again is safe: the token moves the money once,
 * regardless of the sender. Whether the provider accepts a proof is the provider's decision.
 */
import {
  findNetwork,
  isProofSignedBy,
  isTurnpikeError,
  type PaymentProof,
  type PaymentProofWire,
  paymentProofSchema,
  proofToWire,
  sameAddress,
  type TurnpikeError,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { Facilitator } from "../core/facilitators";
import type { PaymentEntry } from "../ledger/ledger-store";

export type ProofAnswer =
  | { readonly kind: "proof"; readonly proof: PaymentProof }
  /** the Facilitator says that it has settled, and its proof is invalid */
  | { readonly kind: "unsound"; readonly fault: ProofFault }
  | { readonly kind: "pending"; readonly retryAfterSec: number }
  | { readonly kind: "refused"; readonly error: TurnpikeError }
  | { readonly kind: "unavailable"; readonly error: TurnpikeError };

/** What is wrong with a proof, as the end of a sentence that begins with "a proof". */
type ProofFault = string;

/** Asks one Facilitator once. Only a sound proof is returned. @throws what the caller's own signal aborts with */
export async function askForProof(
  context: AgentContext,
  facilitator: Facilitator,
  { entry, signal }: { readonly entry: PaymentEntry; readonly signal: AbortSignal | undefined },
): Promise<ProofAnswer> {
  const { signedPayment } = entry;
  if (!signedPayment) throw new TypeError(`payment ${entry.id} has no authorization to post`);
  try {
    // Read in parallel: it costs the payment no time, and the answer is kept for the next one.
    void facilitator.proofSigners();
    const outcome = await facilitator.client.authorize(signedPayment, { signal });
    if (outcome.kind !== "settled") return outcome;
    const { proof } = outcome;
    const fault = faultOfProof(context, entry, proof) ?? (await faultOfSigner(facilitator, proof));
    return fault === undefined ? { kind: "proof", proof } : { kind: "unsound", fault };
  } catch (error) {
    signal?.throwIfAborted();
    if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
    return { kind: "unavailable", error };
  }
}

/** @returns undefined when the terms are the payment's own and the named signer signed them */
function faultOfProof({ networks }: AgentContext, entry: PaymentEntry, proof: PaymentProof): ProofFault | undefined {
  const signed = entry.signedPayment;
  const matches: Readonly<Record<string, boolean>> = {
    network: findNetwork(proof.network, networks)?.chainId === entry.chainId,
    token: sameAddress(proof.token, entry.token),
    payer: sameAddress(proof.payer, entry.payer),
    payTo: sameAddress(proof.payTo, entry.payTo),
    amount: proof.amount === BigInt(entry.amount),
    // A served payment keeps its proof longer than its authorization.
    memo: signed === undefined || proof.memo === signed.memo,
    // Over MCP the payment names the tool, and the ledger its server too.
    resource: proof.resource === (signed?.resource ?? entry.resource),
  };
  const wrong = Object.keys(matches).find((field) => !matches[field]);
  if (wrong !== undefined) return `of another payment: its ${wrong} differs`;
  if (!isProofSignedBy(proof, entry.chainId, proof.facilitator)) {
    return `that ${proof.facilitator}, which it names as its signer, did not sign`;
  }
  return undefined;
}

/**
 * Checks a proof's signer. Signers that the agent's options pin count alone; otherwise those that the Facilitator
 * announces. The list is read again for a signer that is not in it, since keys are rotated. A Facilitator that
 * announces none is not refused for it: the provider rejects what it does not trust, and the agent then fetches another
 * proof.
 */
async function faultOfSigner(facilitator: Facilitator, proof: PaymentProof): Promise<ProofFault | undefined> {
  const isKnown = (signers: readonly string[] | undefined) =>
    signers === undefined || signers.some((signer) => sameAddress(signer, proof.facilitator));
  if (isKnown(await facilitator.proofSigners())) return undefined;
  if (facilitator.pinned) return `signed by ${proof.facilitator}, which is not among its pinned signers`;
  if (isKnown(await facilitator.proofSigners({ again: true }))) return undefined;
  return `signed by ${proof.facilitator}, which it does not announce as its signer`;
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

export function withProof(entry: PaymentEntry, proof: PaymentProof): PaymentEntry {
  const { proofSeen: _known, ...kept } = entry;
  return { ...kept, state: "settled", proof: proofToWire(proof) };
}

/** Asks each of these once, in turn. @returns the first sound proof that `isWanted` */
export async function firstSoundProof(
  context: AgentContext,
  facilitators: Iterable<Facilitator>,
  job: {
    readonly entry: PaymentEntry;
    readonly signal: AbortSignal | undefined;
    readonly isWanted?: (proof: PaymentProof) => boolean;
  },
): Promise<PaymentProof | undefined> {
  for (const facilitator of facilitators) {
    const answer = await askForProof(context, facilitator, job);
    if (answer.kind === "proof" && (job.isWanted?.(answer.proof) ?? true)) return answer.proof;
  }
  return undefined;
}

export interface FreshProofs {
  /** @returns the payment with a proof that has not been presented yet; undefined when no Facilitator has one */
  next(entry: PaymentEntry, signal: AbortSignal | undefined): Promise<PaymentEntry | undefined>;
}

/** Replaces proofs that a provider rejects. Asks each configured Facilitator at most once, however often it is used. */
export function freshProofs(context: AgentContext): FreshProofs {
  let unasked: Facilitator[] | undefined;
  const rejected = new Set<string>();
  function* remaining(named: Facilitator | undefined): Generator<Facilitator> {
    unasked ??= context.facilitators.inOrder(named);
    for (let next = unasked.shift(); next; next = unasked.shift()) yield next;
  }
  return {
    async next(entry, signal) {
      if (!entry.signedPayment || !entry.proof) return undefined;
      rejected.add(entry.proof.signature);
      const named = context.facilitators.find(entry.facilitator);
      const isWanted = ({ signature }: PaymentProof) => !rejected.has(signature);
      const proof = await firstSoundProof(context, remaining(named), { entry, signal, isWanted });
      return proof && withProof(entry, proof);
    },
  };
}
