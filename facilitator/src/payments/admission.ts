/**
 * Admits payment requests: judges them by the current chain and binds those that are worth sending to a row. Adopts the
 * chain's evidence when a payment has moved its money already.
 */
import { TurnpikeError, UINT256_MAX } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { isOutcomeUnknown } from "../db/outage";
import type { Indexer } from "../indexer";
import type { Party } from "../lib/fair-shares";
import type { Relayer } from "../relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { type AdmissionLimiter, createAdmissionLimiter } from "./admission-limiter";
import { findEvidence } from "./evidence";
import type { Intake } from "./intake";
import { balanceAt, type JudgeContext, type Judgement, judge } from "./judge";
import { bindRefund, rebindPayment } from "./ledger";
import { alreadyGranted, otherPaymentsNeedIt, type PaymentOutcome } from "./outcome";
import { type Acceptance, type Binding, type PaymentRequest, refusal } from "./payment-request";
import type { Reservations } from "./reservations";
import type { Sender } from "./sender";
import type { SettlementDepth } from "./settlement-depth";
import type { PaymentStages } from "./stages";
import type { WalletDeployments } from "./wallet-deployments";

export interface AdmissionOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly depth: SettlementDepth;
  readonly sender: Sender;
  readonly intake: Intake;
  readonly reservations: Reservations;
  readonly deployments: WalletDeployments;
  readonly context: JudgeContext;
  readonly stages: PaymentStages;
  readonly onStep: Failpoint;
  readonly monotonicMs: () => number;
}

/**
 * Result of an admission that is not an outcome yet.
 * `bound`: the payment has a new row.
 * `exists`: there is a row to read.
 * `unanswered`: the connection was lost around the commit. Binding again is safe: an existing row is not changed.
 * `deploying`: the payer's wallet is being deployed, and nothing is bound yet. Admit it again after the next block.
 */
export type Admitted = "bound" | "exists" | "unanswered" | "deploying";

/**
 * Result of a request that admits nothing.
 * `bound`: it would be admitted; or its amount is reserved, if that was requested.
 * `known`: it was accepted in the meantime, so its row decides.
 */
export type Verdict =
  | { readonly kind: "bound" | "known" }
  | { readonly kind: "refused"; readonly error: TurnpikeError };

const BEHIND_RETRY_SEC = 2;

/** A person has to look first. */
const TOO_DEEP_RETRY_SEC = 60;

export class PaymentAdmission {
  readonly #options: AdmissionOptions;
  readonly #limiter: AdmissionLimiter;
  readonly #queueFull: TurnpikeError;
  readonly #queueShared: TurnpikeError;

