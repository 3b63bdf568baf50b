/**
 * Processes one-time payments, from a signed authorization to its outcome. `failed` is final: the payment can never
 * move money. A refusal is judged again on each request and never stored. Every unknown outcome is pending.
 */
import type { Logger } from "pino";
import type { RefundNaming } from "turnpike/facilitator";
import { type Address, type Hex, type PaymentProof, type SignedPayment, TurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { EventFeed } from "../events/feed";
import type { Indexer } from "../indexer";
import type { Party } from "../lib/fair-shares";
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

export type {
  ExactRequest,
  ExactVerdict,
  GrantedOutcome,
  GrantOptions,
  Settled,
  SettleOutcome,
  WaitOptions,
} from "./exact";
export { purchaseOfServer } from "./grants";
export type { ProofVerdict } from "./proof-verifier";
export type { AutomaticRefundRequest, RefundOutcome, RefundRequest } from "./refund-service";

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

/** What can be found in a request without parsing it. */
export interface PaymentOutline {
  readonly party: Party;
  /** undefined: not found */
  readonly paymentId: Hex | undefined;
}

export interface PaymentStatusAnswer {
  readonly status: "pending" | "settled" | "failed" | "reversed" | "unknown";
  readonly transaction?: Hex;
  readonly reason?: string;
  /** settled refunds by index; absent: none */
  readonly refunds?: readonly RefundFacts[];
}

export interface RefundFacts {
  readonly index: number;
  /** the account that paid it */
  readonly account: Address;
  /** base units */
  readonly amount: bigint;
  readonly transaction: Hex;
  /** the payee's signed statement that names the account, of an automatic refund */
  readonly naming?: RefundNaming;
}

export interface Payments {
  authorize(signed: SignedPayment, options?: WaitOptions): Promise<AuthorizeOutcome>;
  /**
   * Returns why a payment would be refused now, before anything of it is read. A payment that this process has seen
   * lately is not: its outcome may be known.
   * @param ask called only while some are refused
   */
  whyBusy(ask: () => PaymentOutline): TurnpikeError | undefined;
  status(paymentId: Hex): Promise<PaymentStatusAnswer>;
  /** Returns the settled refunds of a payment, a debit or a charge that are deep enough to count, by index. */
  refunds(refundedId: Hex): Promise<readonly RefundFacts[]>;
  /** Settles a refund that the payee or provider has signed. */
  refund(request: RefundRequest, options?: WaitOptions): Promise<RefundOutcome>;
  /** Refunds a whole payment from the account that its payee has named, within its daily cap. */
  refundAutomatically(request: AutomaticRefundRequest, options?: WaitOptions): Promise<RefundOutcome>;
  /** @throws Unavailable when the chain is needed and does not answer */
  verifyProof(proof: PaymentProof): Promise<ProofVerdict>;
  /** Verifies a payment; reserves its amount when the request names a gate's purchase. */
  verifyExact(request: ExactRequest): Promise<ExactVerdict>;
  /** Ends a gate's reservation of a payment that was not accepted. @returns whether this purchase had one */
  releaseReservation(paymentId: Hex, grantId: Hex): Promise<boolean>;
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
  /** of debits and charges, which can be refunded too */
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
      signerOf: (provider) => relayer.refundSigner(provider),
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

  health(): { readonly ok: boolean; readonly queued: number; readonly oldestQueuedSec: number } {
    const { queued, oldestMs } = this.#sender.queue();
    return { ok: oldestMs <= this.#config.maxQueueAgeMs, queued, oldestQueuedSec: Math.round(oldestMs / 1_000) };
  }

  async stop(): Promise<void> {
    await Promise.all([this.#sender.stop(), this.#holds.stop()]);
  }
}
