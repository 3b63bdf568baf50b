/** The standard x402 channel: verifies, settles and grants payments for stock servers and for gates. */
import { type Address, type Hex, NO_TRANSACTION, TurnpikeError } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { isOutcomeUnknown } from "../db/outage";
import type { PaymentRow } from "../db/tables/payments";
import type { Relayer } from "../relayer";
import type { PaymentAdmission } from "./admission";
import {
  type ExactRequest,
  type ExactVerdict,
  exactFailure,
  type GrantedOutcome,
  type GrantOptions,
  type Settled,
  type SettleOutcome,
  type WaitOptions,
} from "./exact";
import { type Grants, signGrant } from "./grants";
import type { Holds } from "./holds";
import type { Intake } from "./intake";
import { isSignedByPayer, type JudgeContext } from "./judge";
import { transactionOf } from "./ledger";
import { alreadyGranted, conflictWith, failureOf, refusedBy } from "./outcome";
import { type PaymentRequest, refusal, requestOf } from "./payment-request";
import type { PaymentProcessor } from "./processor";
import type { SettlementDepth } from "./settlement-depth";
import type { PaymentStages } from "./stages";
import { EIP3009, idOfPayment } from "./transfer";

export interface ExactPaymentsOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly intake: Pick<Intake, "find">;
  readonly admission: PaymentAdmission;
  readonly processor: PaymentProcessor;
  readonly depth: SettlementDepth;
  readonly grants: Grants;
  readonly holds: Holds;
  readonly context: JudgeContext;
  readonly stages: PaymentStages;
  readonly monotonicMs: () => number;
}

/** Pause between two attempts to grant a payment that another request holds. */
const HELD_RETRY_MS = 250;

/**
 * Compares the signed transfer with what the server requires. Paying more than the price is the payer's mistake, and is
 * refused.
 */
function mismatchOf(
  { authorization, transfer }: PaymentRequest,
  { payTo, amount }: ExactRequest,
  settlers: readonly Address[],
): TurnpikeError | undefined {
  if (authorization.to !== payTo) return refusal("PaymentNotAllowed", "payee", "the payee is not the required one");
  if (transfer.method === "upto") {
    if (!settlers.includes(transfer.sender))
      return refusal(
        "PaymentNotAllowed",
        "settler",
        `the payer allowed ${transfer.sender} to settle, which is no key here`,
      );
    if (amount > transfer.max)
      return refusal("PaymentNotAllowed", "above_maximum", `the payer permitted ${transfer.max} base units at most`);
  }
  if (authorization.value === amount) return undefined;
  return refusal("PaymentNotAllowed", "amount", "the amount is not the required one");
}

export class ExactPayments {
  readonly #options: ExactPaymentsOptions;

  constructor(options: ExactPaymentsOptions) {
    this.#options = options;
  }

  async verify(exact: ExactRequest): Promise<ExactVerdict> {
    const { config, relayer, intake, admission } = this.#options;
    const request = requestOf(config, "settle", exact);
    if (request instanceof TurnpikeError) return { kind: "invalid", ...exactFailure(request, exact.transfer) };
    const payer = request.authorization.from;
    const invalid = (error: TurnpikeError): ExactVerdict => ({
      kind: "invalid",
      payer,
      ...exactFailure(error, exact.transfer),
    });
    const mismatch = mismatchOf(request, exact, relayer.addresses);
    if (mismatch) return invalid(mismatch);
    const isReserved = exact.purchase.isGate;
    for (let isFirst = true; ; isFirst = false) {
      const row = await intake.find(request.paymentId);
      if (row) {
        const refused = await this.#whyRefused(row, request);
        return refused ? invalid(refused) : { kind: "valid", payer, isReserved };
      }
      const verdict = await (isReserved ? admission.reserve(request) : admission.verify(request));
      if (verdict.kind === "refused") return invalid(verdict.error);
      if (verdict.kind === "bound") return { kind: "valid", payer, isReserved };
      if (!isFirst) throw refusal("Unavailable", "busy", "the payment's state changes", { retryAfterSec: 1 });
    }
  }

