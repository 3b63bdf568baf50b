/**
 * Processes one-time payments, from a signed authorization to its outcome. `failed` is final: the payment can never
 * move money. A refusal is judged again on each request and never stored. Every unknown outcome is pending.
 */
import type { Logger } from "pino";
import {
  findNetwork,
  type Hex,
  isTurnpikeError,
  type PaymentProof,
  parseMemo,
  type SignedPayment,
  TurnpikeError,
  Unavailable,
} from "turnpike/protocol";
import { fastPaymentId, fastPaymentNonce } from "../chain/digests";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { isOutcomeUnknown } from "../db/outage";
import type { EventFeed } from "../events/feed";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import type { Failpoint } from "../telemetry/failpoints";
import type { PaymentProjection } from "./block-projection";
import { createEarlyProofs } from "./early-proofs";
import { findEvidence } from "./evidence";
import {
  type ExactFailure,
  type ExactRequest,
  type ExactVerdict,
  exactFailure,
  type Settled,
  type SettleOutcome,
} from "./exact";
import { createGrants, type SignedGrant, signGrant } from "./grants";
import { createHolds } from "./holds";
import { createIntake } from "./intake";
import { isSignedByPayer, type JudgeContext } from "./judge";
import { transactionOf } from "./ledger";
import { type PaymentRequest, refusal, requestOf, requestOfSignedPayment } from "./payment-request";
import { alreadyGranted, conflictWith, createPaymentProcessor, failureOf, type PaymentOutcome } from "./processor";
import { isProofOf, settledFacts } from "./proofs";
import { startSender } from "./sender";

export type { ExactFailure, ExactRequest, ExactVerdict, Settled, SettleOutcome } from "./exact";
export type { SignedGrant } from "./grants";
export { purchaseOfServer } from "./grants";

export interface WaitOptions {
  /** maximum time to wait for the chain, in milliseconds */
  readonly waitMs: number;
}

export interface GrantOptions extends WaitOptions {
  /** returns whether the client has disconnected; nothing is granted then */
  readonly isGone: () => boolean;
}

export type AuthorizeOutcome =
  | { readonly kind: "settled"; readonly paymentId: Hex; readonly proof: PaymentProof }
  | { readonly kind: "pending"; readonly paymentId: Hex; readonly retryAfterSec: number }
  /** can never move money */
  | { readonly kind: "failed"; readonly paymentId: Hex; readonly error: TurnpikeError }
  /** this call sent nothing; until `liveUntilSec` the authorization can still move money */
  | {
      readonly kind: "refused";
      readonly error: TurnpikeError;
      readonly paymentId?: Hex;
      readonly liveUntilSec?: number;
    };

export interface PaymentStatusAnswer {
  readonly status: "pending" | "settled" | "failed" | "reversed" | "unknown";
  readonly transaction?: Hex;
  readonly reason?: string;
}

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
        | "mismatch"
        | "signer_retired";
    };

export type GrantedOutcome =
  /** signed when the request names its purchase */
  | { readonly kind: "granted"; readonly grant?: SignedGrant }
  | ({ readonly kind: "refused" } & ExactFailure)
  | { readonly kind: "held" };

export interface Payments {
  authorize(signed: SignedPayment, options?: WaitOptions): Promise<AuthorizeOutcome>;
  status(paymentId: Hex): Promise<PaymentStatusAnswer>;
  /** @throws Unavailable when the chain is needed and does not answer */
  verifyProof(proof: PaymentProof): Promise<ProofVerdict>;
  verifyExact(request: ExactRequest): Promise<ExactVerdict>;
  /**
   * Settles a payment without granting it: a settled payment may be requested again. The hold lasts until the payment
   * is granted or released.
   */
  settleExact(request: ExactRequest, options?: WaitOptions): Promise<SettleOutcome>;
  /**
   * Grants a settled payment to the request's purchase durably: the last step before the answer is sent. Waits while
   * another stock server's request holds the payment, or while the database does not confirm the grant.
   */
  grantExact(request: ExactRequest, settled: Settled, options: GrantOptions): Promise<GrantedOutcome>;
  /** Ends the hold on a payment that was not granted, so that the next request can get it. */
  releaseExact(request: ExactRequest): Promise<void>;
  health(): { readonly ok: boolean; readonly queued: number; readonly oldestQueuedSec: number };
  stop(): Promise<void>;
}

export interface PaymentsOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly projection: PaymentProjection;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs?: () => number;
}

/** Pause between two attempts to grant a payment that another request holds. */
const HELD_RETRY_MS = 250;

/**
 * Compares the signed transfer with what the server requires. Paying more than the price is the payer's mistake, and is
 * refused.
 */
function mismatchOf({ authorization }: PaymentRequest, { payTo, amount }: ExactRequest): TurnpikeError | undefined {
  if (authorization.to !== payTo) return refusal("PaymentNotAllowed", "payee", "the payee is not the required one");
  if (authorization.value === amount) return undefined;
  return refusal("PaymentNotAllowed", "amount", "the amount is not the required one");
}

