/**
 * Accepts acts that subscribers signed. Each act is simulated before it is sent, submitted once, and answered from the
 * rows that the indexer committed. Repeating a request is always safe.
 */
import type {
  ChangeAct,
  ChangeQuote,
  ChangeRequest,
  PermitFields,
  PlanWire,
  SubscribeRequest,
  SubscriptionChangeWire,
  SubscriptionListWire,
  SubscriptionWire,
  VoidRequest,
} from "turnpike/facilitator";
import { type Address, type Clock, type Hex, idHashOf, TurnpikeError } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { Store } from "../db/open";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import { type ActSender, createActSender } from "./act-sender";
import {
  type ActCall,
  actKeyOf,
  changeCall,
  decodeQuote,
  quoteCall,
  renewedFirst,
  resultingIdHash,
  subscribeCall,
  voidCall,
} from "./acts";
import { createPermits, type Permits } from "./permits";
import { policyAgainst } from "./policy";
import { asContractsRead } from "./read-signatures";
import { SubscriptionReader } from "./reader";
import { type PlanPage, type SubscriptionPage, type SubscriptionRecord, statusOf } from "./records";

export interface SubscriptionsDeps {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly clock: Clock;
  /** monotonic milliseconds */
  readonly monotonicMs?: () => number;
}

export interface Waiting {
  readonly waitMs: number;
}

export type ActOutcome =
  | { readonly kind: "done"; readonly change: SubscriptionChangeWire }
  | { readonly kind: "pending" };

/** Every method throws a TurnpikeError with the reason; `Unavailable` when the answer cannot be known now. */
export interface Subscriptions {
  readonly permits: Permits;
  subscribe(request: SubscribeRequest, waiting: Waiting): Promise<ActOutcome>;
  change<A extends ChangeAct>(act: A, idHash: Hex, request: ChangeRequest<A>, waiting: Waiting): Promise<ActOutcome>;
  /** A signup that was signed for the secret is worth nothing afterwards. */
  void(request: VoidRequest, waiting: Waiting): Promise<ActOutcome>;
  get(idHash: Hex): Promise<SubscriptionWire>;
  of(subscriber: Address, page: SubscriptionPage): Promise<SubscriptionListWire>;
  quote(idHash: Hex, newPlanId: Hex): Promise<ChangeQuote>;
  plan(planId: Hex): Promise<PlanWire>;
  plans(page: PlanPage): Promise<{ readonly plans: PlanWire[]; readonly next?: number }>;
}

export function createSubscriptions(deps: SubscriptionsDeps): Subscriptions {
  return new SubscriptionService(deps);
}

class SubscriptionService implements Subscriptions {
  readonly permits: Permits;
  readonly #config: FacilitatorConfig;
  readonly #clock: Clock;
  readonly #monotonicMs: () => number;
  readonly #reader: SubscriptionReader;
  readonly #sender: ActSender;
  readonly #chain: Relayer["chain"];