  /** Returns why an accepted payment buys nothing more. */
  async #whyRefused(row: PaymentRow, request: PaymentRequest): Promise<TurnpikeError | undefined> {
    const { grants, depth, context } = this.#options;
    const { paymentId, purchase, transfer } = request;
    // An `upto` payment is verified at its maximum, whatever was charged.
    const value = transfer.method === "upto" ? BigInt(row.amount) : request.authorization.value;
    const conflict = conflictWith(row, { ...request, authorization: { ...request.authorization, value } });
    if (conflict) return purchase?.isGate ? alreadyGranted() : conflict;
    depth.requireKept(row.block_number);
    if (row.state === "failed") return failureOf(row);
    if (purchase?.isGate) {
      if (!(await grants.isOwn(paymentId, purchase))) return alreadyGranted();
      // Nothing holds the amount of a payment that was sent and did not move.
      if (row.state === "parked") return refusal("TransferFailed", "not_moved", "the token did not move the money");
    } else if (await grants.isTaken(paymentId)) return alreadyGranted();
    if (await isSignedByPayer(context, request)) return undefined;
    return refusal("InvalidSignature", "signature", "the signature is not the payer's");
  }

  async settle(
    exact: ExactRequest,
    wait: WaitOptions = { waitMs: exact.maxTimeoutSec * 1_000 },
  ): Promise<SettleOutcome> {
    const { config, store, relayer, holds, processor } = this.#options;
    const request = requestOf(config, "settle", exact);
    if (request instanceof TurnpikeError) return { kind: "refused", ...exactFailure(request, exact.transfer) };
    const payer = request.authorization.from;
    const { paymentId, transfer } = request;
    const mismatch = mismatchOf(request, exact, relayer.addresses);
    if (mismatch) return { kind: "refused", payer, ...exactFailure(mismatch, transfer) };
    holds.begin(paymentId, exact.purchase);
    const outcome = await processor.process(request, wait).catch(refusedBy);
    switch (outcome.kind) {
      case "settled":
        return { kind: "settled", paymentId, payer, transaction: (outcome.row.tx_hash as Hex | null) ?? "" };
      case "pending": {
        const transaction = await transactionOf(store.db, config.chainId, paymentId);
        return { kind: "pending", paymentId, payer, retryAfterSec: 1, ...(transaction && { transaction }) };
      }
      default: {
        const error = (await this.#hasBought(paymentId, outcome.error)) ? alreadyGranted() : outcome.error;
        return { kind: outcome.kind, paymentId, payer, ...exactFailure(error, transfer) };
      }
    }
  }

  /**
   * Returns whether a payment that was accepted for something else has already bought it. Then the answer is
   * `alreadyGranted`.
   */
  async #hasBought(paymentId: Hex, { reason }: TurnpikeError): Promise<boolean> {
    const { grants, intake } = this.#options;
    if (reason === "other_contents") return grants.isTaken(paymentId);
    if (reason !== "other_door") return false;
    const row = await intake.find(paymentId);
    // A native payment has no grant: its nonce names the resource. A refund has bought nothing.
    return row?.door === "authorize" && row.state === "settled";
  }

  async grant(exact: ExactRequest, settled: Settled, { waitMs, isGone }: GrantOptions): Promise<GrantedOutcome> {
    const { store, grants, holds, stages, monotonicMs } = this.#options;
    const { purchase } = exact;
    const startedMs = monotonicMs();
    const untilMs = startedMs + waitMs;
    for (;;) {
      if (isGone()) return { kind: "held" };
      const outcome = await grants.grant(settled.paymentId, purchase).catch((error: unknown) => {
        // The grant may have been written. The same purchase tries again, and its own grant is returned.
        if (isOutcomeUnknown(error) && monotonicMs() < untilMs) return "held" as const;
        throw error;
      });
      if (outcome !== "held") holds.end(purchase);
      if (outcome === "taken") return { kind: "refused", ...exactFailure(alreadyGranted()) };
      if (outcome === "granted") {
        stages.granted(settled.paymentId, monotonicMs() - startedMs);
        return this.#signGrant(exact, settled);
      }
      const leftMs = untilMs - monotonicMs();
      if (leftMs <= 0) return { kind: "held" };
      await store.notifier.wait("block", Math.min(leftMs, HELD_RETRY_MS));
    }
  }

  /** Signs the grant of a gate's purchase; a stock server's purchase needs none. */
  async #signGrant(exact: ExactRequest, { transaction }: Settled): Promise<GrantedOutcome> {
    const { config, relayer } = this.#options;
    const { purchase } = exact;
    if (!purchase.isGate) return { kind: "granted" };
    const request = requestOf(config, "settle", exact);
    if (request instanceof TurnpikeError) return { kind: "refused", ...exactFailure(request) };
    const facts = { grantId: purchase.grantId, chainId: config.chainId, transaction: transaction || NO_TRANSACTION };
    return { kind: "granted", grant: await signGrant(request, facts, relayer.proofSigner) };
  }

  async release({ token, authorization, transfer = EIP3009, purchase }: ExactRequest): Promise<void> {
    const { config, grants, holds } = this.#options;
    holds.end(purchase);
    await grants.release(idOfPayment(config.chainId, token, authorization, transfer), purchase);
  }
}
