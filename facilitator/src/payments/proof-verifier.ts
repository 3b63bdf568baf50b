/** Verifies proofs of payment: by the payment's row, or by the chain when this database has none. */
import {
  findNetwork,
  type Hex,
  isProofSignedBy,
  type PaymentProof,
  parseMemo,
  paymentIdOf,
  paymentNonce,
} from "turnpike/protocol";
import { signerOf } from "../chain/signer-of";
import type { FacilitatorConfig } from "../config";
import type { Db } from "../db/open";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import { findEvidence } from "./evidence";
import type { Intake } from "./intake";
import { isWhollyRefunded } from "./refunds";
import type { SettlementDepth } from "./settlement-depth";

export type ProofVerdict =
  | { readonly kind: "valid"; readonly paymentId: Hex }
  | {
      readonly kind: "invalid";
      readonly reason:
        | "network"
        | "signature"
        | "expired"
        | "unknown"
        | "pending"
        | "reversed"
        | "refunded"
        | "mismatch"
        | "signer_retired";
    };

export interface ProofVerifierOptions {
  readonly config: FacilitatorConfig;
  readonly db: Db;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly intake: Pick<Intake, "find">;
  readonly depth: SettlementDepth;
}

const invalid = (reason: (ProofVerdict & { kind: "invalid" })["reason"]): ProofVerdict => ({ kind: "invalid", reason });

/** Returns the id and the nonce of the payment that a proof is about. */
export function paymentOfProof(
  { token, payer, memo, resource }: PaymentProof,
  chainId: number,
): { readonly paymentId: Hex; readonly nonce: Hex } {
  const nonce = paymentNonce(parseMemo(memo)?.ref ?? memo, resource);
  return { paymentId: paymentIdOf({ chainId, token, payer, nonce }), nonce };
}

export class ProofVerifier {
  readonly #options: ProofVerifierOptions;

  constructor(options: ProofVerifierOptions) {
    this.#options = options;
  }

  /** @throws Unavailable when the chain is needed and does not answer */
  async verify(proof: PaymentProof): Promise<ProofVerdict> {
    const { config, db, relayer, indexer, intake, depth } = this.#options;
    const { chainId } = config;
    if (findNetwork(proof.network)?.chainId !== chainId) return invalid("network");
    if (!relayer.trustedSigners.find(proof.facilitator)) return invalid("signature");
    if (!isProofSignedBy(proof, chainId, proof.facilitator, signerOf)) return invalid("signature");
    if (proof.expiresAt <= indexer.clock.nowSec()) return invalid("expired");
    const { paymentId, nonce } = paymentOfProof(proof, chainId);
    const row = await intake.find(paymentId);
    if (!row) return this.#verifyByChain(proof, paymentId, nonce);
    depth.requireKept(row.block_number);
    if (row.is_reversed) return invalid("reversed");
    if (row.state !== "settled") return invalid("pending");
    // The payment settled again in another block: the earlier proof names a transaction that is no longer on the
    // chain.
    const isSame =
      row.tx_hash === proof.transaction && row.pay_to === proof.payTo && row.amount === proof.amount.toString();
    if (!isSame) return invalid("mismatch");
    // A large payment that a reorganisation has moved to a later block is not confirmed there yet.
    if (!depth.isDeepEnough(row)) return invalid("pending");
    // A gate with claims of its own does not know that another one has closed the purchase.
    if (await isWhollyRefunded(db, chainId, paymentId)) return invalid("refunded");
    return this.#isTrusted(proof, row.block_time) ? { kind: "valid", paymentId } : invalid("signer_retired");
  }

  /** Verifies a proof by the chain, when this service signed it but this database has no row for the payment. */
  async #verifyByChain(proof: PaymentProof, paymentId: Hex, nonce: Hex): Promise<ProofVerdict> {
    const { config, relayer, indexer, depth } = this.#options;
    const query = { paymentId, token: proof.token, payer: proof.payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, indexer.applied());
    // Evidence of a reverted block does not count.
    depth.requireKept(evidence.kind === "transfer" ? evidence.blockNumber : indexer.applied());
    if (evidence.kind !== "transfer") return invalid("unknown");
    const isSame =
      evidence.transaction === proof.transaction && evidence.to === proof.payTo && evidence.amount === proof.amount;
    if (!isSame) return invalid("mismatch");
    const row = { token: proof.token, amount: proof.amount.toString(), block_number: evidence.blockNumber };
    if (!depth.isDeepEnough(row)) return invalid("pending");
    return this.#isTrusted(proof, evidence.blockTimeSec) ? { kind: "valid", paymentId } : invalid("signer_retired");
  }

  /** @param settledAtSec block time from the row or the chain: a retired key could sign any time into its proof */
  #isTrusted({ facilitator }: PaymentProof, settledAtSec: number | null): boolean {
    const { trustedSigners } = this.#options.relayer;
    return trustedSigners.isTrustedSigner(facilitator, settledAtSec ?? Number.POSITIVE_INFINITY);
  }
}
