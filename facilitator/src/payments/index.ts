/**
 * Processes one-time payments, from a signed authorization to its outcome. `failed` is final: the payment can never
 * move money. A refusal is judged again on each request and never stored. Every unknown outcome is pending.
 */
import type { Logger } from "pino";
import { type Address, type Hex, type PaymentProof, type SignedPayment, TurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { EventFeed } from "../events/feed";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { PaymentAdmission } from "./admission";
import type { PaymentProjection } from "./block-projection";
import { createEarlyProofs, type EarlyProofs } from "./early-proofs";
import type {
  ExactRequest,
  ExactVerdict,
  GrantedOutcome,
  GrantOptions,
  Settled,
  SettleOutcome,
  WaitOptions,
} from "./exact";
import { ExactPayments } from "./exact-payments";
import { createGrants } from "./grants";
import { createHolds, type Holds } from "./holds";
import { createIntake, type Intake } from "./intake";
import type { JudgeContext } from "./judge";
import { refusedBy } from "./outcome";
import { requestOfSignedPayment } from "./payment-request";
import type { AuthorizeOutcome, PaymentOutline, PaymentStatusAnswer, Payments, RefundFacts } from "./payments";
import { PaymentProcessor } from "./processor";
import { type ProofVerdict, ProofVerifier } from "./proof-verifier";
import { settledFacts } from "./proofs";
import { namedAccountOf } from "./refund-cap";
import { type AutomaticRefundRequest, type RefundOutcome, type RefundRequest, RefundService } from "./refund-service";
import { type CollectionReader, settledRefunds } from "./refunds";
import { createReservations, type Reservations } from "./reservations";
import { Sender } from "./sender";
import { SettlementDepth } from "./settlement-depth";
import type { PaymentStages } from "./stages";

export type { ExactRequest } from "./exact";
export { purchaseOfServer } from "./grants";
export type { AuthorizeOutcome, PaymentOutline, Payments, RefundFacts } from "./payments";
export { type ProofVerdict, paymentOfProof } from "./proof-verifier";
export type { RefundOutcome, RefundRequest } from "./refund-service";

export interface PaymentsOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly projection: PaymentProjection;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly collections: CollectionReader;
  readonly stages: PaymentStages;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs?: () => number;
}

export function startPayments(options: PaymentsOptions): Payments {
  return new PaymentService(options);
}

class PaymentService implements Payments {
  readonly #config: FacilitatorConfig;
  readonly #onStep: Failpoint;
  readonly #sender: Sender;
  readonly #intake: Intake;
  readonly #admission: PaymentAdmission;
  readonly #depth: SettlementDepth;
  readonly #processor: PaymentProcessor;
  readonly #earlyProofs: EarlyProofs;
  readonly #proofVerifier: ProofVerifier;
  readonly #exact: ExactPayments;
  readonly #holds: Holds;
  readonly #reservations: Reservations;
  readonly #refunds: RefundService;
  readonly #store: Store;

