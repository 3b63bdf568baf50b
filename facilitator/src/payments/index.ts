/**
 * One-time payments, from a signed authorization to its outcome. `failed` is said only of what can never move money;
 * a refusal is judged afresh each time and never stored; all that is unknown is pending.
 */
import type { Logger } from "pino";
import {
  type Address,
  findNetwork,
  type Hex,
  isErrorCode,
  isTurnpikeError,
  type PaymentProof,
  parseMemo,
  paymentIdOf,
  paymentNonce,
  type SignedPayment,
  TurnpikeError,
  UINT256_MAX,
} from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import type { OnStep } from "../steps";
import type { Store } from "../store/open";
import { findPayment, type PaymentRow } from "../store/tables/payments";
import { type Claim, claimOf, claimOfSignedPayment, refusal } from "./claim";
import { findEvidence } from "./evidence";
import { type ExactRequest, type ExactVerdict, exactFailure, type SettleOutcome } from "./exact";
import { isSignedByPayer, type JudgeContext, judge } from "./judge";
import { type Acceptance, bindPayment, rebindPayment, requeuePayment } from "./ledger";
import { isProofOf, issueProof, settledFacts } from "./proofs";
import { MAX_ATTEMPTS, startSender } from "./sender";

export type { ExactRequest, ExactVerdict, SettleOutcome, X402Reason } from "./exact";

export interface WaitOptions {
  /** how long to wait for the chain */
  readonly waitMs: number;
}

export type AuthorizeOutcome =
  | { readonly kind: "settled"; readonly paymentId: Hex; readonly proof: PaymentProof }
  | { readonly kind: "pending"; readonly paymentId: Hex; readonly retryAfterSec: number }
  /** it can never move money */
  | { readonly kind: "failed"; readonly paymentId: Hex; readonly error: TurnpikeError }
  /** nothing was sent by this call; while `liveUntilSec` has not passed the authorization can still move money */
  | {
      readonly kind: "refused";
      readonly error: TurnpikeError;
      readonly paymentId?: Hex;
      readonly liveUntilSec?: number;
    };

export interface PaymentStatus {
  readonly status: "pending" | "settled" | "failed" | "reversed" | "unknown";
  readonly transaction?: Hex;
  readonly reason?: string;
}

export type ProofVerdict =
  | { readonly kind: "valid"; readonly paymentId: Hex }
  | {
      readonly kind: "invalid";
      readonly reason: "network" | "signature" | "expired" | "unknown" | "pending" | "reversed" | "mismatch";
    };

export interface Payments {
  authorize(signed: SignedPayment, options?: WaitOptions): Promise<AuthorizeOutcome>;
  status(paymentId: Hex): Promise<PaymentStatus>;
  /** @throws Unavailable when the chain would have to be asked and does not answer */
  verifyProof(proof: PaymentProof): Promise<ProofVerdict>;
  verifyExact(request: ExactRequest): Promise<ExactVerdict>;
  settleExact(request: ExactRequest, options?: WaitOptions): Promise<SettleOutcome>;
  health(): { readonly ok: boolean; readonly queued: number; readonly oldestQueuedSec: number };
  stop(): Promise<void>;
}

export interface PaymentsOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly log: Logger;
  readonly onStep: OnStep;
  readonly monotonicMs?: () => number;
}

/** What became of a claim, whichever door it came through. */
type Fate =
  | { readonly kind: "settled"; readonly row: PaymentRow }
  | { readonly kind: "pending" }
  | { readonly kind: "failed"; readonly error: TurnpikeError }
  | { readonly kind: "refused"; readonly error: TurnpikeError; readonly liveUntilSec?: number };

/** Without having been woken: the change may have been made by a process whose hint was lost. */
const LOOK_AGAIN_MS = 3_000;

