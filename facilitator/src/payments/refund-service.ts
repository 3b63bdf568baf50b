/**
 * Settles refunds: transfers whose nonce names the payment, debit or charge that they refund, and the refund's
 * index. Idempotent by both. A refund uses the queue, the batches and the evidence of payments, and buys nothing.
 */
import {
  type Address,
  type Hex,
  paymentIdOf,
  type RefundTarget,
  refundedIdOf,
  refundNonce,
  sameAddress,
  TurnpikeError,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { Store } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import type { Relayer } from "../relayer";
import type { WaitOptions } from "./exact";
import type { Intake } from "./intake";
import { isNonceUsed } from "./judge";
import { type PaymentOutcome, refusedBy } from "./outcome";
import { type PaymentRequest, refusal, requestOf } from "./payment-request";
import type { PaymentProcessor } from "./processor";
import { type SettledFacts, settledFacts } from "./proofs";
import { notNamed } from "./refund-cap";
import { acceptedRefund, addRefund, type CollectionReader, type Refundable, type Refunded } from "./refunds";
import type { SettlementDepth } from "./settlement-depth";
import type { Authorization } from "./transfer";

export interface RefundRequest {
  readonly network: string;
  readonly token: Address;
  readonly target: RefundTarget;
  readonly index: number;
  readonly authorization: Authorization;
  readonly signature: Hex;
}

export interface AutomaticRefundRequest {
  readonly paymentId: Hex;
  readonly provider: Address;
}

export type RefundOutcome =
  | ({ readonly kind: "settled"; readonly refundId: Hex; readonly refundedId: Hex } & SettledFacts)
  | { readonly kind: "pending"; readonly refundId: Hex; readonly retryAfterSec: number }
  /** can never move money */
  | { readonly kind: "failed"; readonly error: TurnpikeError }
  /** this call sent nothing; until `liveUntilSec` the authorization can still move money */
  | { readonly kind: "refused"; readonly error: TurnpikeError; readonly liveUntilSec?: number };

/** The nonce of an automatic refund, for another account than the one that would pay it. */
interface PayeesNonce {
  readonly account: Address;
  readonly signer: Address;
  readonly token: Address;
  readonly nonce: Hex;
}

export interface RefundServiceOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly intake: Pick<Intake, "find">;
  readonly processor: PaymentProcessor;
  readonly depth: SettlementDepth;
  readonly collections: CollectionReader;
  /** Returns chain time, unix seconds. */
  readonly nowSec: () => number;
}

/** An automatic refund is the whole of what is left: it has the first index, or there is none. */
const AUTOMATIC_INDEX = 0;

/** How long an automatic refund can be mined; a later request signs it again, under the same nonce. */
const AUTOMATIC_LIFE_SEC = 600;

export class RefundService {
  readonly #options: RefundServiceOptions;

  constructor(options: RefundServiceOptions) {
    this.#options = options;
  }

  async refund(asked: RefundRequest, wait: WaitOptions): Promise<RefundOutcome> {
    const { config, processor } = this.#options;
    const refundedId = refundedIdOf(config, asked.target);
    if (refundNonce(refundedId, asked.index) !== asked.authorization.nonce) {
      const error = refusal("InvalidRequest", "nonce", "the authorization's nonce does not match this refund");
      return { kind: "refused", error };
    }
    const request = requestOf(config, "refund", { ...asked, resource: "" });
    if (request instanceof TurnpikeError) return { kind: "refused", error: request };
    const outcome = await this.#withRefunded(request, asked, refundedId)
      .then(async (whole) => this.#adopt(whole, await processor.process(whole, wait)))
      .catch(refusedBy);
    return answerOf(outcome, request.paymentId, refundedId);
  }

  /**
   * Refunds a whole payment from the account that its payee has named. The payment is the idempotency key: the nonce
   * follows from it, and the account can use that nonce once.
   */
  async refundAutomatically(asked: AutomaticRefundRequest, wait: WaitOptions): Promise<RefundOutcome> {
    const { paymentId } = asked;
    let refundId: Hex = paymentId;
    const outcome = await this.#signed(asked)
      .then((request) => {
        refundId = request.paymentId;
        return this.#options.processor.process(request, wait);
      })
      .catch(refusedBy);
    return answerOf(outcome, refundId, paymentId);
  }

  /** Counts a transfer that was settled as a payment as the refund that its nonce names. @throws like {@link addRefund} */
  async #adopt({ paymentId, refund }: PaymentRequest, outcome: PaymentOutcome): Promise<PaymentOutcome> {
    if (outcome.kind !== "settled" || outcome.row.door === "refund" || !refund) return outcome;
    const { store, config, depth } = this.#options;
    const amount = BigInt(outcome.row.amount);
    const isDead = (row: PaymentRow) => depth.isFinalFailure(row);
    await store.transaction((tx) => addRefund(tx, { chainId: config.chainId, paymentId, amount, refund, isDead }));
    return outcome;
  }

