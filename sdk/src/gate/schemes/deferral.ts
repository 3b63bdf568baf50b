/**
 * Takes a payment by the flow `authorization`, whatever its scheme: reserve the amount, run the handler, settle, then
 * answer. A handler that fails costs nothing, and an answer leaves only once its payment has settled.
 */
import { type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import { atMost } from "../../protocol/exchange";
import { type DeferredOutcome, type DeferredSettlement, reportedWith } from "../core/payment";
import {
  ALREADY_USED,
  barredAs,
  grantRefundable,
  grantSettled,
  keeperFor,
  messageOf,
  type PaymentVerdict,
  withdrawClaim,
} from "../core/payment-case";
import { MAX_RELEASES } from "../purchases/record";
import { fitAnswer, type KeptAnswer } from "../replay/fit";
import { sealedWithin, secretOfSignature, withReceipts } from "../replay/keeper";
import {
  findUnsettled,
  grantIdsOf,
  type Purchase,
  type Run,
  reserveFor,
  type Settlement,
  settleFor,
  storeUnsettled,
  type UnsettledPurchase,
} from "./scheme";
import { ChargeRule, chargeable, UptoCharge } from "./upto-charge";

type AnyRun = Pick<Run<Purchase>, "at" | "purchase">;

interface DeferRequest<P extends Purchase> extends Run<P> {
  /** its window is over, but the Facilitator has accepted it in time: it may only be settled now */
  readonly isLate: boolean;
}

/**
 * Begins the flow for a payment that was just claimed. Settles at once where an earlier run's answer is stored, or where
 * the payment is under way already.
 * @throws Unavailable
 */
export async function deferSettlement<P extends Purchase>({
  isLate,
  ...run
}: DeferRequest<P>): Promise<PaymentVerdict> {
  const { at, scheme, purchase, claim } = run;
  const isUpto = scheme.charged !== undefined;
  const recorded = isUpto && claim.releases > 0 ? await recordedCharge(run) : undefined;
  if (claim.releases > 0) {
    const charged = recorded === undefined ? run : chargedAt(run, recorded);
    const isKnown = !isUpto || recorded !== undefined;
    const stored = isKnown ? await storedAnswer(charged) : undefined;
    if (stored) return settleStored(charged, stored);
    // That run's answer was not stored: the handler runs again.
    if (isUpto && (await scheme.isUnderWay(at, purchase)))
      return isKnown ? settleFirst(charged, grantSettled) : settleUnderWay(run);
  }
  if (isLate) return settleUnderWay(run);
  if (claim.releases >= MAX_RELEASES) {
    // An outcome that was unknown may have become a settlement since: what was paid for is served.
    if (await scheme.isUnderWay(at, purchase)) return settleUnderWay(run);
    return withdrawClaim(claim, "handler_failed");
  }
  const reserved = await reserveFor(run);
  if (reserved.kind === "under_way") return settleUnderWay(run);
  if (reserved.kind === "refused") return withdrawClaim(claim, reserved.reason);
  const charge = isUpto ? chargeOf(run, recorded) : undefined;
  const deferred = new ReservedPayment(run, reserved.grantId, charge);
  const payment = charge ? chargeable(purchase.payment, charge) : purchase.payment;
  return { kind: "grants", payment, claim: undefined, deferred, keeper: undefined, headers: {} };
}

function chargeOf({ at, purchase }: AnyRun, recorded: bigint | undefined): UptoCharge {
  const { settings, support } = at.context;
  const min = BigInt(support.known()?.minAmount ?? 0);
  return new UptoCharge(purchase.payment.amount, settings.token ?? {}, recorded, min);
}

/** Returns what an earlier run has charged, base units; undefined where none came to charge. @throws Unavailable */
async function recordedCharge({ at, purchase }: AnyRun): Promise<bigint | undefined> {
  const facts = await at.context.claims.facts(purchase.payment.paymentId);
  const charges = (await grantIdsOf(at, purchase)).map((grantId) => facts.get(grantId)?.charged);
  return charges.find((charged) => charged !== undefined);
}

const chargedAt = <P extends Purchase>(run: Run<P>, amount: bigint): Run<P> => ({
  ...run,
  purchase: run.scheme.charged?.(run.purchase, amount) ?? run.purchase,
});

/** Settles what was accepted before. */
async function settleUnderWay<P extends Purchase>(run: Run<P>): Promise<PaymentVerdict> {
  if (!run.scheme.charged) return settleFirst(run);
  // For an amount that is not known here any more.
  await run.claim.settle("withdraw");
  return ALREADY_USED;
}

/** Settles before the handler runs. @param grant what the settled payment gets */
export async function settleFirst<P extends Purchase>(
  run: Run<P>,
  grant: typeof grantRefundable = grantRefundable,
): Promise<PaymentVerdict> {
  const { at, purchase, claim } = run;
  const settled = await settleFor(run);
  if (settled.kind === "faulty") return withdrawClaim(claim, settled.reason);
  return grant(at, { ...purchase, payment: paidBy(run, settled), claim });
}

/** How an answer of a purchase is stored before its payment has settled. */
async function unsettledPurchases({ at, purchase }: AnyRun): Promise<readonly UnsettledPurchase[]> {
  const { payment, secret, signature } = purchase;
  const bare = secretOfSignature(signature);
  return (await grantIdsOf(at, purchase)).map((grantId, place) => ({
    paymentId: payment.paymentId,
    grantId,
    secret: (place === 0 && secret) || bare,
  }));
}

async function storedAnswer(run: AnyRun): Promise<KeptAnswer | undefined> {
  for (const bought of await unsettledPurchases(run)) {
    const found = await findUnsettled(run.at, bought);
    if (found) return found;
  }
  return undefined;
}

/** Settles the payment of an earlier run, whose answer is stored. Runs nothing, so that it counts as no run. */
async function settleStored<P extends Purchase>(run: Run<P>, answer: KeptAnswer): Promise<PaymentVerdict> {
  const { at, purchase, claim } = run;
  const found = await fitAnswer(answer, at.request);
  if (found.kind === "unfit") {
    await claim.settle("withdraw");
    return barredAs(found);
  }
  const settled = await settleFor(run);
  if (settled.kind === "faulty") return withdrawClaim(claim, settled.reason);
  const paid = paidBy(run, settled);
  const report = await purchase.dialect.report(at, paid);
  const reported = (each: KeptAnswer) => withReceipts(each, reportedWith(report, each.status));
  await claim.settle("use", sealedWithin(keeperFor(at, purchase), reported(answer)));
  const cors = at.route.cors !== false;
  return { kind: "replay", answer: reported(found.answer), cors, settled: paid };
}

const paidBy = ({ purchase: { payment } }: AnyRun, { transaction }: Extract<Settlement, { kind: "settled" }>) =>
  transaction === undefined ? payment : { ...payment, transaction };

/** A handler's answer waits no longer for the Facilitator to end a reservation, which ends by itself. */
const RELEASE_WAIT_MS = 1_000;

class ReservedPayment<P extends Purchase> implements DeferredSettlement {
  readonly #run: Run<P>;
  readonly #grantId: Hex;
  /** where its handler names what it costs */
  readonly #charge: UptoCharge | undefined;
  readonly #rule: ChargeRule;
  #settling: Promise<DeferredOutcome> | undefined;
  #ending: Promise<void> | undefined;

  constructor(run: Run<P>, grantId: Hex, charge: UptoCharge | undefined) {
    this.#run = run;
    this.#grantId = grantId;
    this.#charge = charge;
    this.#rule = new ChargeRule(run.at.route.chargeFor);
  }

  chargesFor(status: number): boolean {
    return this.#rule.chargesFor(status);
  }

  settle(answer: KeptAnswer | undefined): Promise<DeferredOutcome> {
    if (this.#ending) return Promise.resolve(unavailable(new Unavailable("The payment was released.")));
    this.#settling ??= this.#settle(answer);
    return this.#settling;
  }

  cancel(): Promise<void> {
    return this.#end("release");
  }

  withdraw(): Promise<void> {
    return this.#end("withdraw");
  }

  async shelve(answer: KeptAnswer | undefined): Promise<void> {
    if (this.#settling || this.#ending) return;
    const amount = answer && (this.#rule.fault ?? this.#amount(true));
    if (!answer || typeof amount === "object") return this.cancel();
    this.#ending = (async () => {
      await this.#record(amount);
      await this.#store(answer);
      await this.#run.claim.settle("release");
    })();
    await this.#ending;
  }

  /** @returns what its handler charges where that is not its amount, or why it cannot be charged */
  #amount(isWhole: boolean): bigint | TurnpikeError | undefined {
    try {
      return this.#charge?.close(isWhole);
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      return error;
    }
  }

  /** Before anything settles, or is kept to be settled. */
  async #record(amount: bigint | undefined): Promise<void> {
    if (amount === undefined) return;
    const { at, purchase } = this.#run;
    const { paymentId } = purchase.payment;
    const { charged } = await at.context.claims.note(paymentId, this.#grantId, { charged: amount }, purchase);
    if (charged === amount) return;
    throw new Unavailable("What this payment is charged could not be recorded, so it was not settled.", {
      retryAfterSec: 2,
    });
  }

  async #settle(answer: KeptAnswer | undefined): Promise<DeferredOutcome> {
    const { claim } = this.#run;
    const amount = this.#rule.fault ?? this.#amount(answer !== undefined);
    if (typeof amount === "object") {
      await this.#release("release");
      return { kind: "failed", cause: amount };
    }
    try {
      await this.#record(amount);
      if (answer) await this.#store(answer);
      const run = amount === undefined ? this.#run : chargedAt(this.#run, amount);
      const { at, purchase } = run;
      const settled = await settleFor(run);
      if (settled.kind === "faulty") {
        // The handler has run for nothing: that counts.
        await claim.settle("release");
        const refusal = refusalFor(settled.reason);
        const cause = purchase.dialect.errorFor?.(refusal);
        return cause ? { kind: "failed", cause } : { kind: "refused", refusal };
      }
      const report = await purchase.dialect.report(at, paidBy(run, settled));
      const reported = answer && withReceipts(answer, reportedWith(report, answer.status));
      await claim.settle("use", sealedWithin(keeperFor(at, purchase), reported));
      return { kind: "settled", report };
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      // A retry settles the stored answer, or runs again. Where it cannot be written, the lease expires.
      await claim.settle("release").catch(() => undefined);
      return unavailable(error);
    }
  }

  async #store(answer: KeptAnswer): Promise<void> {
    const bought = (await unsettledPurchases(this.#run)).find(({ grantId }) => grantId === this.#grantId);
    if (bought) await storeUnsettled(this.#run.at, bought, answer);
  }

  #end(how: "release" | "withdraw"): Promise<void> {
    if (this.#settling) return Promise.resolve();
    this.#ending ??= this.#release(how);
    return this.#ending;
  }

  /** Ends the reservation first: a retry that claims the payment afterwards keeps its own. */
  async #release(how: "release" | "withdraw"): Promise<void> {
    const { at, scheme, purchase, claim } = this.#run;
    const released = scheme.cancel(at, purchase, this.#grantId);
    const ignored = (): undefined => undefined;
    await atMost(RELEASE_WAIT_MS, released.then(ignored, ignored), ignored);
    await claim.settle(how);
  }
}

const unavailable = (cause: TurnpikeError): DeferredOutcome => ({ kind: "unavailable", cause });

const refusalFor = (reason: string) => ({ code: "InvalidPaymentProof" as const, reason, message: messageOf(reason) });
