/**
 * Takes a standard payload by the flow `authorization`: reserve the amount, run the handler, settle, then answer. A
 * handler that fails costs nothing, and an answer leaves only once its payment has settled.
 */
import { type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import { atMost } from "../../protocol/waiting";
import type { HeldClaim } from "../claims/held-claim";
import { MAX_RELEASES } from "../claims/rules";
import type { AnswerKeeper, KeptAnswer } from "../replay/keeper";
import { secretOfSignature } from "../replay/seal";
import {
  type Confirmation,
  invalid,
  keeperFor,
  messageOf,
  type PaymentCase,
  type PaymentVerdict,
  receiptHeaders,
} from "./claim-payment";
import type { DeferredOutcome, DeferredSettlement } from "./deferred-settlement";
import { grantIdsOf, type StandardPurchase, settleStandard } from "./settle-standard";
import { findUnsettled, storeUnsettled, type UnsettledPurchase } from "./unsettled-answers";

/** One handler's run of a claimed payment. */
interface Run {
  readonly at: PaymentCase;
  readonly purchase: StandardPurchase;
  readonly claim: HeldClaim;
}

export interface DeferRequest extends Run {
  /** its window is over, but the Facilitator has accepted it in time: it may only be settled now */
  readonly isLate: boolean;
}

/**
 * Begins the flow for a payment that was just claimed. Settles at once where an earlier run's answer is stored.
 * @returns undefined where the payment has to settle first: it is under way already
 * @throws Unavailable
 */
export async function deferSettlement({
  at,
  purchase,
  claim,
  isLate,
}: DeferRequest): Promise<PaymentVerdict | undefined> {
  const run = { at, purchase, claim };
  if (claim.releases !== 0) {
    const stored = await storedAnswer(run);
    if (stored) return settleStored(run, stored);
  }
  if (isLate) return undefined;
  if ((claim.releases ?? 0) >= MAX_RELEASES) {
    // An outcome that was unknown may have become a settlement since: what was paid for is served.
    if (await isUnderWay(run)) return undefined;
    await claim.settle("withdraw");
    return invalid("handler_failed", messageOf("handler_failed"));
  }
  const reserved = await reserve(run);
  if (reserved.kind === "under_way") return undefined;
  if (reserved.kind === "refused") {
    await claim.settle("withdraw");
    return invalid(reserved.reason, messageOf(reserved.reason));
  }
  const deferred = new ReservedPayment(run, reserved.grantId);
  return { kind: "grants", payment: purchase.payment, claim: undefined, deferred, keeper: undefined, headers: {} };
}

type Reservation =
  | { readonly kind: "reserved"; readonly grantId: Hex }
  /** it was accepted for settlement before, perhaps for this purchase: the settlement decides */
  | { readonly kind: "under_way" }
  | { readonly kind: "refused"; readonly reason: string };

/** @throws Unavailable when the Facilitator does not answer, or reserves nothing */
async function reserve(run: Run): Promise<Reservation> {
  const { at, purchase } = run;
  const { context, resource } = at;
  const { settlement } = purchase;
  let reason = "";
  for (const id of await grantIdsOf(at, purchase)) {
    const verdict = await context.facilitator.x402Verify({ ...settlement, grant: { id, resource } });
    if (verdict.isValid) {
      if (verdict.reserved) return { kind: "reserved", grantId: id };
      throw new Unavailable("The Facilitator did not reserve the payment: nothing is served by it.", {
        retryAfterSec: 60,
      });
    }
    reason = verdict.invalidReason;
    // Perhaps for this very purchase, presented first without its key.
    if (reason !== "payment_already_granted") break;
  }
  return (await isUnderWay(run)) ? { kind: "under_way" } : { kind: "refused", reason };
}

/** Returns whether the Facilitator has accepted the payment. @throws Unavailable */
async function isUnderWay({ at, purchase }: Run): Promise<boolean> {
  const found = await at.context.facilitator.payment(purchase.payment.paymentId);
  if (found.kind === "refused") throw new Unavailable(found.error.message, { cause: found.error, retryAfterSec: 2 });
  return found.value.status === "settled" || found.value.status === "pending";
}

/** How an answer of a purchase is stored before its payment has settled. */
async function unsettledPurchases({ at, purchase }: Run): Promise<readonly UnsettledPurchase[]> {
  const { payment, secret, signature, keepUntilSec, nowSec } = purchase;
  const bare = secretOfSignature(signature);
  const common = { paymentId: payment.paymentId, keepUntilSec, nowSec };
  const grantIds = await grantIdsOf(at, purchase);
  return grantIds.map((grantId, place) => ({ ...common, grantId, secret: (place === 0 && secret) || bare }));
}

async function storedAnswer(run: Run): Promise<KeptAnswer | undefined> {
  for (const bought of await unsettledPurchases(run)) {
    const found = await findUnsettled(run.at, bought);
    if (found) return found;
  }
  return undefined;
}

/** Settles the payment of an earlier run, whose answer is stored. Runs nothing, so that it counts as no run. */
async function settleStored(run: Run, answer: KeptAnswer): Promise<PaymentVerdict> {
  const { at, purchase, claim } = run;
  const settled = await settleStandard(at, purchase);
  if (settled.kind === "faulty") {
    await claim.settle("withdraw");
    return invalid(settled.reason, messageOf(settled.reason));
  }
  const paid = paidBy(run, settled);
  const complete = withReceipts(answer, await receiptHeaders(at, paid));
  await claim.settle("use", sealedWithin(keeperFor(at, purchase), complete));
  return { kind: "replay", answer: complete, cors: at.route.cors, settled: paid };
}

const paidBy = ({ purchase: { payment } }: Run, { transaction }: Extract<Confirmation, { kind: "settled" }>) =>
  transaction === undefined ? payment : { ...payment, transaction };

function withReceipts(answer: KeptAnswer, receipts: Readonly<Record<string, string>>): KeptAnswer {
  const named = Object.entries(receipts).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...answer, headers: { ...answer.headers, ...Object.fromEntries(named) } };
}

