/**
 * Asks Facilitators for the proof of one signed payment. Posting the same authorization again is safe: the token moves
 * the money once, regardless of the sender. Only a sound proof is returned.
 */
import { isTurnpikeError, type PaymentProof, proofToWire, type TurnpikeError } from "../../protocol";
import type { AgentContext } from "../core/context";
import type { Facilitator } from "../core/facilitators";
import type { PaymentEntry } from "../ledger/ledger-store";
import { faultOfProof, faultOfSigner, type ProofFault } from "./check-proof";

export type ProofAnswer =
  | { readonly kind: "proof"; readonly proof: PaymentProof }
  /** the Facilitator says that it has settled, and its proof is invalid */
  | { readonly kind: "unsound"; readonly fault: ProofFault }
  | { readonly kind: "pending"; readonly retryAfterSec: number }
  | { readonly kind: "refused"; readonly error: TurnpikeError }
  | { readonly kind: "unavailable"; readonly error: TurnpikeError };

/** Asks one Facilitator once. @throws what the caller's own signal aborts with */
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

/** The entry once its payment is proven to have settled. */
export function withProof(entry: PaymentEntry, proof: PaymentProof): PaymentEntry {
  const { proofSeen: _known, ...kept } = entry;
  return { ...kept, state: "settled", proof: proofToWire(proof) };
}