export function startPayments(options: PaymentsOptions): Payments {
  const { config, store, relayer, indexer, log, onStep } = options;
  const { chainId } = config;
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const context: JudgeContext = { config, relayer, clock: indexer.clock, applied: () => indexer.applied() };
  const sender = startSender({
    onStep,
    config,
    store,
    relayer,
    clock: indexer.clock,
    applied: () => indexer.applied(),
    log,
    monotonicMs,
  });

  const find = (paymentId: Hex): Promise<PaymentRow | undefined> => findPayment(store.db, chainId, paymentId);

  function isDeepEnough(row: PaymentRow): boolean {
    const token = findToken(config, row.token as Address);
    const isLarge = token !== undefined && BigInt(row.amount) >= token.largeAmount;
    if (!isLarge) return true;
    const head = indexer.head()?.number ?? indexer.applied();
    return head - (row.block_number ?? head) + 1 >= config.largeConfirmations;
  }

  /** Whether the row was bound to what this claim asks for; a claim for anything else is a conflict. */
  function conflictWith(row: PaymentRow, claim: Claim): TurnpikeError | undefined {
    if (row.state === "failed") return undefined;
    if (row.door !== claim.door)
      return refusal("PayloadConflict", "other_door", "this payment was accepted through another door");
    const isSame =
      row.resource_hash === claim.resourceHash &&
      row.pay_to === claim.authorization.to &&
      row.amount === claim.authorization.value.toString();
    if (isSame) return undefined;
    return refusal(
      "PayloadConflict",
      "other_contents",
      "this payment was accepted with another payee, amount or resource",
    );
  }

  /** Nothing more is taken in while what was taken in cannot be sent. */
  function busy(): TurnpikeError | undefined {
    if (sender.queue().oldestMs > config.maxQueueAgeMs) {
      return refusal("Unavailable", "busy", "the queue is too long", {
        retryAfterSec: Math.ceil(config.maxQueueAgeMs / 1_000),
      });
    }
    const health = relayer.health();
    return health.ok
      ? undefined
      : refusal("Unavailable", "relayer", "the relayer cannot send now", { retryAfterSec: 10 });
  }

  async function judgeFresh(claim: Claim): Promise<Awaited<ReturnType<typeof judge>>> {
    const first = await judge(context, claim);
    if (first.kind !== "bad" || first.error.reason !== "funds") return first;
    // The money may stand in a block that is not applied yet.
    await indexer.catchUp();
    return judge(context, claim);
  }

  /** Takes in a claim that no live row stands for. @returns undefined when there is a row to look at now */
  async function accept(claim: Claim, isRebinding: boolean): Promise<Fate | undefined> {
    const closed = busy() ?? sender.losses.refusalOf(claim);
    if (closed) return { kind: "refused", error: closed };
    const judgement = await judgeFresh(claim);
    if (judgement.kind === "bad") return { kind: "refused", error: judgement.error };
    if (judgement.kind === "used") return adopt(claim, isRebinding);
    const acceptance: Acceptance = { chainId, claim, state: "queued", ...judgement };
    if (isRebinding) await rebindPayment(store.db, acceptance);
    else if ((await bindPayment(store.db, acceptance)) === "short") {
      return {
        kind: "refused",
        error: refusal("InsufficientFunds", "funds", "the payer's pending payments leave too little for this one"),
      };
    }
    onStep("bound");
    store.wake.notify("payments");
    return undefined;
  }

  /** The nonce is used and no row knows of it: of a native payment the chain's own logs are as good as ours. */
  async function adopt(claim: Claim, isRebinding: boolean): Promise<Fate | undefined> {
    await indexer.catchUp();
    const { from: payer, to, value, nonce } = claim.authorization;
    const query = { paymentId: claim.paymentId, token: claim.token.address, payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, indexer.applied());
    const isOurs = evidence.kind === "transfer" && evidence.to === to && evidence.amount === value;
    if (evidence.kind === "none") return { kind: "pending" };
    if (!isOurs || claim.door === "settle") {
      const why =
        evidence.kind === "cancelled" ? "the authorization was cancelled" : "the authorization was used already";
      return { kind: "failed", error: refusal("PaymentNotAllowed", "nonce_used", why) };
    }
    const acceptance: Acceptance = {
      chainId,
      claim,
      state: "parked",
      hasCode: false,
      balance: UINT256_MAX,
      atBlock: indexer.applied(),
    };
    if (isRebinding) await rebindPayment(store.db, acceptance);
    else await bindPayment(store.db, acceptance);
    const row = await find(claim.paymentId);
    if (row) await sender.reconcile(row);
    return undefined;
  }

  async function pursue(claim: Claim, { waitMs }: WaitOptions): Promise<Fate> {
    const untilMs = monotonicMs() + waitMs;
    let isProven = false;
    let rejudged = 0;
    for (;;) {
      const leftMs = Math.max(0, untilMs - monotonicMs());
      const woken = store.wake.wait(`payment:${claim.paymentId}`, Math.min(leftMs, LOOK_AGAIN_MS));
      const row = await find(claim.paymentId);
      if (!row) {
        const fate = await accept(claim, false);
        if (fate) return fate;
        isProven = true;
        continue;
      }
      const conflict = conflictWith(row, claim);
      if (conflict) return { kind: "refused", error: conflict, liveUntilSec: row.valid_before };
      // Ids can be computed by anyone: only the payer's own signature opens what stands under one.
      isProven ||= row.signature === claim.signature || (await isSignedByPayer(context, claim));
      if (!isProven)
        return { kind: "refused", error: refusal("InvalidSignature", "signature", "the signature is not the payer's") };

      if (row.state === "settled") {
        if (isDeepEnough(row)) return { kind: "settled", row };
      } else if (row.state === "failed") {
        const isFresh = row.signature !== claim.signature && row.fail_reason === "expired";
        if (!isFresh) return { kind: "failed", error: failureOf(row) };
        const fate = await accept(claim, true);
        if (fate) return fate;
        continue;
      } else if (row.state === "parked" && !(await sender.reconcile(row))) {
        const refused = await rejudge(row, claim, rejudged++);
        if (refused) return refused;
      }
      if (monotonicMs() >= untilMs) return { kind: "pending" };
      if (row.state === "settled") await store.wake.wait("block", Math.min(leftMs, LOOK_AGAIN_MS));
      else await woken;
    }
  }

  /** What was sent and did not move: refused with what is in its way, or sent once more. */
  async function rejudge(row: PaymentRow, claim: Claim, before: number): Promise<Fate | undefined> {
    const judgement = await judgeFresh(claim);
    if (judgement.kind === "bad") return { kind: "refused", error: judgement.error, liveUntilSec: row.valid_before };
    if (judgement.kind === "used") return undefined;
    if (before > 0 || row.attempts > MAX_ATTEMPTS * 2) {
      const error = refusal(
        "TransferFailed",
        "not_moved",
        "the token did not move the money, for no reason that it tells",
      );
      return { kind: "refused", error, liveUntilSec: row.valid_before };
    }
    await requeuePayment(store.db, row);
    store.wake.notify("payments");
    return undefined;
  }

  const refusedOf = (error: unknown): Fate => {
    if (isTurnpikeError(error)) return { kind: "refused", error };
    throw error;
  };

  return {
    async authorize(signed, wait = { waitMs: config.authorizeWaitMs }) {
      onStep("received");
      const claim = claimOfSignedPayment(config, signed);
      if (claim instanceof TurnpikeError) return { kind: "refused", error: claim };
      const { paymentId } = claim;
      const fate = await pursue(claim, wait).catch(refusedOf);
      switch (fate.kind) {
        case "settled": {
          const facts = settledFacts(fate.row);
          if (!facts) return { kind: "pending", paymentId, retryAfterSec: 1 };
          const proof = issueProof(signed, facts, chainId, relayer.proofSigner);
          onStep("proven");
          return { kind: "settled", paymentId, proof };
        }
        case "pending":
          return { kind: "pending", paymentId, retryAfterSec: 1 };
        default:
          return { ...fate, paymentId };
      }
    },

    async status(paymentId) {
      const row = await find(paymentId);
      if (!row) return { status: "unknown" };
      const transaction = row.tx_hash === null ? {} : { transaction: row.tx_hash as Hex };
      if (row.state === "settled")
        return isDeepEnough(row) ? { status: "settled", ...transaction } : { status: "pending", ...transaction };
      if (row.state === "failed")
        return { status: "failed", ...transaction, ...(row.fail_reason && { reason: row.fail_reason }) };
      return { status: row.is_reversed ? "reversed" : "pending" };
    },

    async verifyProof(proof) {
      const invalid = (reason: (ProofVerdict & { kind: "invalid" })["reason"]): ProofVerdict => ({
        kind: "invalid",
        reason,
      });
      if (findNetwork(proof.network)?.chainId !== chainId) return invalid("network");
      if (!isProofOf(proof, chainId, relayer.proofSigner.address)) return invalid("signature");
      if (proof.expiresAt <= indexer.clock.nowSec()) return invalid("expired");
      const nonce = paymentNonce(parseMemo(proof.memo)?.ref ?? proof.memo, proof.resource);
      const paymentId = paymentIdOf({ chainId, token: proof.token, payer: proof.payer, nonce });
      const row = await find(paymentId);
      if (!row) return verifyByChain(proof, paymentId, nonce);
      if (row.is_reversed) return invalid("reversed");
      if (row.state !== "settled") return invalid("pending");
      // Settled again in another block: the earlier proof tells a transaction that is no more.
      return row.tx_hash === proof.transaction ? { kind: "valid", paymentId } : invalid("mismatch");
    },

    async verifyExact(request) {
      const claim = claimOf(config, "settle", request);
      if (claim instanceof TurnpikeError) return { kind: "invalid", ...exactFailure(claim) };
      const payer = claim.authorization.from;
      const invalid = (error: TurnpikeError): ExactVerdict => ({ kind: "invalid", payer, ...exactFailure(error) });
      if (claim.authorization.to !== request.payTo)
        return invalid(refusal("PaymentNotAllowed", "payee", "the payee is not the required one"));
      if (claim.authorization.value < request.amount)
        return invalid(refusal("PaymentNotAllowed", "amount", "the amount is below the required one"));
      const row = await find(claim.paymentId);
      if (row) {
        const conflict = conflictWith(row, claim);
        if (conflict) return invalid(conflict);
        if (row.state === "failed") return invalid(failureOf(row));
        return (await isSignedByPayer(context, claim))
          ? { kind: "valid", payer }
          : invalid(refusal("InvalidSignature", "signature", "the signature is not the payer's"));
      }
      const judgement = await judgeFresh(claim);
      if (judgement.kind === "good") return { kind: "valid", payer };
      return invalid(
        judgement.kind === "bad"
          ? judgement.error
          : refusal("PaymentNotAllowed", "nonce_used", "the authorization was used already"),
      );
    },

    async settleExact(request, wait = { waitMs: request.maxTimeoutSec * 1_000 }) {
      const claim = claimOf(config, "settle", request);
      if (claim instanceof TurnpikeError) return { kind: "refused", ...exactFailure(claim) };
      const payer = claim.authorization.from;
      const { paymentId } = claim;
      if (claim.authorization.to !== request.payTo || claim.authorization.value < request.amount) {
        const error = refusal("PaymentNotAllowed", "payee", "payee or amount is not the required one");
        return { kind: "refused", payer, ...exactFailure(error) };
      }
      const fate = await pursue(claim, wait).catch(refusedOf);
      switch (fate.kind) {
        case "settled":
          return { kind: "settled", paymentId, payer, transaction: fate.row.tx_hash as Hex };
        case "pending":
          return { kind: "pending", paymentId, payer, retryAfterSec: 1 };
        default:
          return { kind: fate.kind, paymentId, payer, ...exactFailure(fate.error) };
      }
    },

    health() {
      const { queued, oldestMs } = sender.queue();
      return { ok: oldestMs <= config.maxQueueAgeMs, queued, oldestQueuedSec: Math.round(oldestMs / 1_000) };
    },
    stop: () => sender.stop(),
  };

  /** The proof is ours, but this database does not know the payment: the chain does. */
  async function verifyByChain(proof: PaymentProof, paymentId: Hex, nonce: Hex): Promise<ProofVerdict> {
    const query = { paymentId, token: proof.token, payer: proof.payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, indexer.applied());
    if (evidence.kind !== "transfer") return { kind: "invalid", reason: "unknown" };
    const isSame =
      evidence.transaction === proof.transaction && evidence.to === proof.payTo && evidence.amount === proof.amount;
    return isSame ? { kind: "valid", paymentId } : { kind: "invalid", reason: "mismatch" };
  }
}

function failureOf(row: PaymentRow): TurnpikeError {
  const code = isErrorCode(row.fail_code) ? row.fail_code : "PaymentExpired";
  return new TurnpikeError(code, undefined, { reason: row.fail_reason ?? "expired" });
}