const sealedWithin = (keeper: AnswerKeeper | undefined, answer: KeptAnswer | undefined) =>
  answer && keeper && answer.body.byteLength <= keeper.maxBytes ? keeper.seal(answer) : undefined;

/** A handler's answer waits no longer for the Facilitator to end a reservation, which ends by itself. */
const RELEASE_WAIT_MS = 1_000;

class ReservedPayment implements DeferredSettlement {
  readonly #run: Run;
  readonly #grantId: Hex;
  #settling: Promise<DeferredOutcome> | undefined;
  #ending: Promise<void> | undefined;

  constructor(run: Run, grantId: Hex) {
    this.#run = run;
    this.#grantId = grantId;
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
    if (!answer) return this.cancel();
    this.#ending = (async () => {
      await this.#store(answer);
      await this.#run.claim.settle("release");
    })();
    await this.#ending;
  }

  async #settle(answer: KeptAnswer | undefined): Promise<DeferredOutcome> {
    const { at, purchase, claim } = this.#run;
    try {
      if (answer) await this.#store(answer);
      const settled = await settleStandard(at, purchase);
      if (settled.kind === "faulty") {
        // The handler has run for nothing: that counts.
        await claim.settle("release");
        return { kind: "refused", refusal: refusalFor(settled.reason) };
      }
      const headers = await receiptHeaders(at, paidBy(this.#run, settled));
      await claim.settle("use", answer && sealedWithin(keeperFor(at, purchase), withReceipts(answer, headers)));
      return { kind: "settled", headers };
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
    const { at, purchase, claim } = this.#run;
    const released = at.context.facilitator.releasePayment(purchase.payment.paymentId, this.#grantId);
    const ignored = (): undefined => undefined;
    await atMost(RELEASE_WAIT_MS, released.then(ignored, ignored), ignored);
    await claim.settle(how);
  }
}

const unavailable = (cause: TurnpikeError): DeferredOutcome => ({ kind: "unavailable", cause });

const refusalFor = (reason: string) => ({ code: "InvalidPaymentProof" as const, reason, message: messageOf(reason) });