  constructor(options: AdmissionOptions) {
    const { config, monotonicMs } = options;
    this.#options = options;
    const retryAfterSec = Math.ceil(config.maxQueueAgeMs / 1_000);
    this.#queueFull = refusal("Unavailable", "busy", "the queue is too long", { retryAfterSec });
    const shared = "too many payments of this payer or provider are queued";
    this.#queueShared = refusal("Unavailable", "busy", shared, { retryAfterSec });
    this.#limiter = createAdmissionLimiter({
      maxWaiting: config.maxIntake,
      maxAgeMs: config.maxQueueAgeMs,
      monotonicMs,
    });
  }

  /** Judges the request of a payment that is admitted already. @throws Unavailable when the chain cannot be read */
  async judgeUnlimited(request: PaymentRequest): Promise<Judgement> {
    const { relayer, indexer, context } = this.#options;
    const first = await judge(context, request);
    if (first.kind !== "bad" || first.error.reason !== "funds") return first;
    // The payer's deposit may be in a block that is not indexed yet.
    await indexer.catchUp();
    const second = await judge(context, request);
    if (second.kind !== "bad" || second.error.reason !== "funds") return second;
    // The indexer may be behind or down: that is no fault of the payer.
    const { from, value } = request.authorization;
    if ((await balanceAt(relayer, request.token.address, from, -1)) < value) return second;
    throw refusal("Unavailable", "busy", "the block that brought the payer's money is not read yet", {
      retryAfterSec: BEHIND_RETRY_SEC,
    });
  }

  /**
   * Returns whether a request would be admitted now, without admitting it.
   * @throws Unavailable when the chain cannot be read, or too many payments wait
   */
  verify(request: PaymentRequest): Promise<Verdict> {
    return this.#limiter.run(partyOf(request), async () => {
      const judged = await this.#acceptanceOf(request);
      if (judged instanceof TurnpikeError) return { kind: "refused", error: judged };
      return verdictOf(await this.#options.reservations.check(judged));
    });
  }

  /**
   * Reserves the amount of a gate's request that would be admitted now. Idempotent for the same purchase.
   * @throws Unavailable when the chain cannot be read, or payments cannot be sent at the moment
   * @throws RateLimited when the payer has too many reservations
   */
  async reserve(request: PaymentRequest): Promise<Verdict> {
    const closed = this.#whyClosed(request);
    if (closed) throw closed;
    const refused = this.whyLost(request);
    if (refused) return { kind: "refused", error: refused };
    return this.#limiter.run(partyOf(request), async () => {
      const judged = await this.#acceptanceOf(request);
      if (judged instanceof TurnpikeError) return { kind: "refused", error: judged };
      const reserved = await this.#options.reservations.reserve(judged);
      if (reserved === "crowded") throw tooManyReserved();
      return verdictOf(reserved);
    });
  }

  /** Judges a request that has no row. */
  async #acceptanceOf(request: PaymentRequest): Promise<Acceptance | TurnpikeError> {
    const judgement = (await this.#whyRefund(request)) ?? (await this.judgeUnlimited(request));
    if (judgement.kind === "good") {
      return { chainId: this.#options.config.chainId, request, state: "queued", ...judgement };
    }
    if (judgement.kind === "bad") return judgement.error;
    return refusal("PaymentNotAllowed", "nonce_used", "the authorization was used already");
  }

  /** Refuses an authorization that is a refund. Neither a native payment's nonce is one, nor one of Permit2. */
  async #whyRefund({ channel, authorization, transfer }: PaymentRequest): Promise<Judgement | undefined> {
    if (
      channel !== "settle" ||
      transfer.method !== "eip3009" ||
      !(await this.#options.intake.isOfRefund(authorization.nonce))
    )
      return undefined;
    return {
      kind: "bad",
      error: refusal("PayloadConflict", "other_door", "the authorization's nonce is that of a refund"),
    };
  }

  /** Admits a request that has no known live row. */
  admit(request: PaymentRequest): Promise<PaymentOutcome | Admitted> {
    return this.#limit(request, false);
  }

  /** Admits a request whose row failed for good with another authorization of the same nonce, and replaces that row. */
  readmit(request: PaymentRequest): Promise<PaymentOutcome | Admitted> {
    return this.#limit(request, true);
  }

  async #limit(request: PaymentRequest, isRebinding: boolean): Promise<PaymentOutcome | Admitted> {
    const closed = this.#whyClosed(request) ?? this.whyLost(request);
    if (closed) return { kind: "refused", error: closed };
    const party = partyOf(request);
    const admit = () => this.#judgeAndBind(request, isRebinding);
    return this.#limiter.run(party, () => this.#options.sender.entering(party, admit));
  }

  /** Returns why nothing more is sent for this payer or payee: their payments cost too much gas, or moved nothing. */
  whyLost(request: PaymentRequest): TurnpikeError | undefined {
    const { failedSpends, payerGas } = this.#options.sender;
    return failedSpends.refusalOf(partyOf(request)) ?? payerGas.refusalOf(request.authorization.from);
  }

  /** whether new payments of some payers and providers are refused now */
  get isCrowded(): boolean {
    return this.#limiter.isCrowded || this.#options.sender.isCrowded;
  }

  /** Returns why a new payment of this payer and provider would be refused now, whatever it is. */
  whyBusy(party: Party): TurnpikeError | undefined {
    return this.#whyNotQueued(party) ?? this.#limiter.refusalOf(party);
  }

  #whyNotQueued(party: Party): TurnpikeError | undefined {
    const { config, sender } = this.#options;
    if (sender.mayQueue(party)) return undefined;
    return sender.waitMs() >= config.maxQueueAgeMs ? this.#queueFull : this.#queueShared;
  }

  /** No payment is admitted while the admitted ones cannot be sent. */
  #whyClosed(request: PaymentRequest): TurnpikeError | undefined {
    const { relayer, indexer } = this.#options;
    const { transfer } = request;
    if (indexer.health().isTooDeep) {
      return refusal("Unavailable", "relayer", "the chain was reorganised deeper than blocks can be reverted", {
        retryAfterSec: TOO_DEEP_RETRY_SEC,
      });
    }
    const busy = this.#whyNotQueued(partyOf(request));
    if (busy) return busy;
    const health = relayer.health();
    // An `upto` payment waits for its own key, whatever the others can send.
    const lane = transfer.method === "upto" ? health.lanes.find(({ key }) => key === transfer.sender) : undefined;
    const isLaneClosed = lane?.status === "stopped" || lane?.isBalanceLow;
    const reason = isLaneClosed ? `${lane.key} is ${lane.reason ?? "low on gas money"}` : health.reason;
    return health.ok && !isLaneClosed
      ? undefined
      : refusal("Unavailable", "relayer", `the relayer cannot send now: ${reason}`, { retryAfterSec: 10 });
  }

  async #judgeAndBind(request: PaymentRequest, isRebinding: boolean): Promise<PaymentOutcome | Admitted> {
    const { config, store, intake, sender, deployments, stages, onStep, monotonicMs } = this.#options;
    const judging = { name: "judge", request, monotonicMs } as const;
    const judgement = await stages.during(
      judging,
      async () => (await this.#whyRefund(request)) ?? this.judgeUnlimited(request),
    );
    if (judgement.kind === "bad") {
      if (request.deployment) await deployments.refused(request);
      return { kind: "refused", error: judgement.error };
    }
    if (judgement.kind === "used") {
      if (!isRebinding && (await intake.find(request.paymentId))) return "exists";
      return (await this.#adopt(request, isRebinding)) ?? "exists";
    }
    // An `upto` payment settled at 0 moves nothing and uses no nonce: its row keeps it from paying for anything else.
    const state = request.authorization.value === 0n && request.transfer.method === "upto" ? "waived" : "queued";
    const acceptance: Acceptance = { chainId: config.chainId, request, state, ...judgement };
    if (judgement.deployment) {
      // Reservations and payments in flight may need the money: then no gas is spent.
      const checked = verdictOf(await this.#options.reservations.check(acceptance));
      if (checked.kind === "refused") return checked;
      const begun = await deployments.deploy(request, judgement.deployment);
      return begun === "deploying" ? begun : { kind: "refused", error: begun };
    }
    const isDear = state === "queued" && (judgement.hasCode || request.transfer.method !== "eip3009");
    const dear = isDear ? sender.payerGas.add(request.authorization.from) : undefined;
    if (dear) return { kind: "refused", error: dear };
    const binding = await this.#bind(acceptance, isRebinding).catch(unanswered);
    if (binding === "unanswered") return binding;
    const refused = verdictOf(binding);
    if (refused.kind === "refused") return refused;
    onStep("bound");
    if (isRebinding) store.notifier.notify("payments");
    return binding === "bound" && state === "queued" ? "bound" : "exists";
  }

  /** Adopts a nonce that is used without a row. For a native payment, the chain's logs are sufficient evidence. */
  async #adopt(request: PaymentRequest, isRebinding: boolean): Promise<PaymentOutcome | undefined> {
    const { config, relayer, indexer, depth, sender, intake } = this.#options;
    await indexer.catchUp();
    const { from: payer, to, value, nonce } = request.authorization;
    if (request.transfer.method !== "eip3009") {
      const error = refusal("PaymentNotAllowed", "nonce_used", "the Permit2 nonce was used already");
      return { kind: "refused", error };
    }
    const query = { paymentId: request.paymentId, token: request.token.address, payer, nonce };
    const evidence = await findEvidence({ config, relayer }, query, indexer.applied());
    const isOurs = evidence.kind === "transfer" && evidence.to === to && evidence.amount === value;
    if (evidence.kind === "none") return { kind: "pending" };
    if (!isOurs || request.channel === "settle") {
      const why =
        evidence.kind === "cancelled" ? "the authorization was cancelled" : "the authorization was used already";
      const error = refusal("PaymentNotAllowed", "nonce_used", why);
      if (depth.isFinal(evidence.blockNumber)) return { kind: "failed", error };
      return request.channel === "settle" ? { kind: "refused", error } : { kind: "pending" };
    }
    const acceptance: Acceptance = {
      chainId: config.chainId,
      request,
      state: "parked",
      hasCode: false,
      balance: UINT256_MAX,
      atBlock: indexer.applied(),
    };
    const binding = await this.#bind(acceptance, isRebinding);
    if (binding === "granted") return { kind: "refused", error: alreadyGranted() };
    const row = await intake.find(request.paymentId);
    if (row) await sender.reconcile(row);
    return undefined;
  }

  #bind(acceptance: Acceptance, isRebinding: boolean): Promise<Binding> {
    const { stages, monotonicMs } = this.#options;
    const { request } = acceptance;
    const traced = { ...acceptance, traceparent: stages.traceparentOf(request) };
    return stages.during({ name: "bind", request, monotonicMs }, () => this.#write(traced, isRebinding));
  }

  #write(acceptance: Acceptance, isRebinding: boolean): Promise<Binding> {
    const { store, intake, depth } = this.#options;
    const { refund } = acceptance.request;
    if (refund)
      return bindRefund(store, acceptance, { refund, isRebinding, isDead: (row) => depth.isFinalFailure(row) });
    return isRebinding ? rebindPayment(store, acceptance) : intake.bind(acceptance);
  }
}

const partyOf = ({ authorization: { from: payer, to: payee } }: PaymentRequest): Party => ({ payer, payee });

const tooManyReserved = (): TurnpikeError =>
  refusal("RateLimited", "reservations", "this payer has too many payments that are verified and not settled", {
    retryAfterSec: BEHIND_RETRY_SEC,
  });

function verdictOf(binding: Binding): Verdict {
  switch (binding) {
    case "short":
      return { kind: "refused", error: otherPaymentsNeedIt() };
    case "granted":
      return { kind: "refused", error: alreadyGranted() };
    default:
      return { kind: binding };
  }
}

function unanswered(error: unknown): "unanswered" {
  if (!isOutcomeUnknown(error)) throw error;
  return "unanswered";
}