export function startPayments(options: PaymentsOptions): Payments {
  const { config, store, feed, projection, relayer, indexer, log, onStep } = options;
  const { chainId } = config;
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const context: JudgeContext = { config, relayer, clock: indexer.clock, applied: () => indexer.applied() };
  const sender = startSender({
    onStep,
    config,
    store,
    feed,
    relayer,
    clock: indexer.clock,
    applied: () => indexer.applied(),
    untilNextBlockMs: () => indexer.untilNextBlockMs(),
    log,
    monotonicMs,
  });

  const { find, isDeepEnough, isFinalFailure, pursue, judgeFresh } = createPaymentProcessor({
    config,
    store,
    relayer,
    indexer,
    projection,
    sender,
    intake: createIntake({ store, chainId, log, batches: sender.batches }),
    context,
    onStep,
    monotonicMs,
  });

  const grants = createGrants(store, chainId);
  const holds = createHolds({ store, chainId, log, monotonicMs });
  const earlyProofs = createEarlyProofs({ chainId, signer: () => relayer.proofSigner });
  projection.onBeforeSave((rows) => void earlyProofs.prepare(rows));

  const refusedOf = (error: unknown): PaymentOutcome => {
    if (isTurnpikeError(error)) return { kind: "refused", error };
    throw error;
  };

  return {
    async authorize(signed, wait = { waitMs: config.authorizeWaitMs }) {
      onStep("received");
      const request = requestOfSignedPayment(config, signed);
      if (request instanceof TurnpikeError) return { kind: "refused", error: request };
      const { paymentId } = request;
      const early = earlyProofs.register(paymentId, signed);
      try {
        const outcome = await pursue(request, wait).catch(refusedOf);
        if (outcome.kind === "refused" || outcome.kind === "failed") return { ...outcome, paymentId };
        const facts = outcome.kind === "settled" ? settledFacts(outcome.row) : undefined;
        if (!facts) return { kind: "pending", paymentId, retryAfterSec: 1 };
        const proof = await early.issue(facts);
        onStep("proven");
        return { kind: "settled", paymentId, proof };
      } finally {
        early.end();
      }
    },

    async status(paymentId) {
      const row = await find(paymentId);
      if (!row) return { status: "unknown" };
      const transaction = row.tx_hash === null ? {} : { transaction: row.tx_hash as Hex };
      if (row.state === "settled")
        return isDeepEnough(row) ? { status: "settled", ...transaction } : { status: "pending", ...transaction };
      if (row.state === "failed" && isFinalFailure(row))
        return { status: "failed", ...transaction, ...(row.fail_reason && { reason: row.fail_reason }) };
      return { status: row.is_reversed ? "reversed" : "pending" };
    },

    async verifyProof(proof) {
      const invalid = (reason: (ProofVerdict & { kind: "invalid" })["reason"]): ProofVerdict => ({
        kind: "invalid",
        reason,
      });
      if (findNetwork(proof.network)?.chainId !== chainId) return invalid("network");
      if (!relayer.trustedSigners.find(proof.facilitator)) return invalid("signature");
      if (!isProofOf(proof, chainId, proof.facilitator)) return invalid("signature");
      if (proof.expiresAt <= indexer.clock.nowSec()) return invalid("expired");
      const nonce = fastPaymentNonce(parseMemo(proof.memo)?.ref ?? proof.memo, proof.resource);
      const paymentId = fastPaymentId({ chainId, token: proof.token, payer: proof.payer, nonce });
      const row = await find(paymentId);
      if (!row) return verifyByChain(proof, paymentId, nonce);
      requireKept(row.block_number);
      if (row.is_reversed) return invalid("reversed");
      if (row.state !== "settled") return invalid("pending");
      // The payment settled again in another block: the earlier proof names a transaction that is no longer on the
      // chain.
      const isSame =
        row.tx_hash === proof.transaction && row.pay_to === proof.payTo && row.amount === proof.amount.toString();
      if (!isSame) return invalid("mismatch");
      return isTrusted(proof, row.block_time) ? { kind: "valid", paymentId } : invalid("signer_retired");
    },

    async verifyExact(exact) {
      const request = requestOf(config, "settle", exact);
      if (request instanceof TurnpikeError) return { kind: "invalid", ...exactFailure(request) };
      const payer = request.authorization.from;
      const invalid = (error: TurnpikeError): ExactVerdict => ({ kind: "invalid", payer, ...exactFailure(error) });
      const mismatch = mismatchOf(request, exact);
      if (mismatch) return invalid(mismatch);
      const row = await find(request.paymentId);
      if (row) {
        const conflict = conflictWith(row, request);
        if (conflict) return invalid(conflict);
        requireKept(row.block_number);
        if (row.state === "failed") return invalid(failureOf(row));
        if (await grants.isTaken(request.paymentId)) return invalid(alreadyGranted());
        return (await isSignedByPayer(context, request))
          ? { kind: "valid", payer }
          : invalid(refusal("InvalidSignature", "signature", "the signature is not the payer's"));
      }
      const judgement = await judgeFresh(request);
      if (judgement.kind === "good") return { kind: "valid", payer };
      return invalid(
        judgement.kind === "bad"
          ? judgement.error
          : refusal("PaymentNotAllowed", "nonce_used", "the authorization was used already"),
      );
    },

    async settleExact(exact, wait = { waitMs: exact.maxTimeoutSec * 1_000 }) {
      const request = requestOf(config, "settle", exact);
      if (request instanceof TurnpikeError) return { kind: "refused", ...exactFailure(request) };
      const payer = request.authorization.from;
      const { paymentId } = request;
      const mismatch = mismatchOf(request, exact);
      if (mismatch) return { kind: "refused", payer, ...exactFailure(mismatch) };
      holds.begin(paymentId, exact.purchase);
      const outcome = await pursue(request, wait).catch(refusedOf);
      switch (outcome.kind) {
        case "settled":
          return { kind: "settled", paymentId, payer, transaction: outcome.row.tx_hash as Hex };
        case "pending": {
          const transaction = await transactionOf(store.db, chainId, paymentId);
          return { kind: "pending", paymentId, payer, retryAfterSec: 1, ...(transaction && { transaction }) };
        }
        default: {
          const error = (await hasBought(paymentId, outcome.error)) ? alreadyGranted() : outcome.error;
          return { kind: outcome.kind, paymentId, payer, ...exactFailure(error) };
        }
      }
    },

    async grantExact(exact, { paymentId, transaction }, { waitMs, isGone }) {
      const { purchase } = exact;
      const untilMs = monotonicMs() + waitMs;
      for (;;) {
        if (isGone()) return { kind: "held" };
        const outcome = await grants.grant(paymentId, purchase).catch((error: unknown) => {
          // The grant may have been written. The same purchase tries again, and its own grant is returned.
          if (isOutcomeUnknown(error) && monotonicMs() < untilMs) return "held" as const;
          throw error;
        });
        if (outcome !== "held") holds.end(purchase);
        if (outcome === "taken") return { kind: "refused", ...exactFailure(alreadyGranted()) };
        if (outcome === "granted") {
          if (!purchase.isGate) return { kind: "granted" };
          const request = requestOf(config, "settle", exact);
          if (request instanceof TurnpikeError) return { kind: "refused", ...exactFailure(request) };
          const facts = { grantId: purchase.grantId, chainId, transaction };
          return { kind: "granted", grant: await signGrant(request, facts, relayer.proofSigner) };
        }
        const leftMs = untilMs - monotonicMs();
        if (leftMs <= 0) return { kind: "held" };
        await store.wake.wait("block", Math.min(leftMs, HELD_RETRY_MS));
      }
    },

    async releaseExact({ token, authorization: { from: payer, nonce }, purchase }) {
      holds.end(purchase);
      await grants.release(fastPaymentId({ chainId, token, payer, nonce }), purchase);
    },

    health() {
      const { queued, oldestMs } = sender.queue();
      return { ok: oldestMs <= config.maxQueueAgeMs, queued, oldestQueuedSec: Math.round(oldestMs / 1_000) };
    },
    async stop() {
      await Promise.all([sender.stop(), holds.stop()]);
    },
  };

  /**
   * Returns whether a payment that was accepted for something else has already bought it. Then the answer is
   * `alreadyGranted`.
   */
  async function hasBought(paymentId: Hex, { reason }: TurnpikeError): Promise<boolean> {
    if (reason === "other_contents") return grants.isTaken(paymentId);
    // A native payment has no grant: its nonce names the resource.
    return reason === "other_door" && (await find(paymentId))?.state === "settled";
  }

  /** @throws Unavailable while it is unknown whether the block stays on the chain */
  function requireKept(blockNumber: number | null): void {
    if (blockNumber === null || blockNumber <= indexer.keptTo()) return;
    throw new Unavailable("the chain's head moved back: it is not known yet whether this payment stays on the chain", {
      retryAfterSec: 2,
    });
  }

  /** Verifies a proof by the chain, when this service signed it but this database has no row for the payment. */
  async function verifyByChain(proof: PaymentProof, paymentId: Hex, nonce: Hex): Promise<ProofVerdict> {
    const query = { paymentId, token: proof.token, payer: proof.payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, indexer.applied());
    // Evidence of a reverted block does not count.
    requireKept(evidence.kind === "transfer" ? evidence.blockNumber : indexer.applied());
    if (evidence.kind !== "transfer") return { kind: "invalid", reason: "unknown" };
    const isSame =
      evidence.transaction === proof.transaction && evidence.to === proof.payTo && evidence.amount === proof.amount;
    if (!isSame) return { kind: "invalid", reason: "mismatch" };
    return isTrusted(proof, evidence.blockTimeSec)
      ? { kind: "valid", paymentId }
      : { kind: "invalid", reason: "signer_retired" };
  }

  /** @param settledAtSec block time from the row or the chain: a retired key could sign any time into its proof */
  function isTrusted({ facilitator }: PaymentProof, settledAtSec: number | null): boolean {
    return relayer.trustedSigners.isTrustedSigner(facilitator, settledAtSec ?? Number.POSITIVE_INFINITY);
  }
}