  /** Signs an automatic refund. What it is bound to, cap included, is checked in the transaction that binds it. */
  async #signed({ paymentId, provider }: AutomaticRefundRequest): Promise<PaymentRequest> {
    const { config, relayer, nowSec } = this.#options;
    const refunded = await this.#refundedOf(provider, paymentId);
    const { token: address, payer, amount } = refunded;
    const token = findToken(config, address);
    const signer = relayer.refundSigner(provider);
    if (!token || !signer) throw notNamed(provider, address);
    const nonce = refundNonce(paymentId, AUTOMATIC_INDEX);
    await this.#requireUnused({ account: provider, nonce, token: address, signer: signer.address });
    const authorization: Authorization = {
      from: signer.address,
      to: payer,
      value: amount,
      validAfter: 0n,
      validBefore: BigInt(nowSec() + Math.min(AUTOMATIC_LIFE_SEC, config.maxWindowSec)),
      nonce,
    };
    const { chainId, network } = config;
    const { name, version } = token;
    const data = transferTypedData({ chainId, token: address, name, version }, authorization);
    const signature = await signer.signDigest(typedDataDigest(data));
    const facts = { network: network.name, token: address, authorization, signature, resource: "" };
    const request = requestOf(config, "refund", facts);
    if (request instanceof TurnpikeError) throw request;
    return { ...request, refund: { refunded, index: AUTOMATIC_INDEX, isAutomatic: true } };
  }

  /**
   * The payee may have refunded the payment under this nonce where this Facilitator knows of no refund: as a payment, or
   * by a transaction of its own.
   * @throws PayloadConflict when it has, or may have; Unavailable when the token cannot be asked
   */
  async #requireUnused({ account, signer, token, nonce }: PayeesNonce): Promise<void> {
    const { config, intake, relayer, depth } = this.#options;
    const idOf = (payer: Address): Hex => paymentIdOf({ chainId: config.chainId, token, payer, nonce });
    const [own, payees] = await Promise.all([intake.find(idOf(signer)), intake.find(idOf(account))]);
    // Nothing new is sent for a refund that is under way.
    if (own && own.state !== "failed") return;
    const isLive = payees && payees.door !== "refund" && !(payees.state === "failed" && depth.isFinalFailure(payees));
    if (!isLive && !(await isNonceUsed(relayer, { token, payer: account, nonce, isPermit2: false }))) return;
    throw new TurnpikeError(
      "PayloadConflict",
      `${account} has used the nonce of this payment's refund itself: nothing is refunded automatically`,
      { reason: "refund_index" },
    );
  }

  /** @throws UnknownObject, also for a payment to somebody else; PaymentPending, PaymentNotAllowed */
  async #refundedOf(provider: Address, paymentId: Hex): Promise<Refunded> {
    const { config, store, intake, relayer } = this.#options;
    const unknown = () => new TurnpikeError("UnknownObject", `no payment ${paymentId} to ${provider} is indexed here`);
    const row = await intake.find(paymentId);
    if (!row || row.door === "refund" || !sameAddress(row.pay_to as Address, provider)) throw unknown();
    const signer = relayer.refundSigner(provider);
    const { chainId } = config;
    const nonce = refundNonce(paymentId, AUTOMATIC_INDEX);
    const refundId = signer && paymentIdOf({ chainId, token: row.token as Address, payer: signer.address, nonce });
    const accepted = refundId && (await acceptedRefund(store.db, chainId, refundId));
    return accepted ?? this.#findPayment(paymentId, unknown);
  }

  /** Adds what the request refunds: as it was accepted, or as the chain has it. @throws the refusal */
  async #withRefunded(
    request: PaymentRequest,
    { target, index, token, authorization }: RefundRequest,
    refundedId: Hex,
  ): Promise<PaymentRequest> {
    const { config, store, intake } = this.#options;
    const known = await intake.find(request.paymentId);
    const accepted = known && (await acceptedRefund(store.db, config.chainId, request.paymentId));
    const refunded: Refunded & Partial<Refundable> = accepted ?? (await this.#find(target, refundedId));
    if (!sameAddress(refunded.token, token))
      throw refusal("PaymentNotAllowed", "token", `${refundedId} was paid with token ${refunded.token}`);
    // Also of an accepted refund: one that has failed may be signed again, with other terms.
    if (!sameAddress(refunded.payer, authorization.to))
      throw refusal("PaymentNotAllowed", "payee", `${refundedId} was paid by ${refunded.payer}; refund that account`);
    // The account of an accepted refund is part of its id.
    if (refunded.accounts?.some((account) => sameAddress(account, authorization.from)) === false) {
      throw refusal(
        "PaymentNotAllowed",
        "refund_account",
        `${authorization.from} is neither payee nor provider of ${refundedId}; sign with one of these accounts`,
      );
    }
    return { ...request, refund: { refunded, index } };
  }

  /** @throws UnknownObject, PaymentPending or PaymentNotAllowed unless it was paid and is deep enough */
  async #find(target: RefundTarget, refundedId: Hex): Promise<Refundable> {
    const { depth, collections } = this.#options;
    const unknown = () =>
      new TurnpikeError("UnknownObject", `this Facilitator has indexed no ${target.type} ${refundedId}`);
    if (target.type === "payment") return this.#findPayment(refundedId, unknown);
    const found = await collections.find(target);
    if (!found) throw unknown();
    depth.requireKept(found.blockNumber);
    return found;
  }

  async #findPayment(paymentId: Hex, unknown: () => TurnpikeError): Promise<Refundable> {
    const { intake, depth } = this.#options;
    const row = await intake.find(paymentId);
    if (!row || row.door === "refund") throw unknown();
    if (row.state === "failed" && depth.isFinalFailure(row))
      throw refusal("PaymentNotAllowed", "not_paid", `payment ${paymentId} has failed: it moved no money`);
    if (row.state === "waived")
      throw refusal("PaymentNotAllowed", "not_paid", `payment ${paymentId} was charged at 0: it moved no money`);
    if (row.state !== "settled" || row.block_number === null || !depth.isDeepEnough(row)) {
      throw new TurnpikeError("PaymentPending", `payment ${paymentId} is not confirmed; refund it afterwards`, {
        retryAfterSec: 2,
      });
    }
    return {
      id: paymentId,
      kind: "payment",
      provider: row.pay_to as Address,
      payer: row.payer as Address,
      token: row.token as Address,
      amount: BigInt(row.amount),
      blockNumber: row.block_number,
      accounts: [row.pay_to as Address],
    };
  }
}

function answerOf(outcome: PaymentOutcome, refundId: Hex, refundedId: Hex): RefundOutcome {
  if (outcome.kind === "failed" || outcome.kind === "refused") return outcome;
  const facts = outcome.kind === "settled" ? settledFacts(outcome.row) : undefined;
  return facts ? { kind: "settled", refundId, refundedId, ...facts } : { kind: "pending", refundId, retryAfterSec: 1 };
}