  constructor(options: PaymentsOptions) {
    const { config, store, feed, projection, relayer, indexer, collections, stages, log, onStep } = options;
    const { chainId } = config;
    const monotonicMs = options.monotonicMs ?? (() => performance.now());
    const { clock } = indexer;
    const applied = (): number => indexer.applied();
    const untilNextBlockMs = (): number => indexer.untilNextBlockMs();
    const context: JudgeContext = { config, relayer, clock, applied };
    const reservations = createReservations({ store, chainId, monotonicMs });
    const sender = new Sender({
      onStep,
      config,
      store,
      feed,
      relayer,
      reservations,
      clock,
      applied,
      untilNextBlockMs,
      log,
      monotonicMs,
    });
    const intake = createIntake({ store, chainId, log, batches: sender.batches });
    const depth = new SettlementDepth(config, indexer);
    const { deployments } = sender;
    const admission = new PaymentAdmission({
      config,
      store,
      relayer,
      indexer,
      depth,
      sender,
      intake,
      reservations,
      deployments,
      context,
      stages,
      onStep,
      monotonicMs,
    });
    const processor = new PaymentProcessor({
      store,
      projection,
      sender,
      intake,
      admission,
      depth,
      context,
      stages,
      monotonicMs,
    });
    const grants = createGrants(store, chainId);
    const holds = createHolds({ store, chainId, log, monotonicMs });
    const earlyProofs = createEarlyProofs({ chainId, signer: () => relayer.proofSigner });
    projection.onBeforeSave((rows) => void earlyProofs.prepare(rows));
    this.#config = config;
    this.#onStep = onStep;
    this.#sender = sender;
    this.#intake = intake;
    this.#admission = admission;
    this.#depth = depth;
    this.#processor = processor;
    this.#earlyProofs = earlyProofs;
    this.#proofVerifier = new ProofVerifier({ config, db: store.db, relayer, indexer, intake, depth });
    this.#exact = new ExactPayments({
      config,
      store,
      relayer,
      intake,
      admission,
      processor,
      depth,
      grants,
      holds,
      context,
      stages,
      monotonicMs,
    });
    this.#holds = holds;
    this.#reservations = reservations;
    this.#refunds = new RefundService({
      config,
      store,
      intake,
      processor,
      depth,
      collections,
      relayer,
      nowSec: () => clock.nowSec(),
    });
    this.#store = store;
  }

  async authorize(
    signed: SignedPayment,
    wait: WaitOptions = { waitMs: this.#config.authorizeWaitMs },
  ): Promise<AuthorizeOutcome> {
    this.#onStep("received");
    const request = requestOfSignedPayment(this.#config, signed);
    if (request instanceof TurnpikeError) return { kind: "refused", error: request };
    const { paymentId } = request;
    const early = this.#earlyProofs.register(paymentId, signed);
    try {
      const outcome = await this.#processor.process(request, wait).catch(refusedBy);
      if (outcome.kind === "refused" || outcome.kind === "failed") return { ...outcome, paymentId };
      const facts = outcome.kind === "settled" ? settledFacts(outcome.row) : undefined;
      if (!facts) return { kind: "pending", paymentId, retryAfterSec: 1 };
      const proof = await early.issue(facts);
      this.#onStep("proven");
      return { kind: "settled", paymentId, proof };
    } finally {
      early.end();
    }
  }

  whyBusy(ask: () => PaymentOutline): TurnpikeError | undefined {
    if (!this.#admission.isCrowded) return undefined;
    const { party, paymentId } = ask();
    if (paymentId !== undefined && !this.#intake.isNew(paymentId)) return undefined;
    return this.#admission.whyBusy(party);
  }

  async status(paymentId: Hex): Promise<PaymentStatusAnswer> {
    const row = await this.#intake.find(paymentId);
    // A refund is no payment, though it has such an id.
    if (!row || row.door === "refund") return { status: "unknown" };
    const transaction = row.tx_hash === null ? {} : { transaction: row.tx_hash as Hex };
    if (row.state === "waived") return { status: "settled" };
    if (row.state === "settled") {
      if (!this.#depth.isDeepEnough(row)) return { status: "pending", ...transaction };
      const refunds = await this.refunds(paymentId);
      return { status: "settled", ...transaction, ...(refunds.length > 0 && { refunds }) };
    }
    if (row.state === "failed" && this.#depth.isFinalFailure(row))
      return { status: "failed", ...transaction, ...(row.fail_reason && { reason: row.fail_reason }) };
    return { status: row.is_reversed ? "reversed" : "pending" };
  }

  async refunds(refundedId: Hex): Promise<readonly RefundFacts[]> {
    const settled = await settledRefunds(this.#store.db, this.#config.chainId, [refundedId]);
    if (settled.length === 0) return [];
    const automatic = await namedAccountOf(this.#store.db, this.#config.chainId, refundedId);
    return settled.flatMap(({ refund_index: index, row }): RefundFacts[] => {
      if (row.tx_hash === null || !this.#depth.isDeepEnough(row)) return [];
      const { payer: account, amount, tx_hash: transaction } = row;
      const naming = automatic?.account === account ? automatic.naming : undefined;
      return [
        {
          index,
          account: account as Address,
          amount: BigInt(amount),
          transaction: transaction as Hex,
          ...(naming && { naming }),
        },
      ];
    });
  }

  refund(request: RefundRequest, wait: WaitOptions = { waitMs: this.#config.authorizeWaitMs }): Promise<RefundOutcome> {
    this.#onStep("received");
    return this.#refunds.refund(request, wait);
  }

  refundAutomatically(
    request: AutomaticRefundRequest,
    wait: WaitOptions = { waitMs: this.#config.authorizeWaitMs },
  ): Promise<RefundOutcome> {
    this.#onStep("received");
    return this.#refunds.refundAutomatically(request, wait);
  }

  verifyProof(proof: PaymentProof): Promise<ProofVerdict> {
    return this.#proofVerifier.verify(proof);
  }

  verifyExact(request: ExactRequest): Promise<ExactVerdict> {
    return this.#exact.verify(request);
  }

  releaseReservation(paymentId: Hex, grantId: Hex): Promise<boolean> {
    return this.#reservations.release(paymentId, grantId);
  }

  settleExact(request: ExactRequest, options?: WaitOptions): Promise<SettleOutcome> {
    return this.#exact.settle(request, options);
  }

  grantExact(request: ExactRequest, settled: Settled, options: GrantOptions): Promise<GrantedOutcome> {
    return this.#exact.grant(request, settled, options);
  }

  releaseExact(request: ExactRequest): Promise<void> {
    return this.#exact.release(request);
  }

  highestPayerGas(): number {
    return this.#sender.payerGas.highestShare();
  }

  health(): { readonly ok: boolean; readonly queued: number; readonly oldestQueuedSec: number } {
    const { queued, oldestMs } = this.#sender.queue();
    return { ok: oldestMs <= this.#config.maxQueueAgeMs, queued, oldestQueuedSec: Math.round(oldestMs / 1_000) };
  }

  async stop(): Promise<void> {
    await Promise.all([this.#sender.stop(), this.#holds.stop()]);
  }
}