  constructor(deps: SubscriptionsDeps) {
    const { config, store, relayer, indexer, clock } = deps;
    const { chainId, actsPerHour } = config;
    const monotonicMs = deps.monotonicMs ?? (() => performance.now());
    this.#config = config;
    this.#chain = relayer.chain;
    this.#clock = clock;
    this.#monotonicMs = monotonicMs;
    this.#reader = new SubscriptionReader({ config, store, indexer, clock });
    this.#sender = createActSender({ chainId, store, relayer, indexer, clock, actsPerHour, monotonicMs });
    this.permits = createPermits({ config, relayer, clock, sender: this.#sender });
  }

  async subscribe(given: SubscribeRequest, { waitMs }: Waiting): Promise<ActOutcome> {
    const { turnpike } = this.#config;
    const untilMs = this.#monotonicMs() + waitMs;
    const request = await asContractsRead(this.#chain, given, given.subscriber);
    const idHash = idHashOf(request.subscriber, request.secretHash);
    const existing = await this.#reader.find(idHash);
    // Also answers after this service lost its database, and when someone else submitted the signature first.
    if (existing && isSameSignup(existing, request)) return this.#adopt(existing, request, untilMs);
    try {
      const outcome = await this.#sender.send(
        {
          name: "subscribe",
          key: signupKeyOf(request),
          objectId: idHash,
          signer: request.subscriber,
          to: turnpike,
          prepare: async () => {
            await this.#checkSignup(request);
            const call = subscribeCall(request);
            await this.#sender.simulate(turnpike, call);
            return call;
          },
        },
        untilMs,
      );
      if (outcome.kind === "pending") return { kind: "pending" };
      return { kind: "done", change: await this.#resultOf(idHash, outcome.transaction) };
    } catch (error) {
      if (!(error instanceof TurnpikeError) || error.code !== "IdHashUsed") throw error;
      // Someone else was faster, in a block that may not have been read yet.
      const copied = await this.#reader.find(idHash);
      if (copied && isSameSignup(copied, request)) return this.#adopt(copied, request, untilMs);
      if (copied || (await this.#reader.findVoided(idHash))) throw error;
      return { kind: "pending" };
    }
  }

  /** Answers for a signup that is on the chain. Who copied it may have left its permit out: that is submitted now. */
  async #adopt({ row, plan }: SubscriptionRecord, request: SubscribeRequest, untilMs: number): Promise<ActOutcome> {
    const transaction = row.transaction as Hex;
    const { permit, subscriber: owner } = request;
    if (permit && !(await this.#sender.isOwn(signupKeyOf(request), transaction))) {
      // As in the signup itself, a permit that the token refuses is no error: it may be used.
      const isEffective = await this.#applyPermit(permit, { token: plan.token, owner }, untilMs).catch((error) => {
        if (error instanceof TurnpikeError && REFUSED_PERMIT.has(error.code)) return true;
        throw error;
      });
      if (!isEffective) return { kind: "pending" };
    }
    return { kind: "done", change: await this.#resultOf(row.id_hash as Hex, transaction) };
  }

  async void(given: VoidRequest, { waitMs }: Waiting): Promise<ActOutcome> {
    const { turnpike } = this.#config;
    const untilMs = this.#monotonicMs() + waitMs;
    const request = await asContractsRead(this.#chain, given, given.subscriber);
    const idHash = idHashOf(request.subscriber, request.secretHash);
    const voided = await this.#reader.findVoided(idHash);
    if (voided) return { kind: "done", change: voidedChange(idHash, voided.transaction as Hex) };
    const outcome = await this.#sender.send(
      {
        name: "void",
        key: actKeyOf("void", idHash, request.signature),
        objectId: idHash,
        signer: request.subscriber,
        to: turnpike,
        prepare: async () => {
          const call = voidCall(request);
          await this.#sender.simulate(turnpike, call);
          await this.permits.requireFunds(request.subscriber);
          return call;
        },
      },
      untilMs,
    );
    if (outcome.kind === "pending") return { kind: "pending" };
    return { kind: "done", change: voidedChange(idHash, outcome.transaction) };
  }

  async change<A extends ChangeAct>(
    act: A,
    idHash: Hex,
    given: ChangeRequest<A>,
    { waitMs }: Waiting,
  ): Promise<ActOutcome> {
    const untilMs = this.#monotonicMs() + waitMs;
    const { row, plan } = await this.#reader.require(idHash);
    const request = await asContractsRead(this.#chain, given, row.subscriber as Address);
    // A subscriber can always cancel, also when this Facilitator no longer serves the plan.
    const against = act === "cancel" ? undefined : policyAgainst(plan, this.#config);
    if (against) throw against;

    const simulate = () => this.#simulateChange(act, idHash, request);
    const applyPermit = (permit: PermitFields) =>
      this.#applyPermit(permit, { token: plan.token, owner: row.subscriber }, untilMs);
    const prepare = () => prepareChange(request.permit, simulate, applyPermit);

    try {
      const key = actKeyOf(act, idHash, request.signature);
      const signer = row.subscriber as Address;
      const to = this.#config.turnpike;
      const isFinal = act === "cancel" && "atPeriodEnd" in request && !request.atPeriodEnd;
      const outcome = await this.#sender.send(
        { name: act, key, objectId: idHash, signer, to, isFinal, prepare },
        untilMs,
      );
      if (outcome.kind === "pending") return { kind: "pending" };
      const resulting = resultingIdHash(act, idHash, row, request);
      const previous = resulting === idHash ? undefined : idHash;
      return { kind: "done", change: await this.#resultOf(resulting, outcome.transaction, previous) };
    } catch (error) {
      if (error instanceof PermitPending) return { kind: "pending" };
      throw error;
    }
  }

  get(idHash: Hex): Promise<SubscriptionWire> {
    return this.#reader.get(idHash);
  }

  of(subscriber: Address, page: SubscriptionPage): Promise<SubscriptionListWire> {
    return this.#reader.of(subscriber, page);
  }

  async quote(idHash: Hex, newPlanId: Hex): Promise<ChangeQuote> {
    const call = { data: quoteCall(idHash, newPlanId), gasLimit: 500_000n };
    const answer = await this.#sender.simulate(this.#config.turnpike, call);
    return { idHash, newPlanId, ...decodeQuote(answer), chainTimeSec: this.#clock.nowSec() };
  }

  plan(planId: Hex): Promise<PlanWire> {
    return this.#reader.plan(planId);
  }

  plans(page: PlanPage): Promise<{ readonly plans: PlanWire[]; readonly next?: number }> {
    return this.#reader.plans(page);
  }

  async #checkSignup({ planId, subscriber, voucher }: SubscribeRequest): Promise<void> {
    const plan = await this.#reader.requirePlan(planId);
    const against = policyAgainst(plan, this.#config);
    if (against) throw against;
    const token = findToken(this.#config, plan.token as Address);
    if (voucher && token && voucher.firstAmount < token.minAmount) {
      await this.permits.requireFunds(subscriber, [token]);
    }
  }

  async #resultOf(idHash: Hex, transaction: Hex, previousIdHash?: Hex): Promise<SubscriptionChangeWire> {
    const record = await this.#reader.require(idHash);
    return {
      idHash,
      status: statusOf(record, this.#clock.nowSec()),
      transaction,
      paidThrough: record.row.paid_through,
      version: record.row.version,
      ...(previousIdHash && { previousIdHash }),
    };
  }

  /** Simulates a change. A change of plan, at once or scheduled, is renewed first when its renewal is due. */
  async #simulateChange<A extends ChangeAct>(act: A, idHash: Hex, request: ChangeRequest<A>): Promise<ActCall> {
    const { turnpike } = this.#config;
    const call = changeCall(act, idHash, request);
    try {
      await this.#sender.simulate(turnpike, call);
      return call;
    } catch (error) {
      if ((act !== "plan" && act !== "next") || !(error instanceof TurnpikeError) || error.code !== "RenewalDue")
        throw error;
    }
    const both = renewedFirst(idHash, call);
    await this.#sender.simulate(turnpike, both);
    return both;
  }

  /** Submits the permit to the token first. @returns false while it is pending */
  async #applyPermit(
    permit: PermitFields,
    { token, owner }: { token: string; owner: string },
    untilMs: number,
  ): Promise<boolean> {
    const outcome = await this.permits.apply({ ...permit, token: token as Address, owner: owner as Address }, untilMs);
    return outcome.kind === "done";
  }
}

/** Simulates a change, after its permit if it has one. */
async function prepareChange(
  permit: PermitFields | undefined,
  simulate: () => Promise<ActCall>,
  applyPermit: (permit: PermitFields) => Promise<boolean>,
): Promise<ActCall> {
  if (!permit) return simulate();
  // Simulated before the permit costs gas, and again once the permit is effective.
  await simulate().catch((error: unknown) => {
    if (!(error instanceof TurnpikeError) || error.code !== "InsufficientApproval") throw error;
  });
  const isEffective = await applyPermit(permit);
  if (!isEffective) throw new PermitPending();
  return simulate();
}

/** Used only within `change`: while the permit's transaction is pending, the act cannot be simulated. */
class PermitPending extends TurnpikeError {
  constructor() {
    super("PaymentPending");
  }
}

const REFUSED_PERMIT: ReadonlySet<string> = new Set(["InvalidSignature", "SignatureExpired", "InsufficientFunds"]);

const signupKeyOf = ({ subscriber, secretHash, signature }: SubscribeRequest): Hex =>
  actKeyOf("subscribe", idHashOf(subscriber, secretHash), signature);

function isSameSignup({ row, allowance }: SubscriptionRecord, request: SubscribeRequest): boolean {
  const { planId, maxOverage, until = 0, voucher } = request;
  const hasSameTerms = row.until === until && row.intro === (voucher !== undefined);
  return hasSameTerms && row.plan_id === planId && BigInt(allowance?.cap ?? "0") === maxOverage;
}

const voidedChange = (idHash: Hex, transaction: Hex): SubscriptionChangeWire => ({
  idHash,
  transaction,
  status: "CANCELLED",
  paidThrough: 0,
  version: 0,
});
