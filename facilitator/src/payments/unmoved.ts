/** Payments whose transaction was mined without moving them: settles or fails them by the chain's logs, or retries them. */
import type { Logger } from "pino";
import type { Address, Clock, Hex } from "turnpike/protocol";
import { intrinsicGas } from "../chain/gas";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { PaymentRow } from "../db/tables/payments";
import type { EventFeed } from "../events/feed";
import { unmineStrays } from "../indexer/applied-blocks";
import type { Relayer } from "../relayer";
import { callOf } from "./batch";
import { type Evidence, findEvidence } from "./evidence";
import type { FailedSpendLimiter } from "./failed-spends";
import { balanceAt, isNonceUsed, WALLET_GAS } from "./judge";
import { adoptEvidence, failSpent, parkUnmoved, requeuePayment } from "./ledger";
import { findPermit2Evidence } from "./permit2-evidence";

export interface UnmovedPaymentsOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly relayer: Relayer;
  readonly clock: Clock;
  readonly applied: () => number;
  readonly failedSpends: FailedSpendLimiter;
  readonly log: Logger;
}

/** How often a payment that did not move is sent without a new request. */
export const MAX_ATTEMPTS = 3;

export class UnmovedPayments {
  readonly #options: UnmovedPaymentsOptions;
  #sweptAt = -1;

  constructor(options: UnmovedPaymentsOptions) {
    this.#options = options;
  }

  /** Looks for such payments once a block. */
  async sweep(): Promise<void> {
    const { config, store, log } = this.#options;
    const applied = this.#options.applied();
    if (applied === this.#sweptAt) return;
    await unmineStrays(store.db, config.chainId);
    const parked = await parkUnmoved(store.db, config.chainId, applied);
    this.#sweptAt = applied;
    for (const row of parked) {
      log.warn(
        { paymentId: row.payment_id, attempts: row.attempts },
        "a payment's transaction was mined without moving it",
      );
      await this.#reconcileOrRetry(row);
      store.notifier.notify(`payment:${row.payment_id}`);
    }
  }

  async #reconcileOrRetry(row: PaymentRow): Promise<void> {
    const { config, store, relayer, clock, failedSpends } = this.#options;
    if (await this.reconcile(row)) return;
    await failedSpends.add(row);
    if (failedSpends.refusalOf({ payer: row.payer, payee: row.pay_to })) return;
    if (row.attempts >= MAX_ATTEMPTS || row.valid_before <= clock.nowSec() + config.minWindowSec) return;
    if (await this.#wouldRevert(row)) return;
    const atBlock = this.#options.applied();
    const balance = await balanceAt(relayer, row.token as Address, row.payer as Address, atBlock);
    await requeuePayment(store, row, { balance, atBlock });
  }

  /** A retry that fails as the attempt before it costs gas alone. The payment stays as it is for its next request. */
  async #wouldRevert(row: PaymentRow): Promise<boolean> {
    const { config, relayer } = this.#options;
    const { to, data, extraGas } = callOf(row);
    const gas = intrinsicGas(data) + BigInt(config.gasPerItem + extraGas) + WALLET_GAS;
    const from = row.sender as Address | null;
    const trial = await relayer.simulate({ to, data, gas, ...(from !== null && { from }) });
    return trial.kind === "reverted";
  }

  /** Settles or fails a payment whose nonce is used, from the chain's logs. @returns whether it did */
  async reconcile(row: PaymentRow): Promise<boolean> {
    const { config, relayer, log } = this.#options;
    const token = row.token as Address;
    const payer = row.payer as Address;
    const nonce = row.nonce as Hex;
    const isPermit2 = row.method !== "eip3009";
    if (!(await isNonceUsed(relayer, { token, payer, nonce, isPermit2 }))) return false;
    const query = { paymentId: row.payment_id as Hex, token, payer, nonce };
    const applied = this.#options.applied();
    // Nothing shows that a Permit2 nonce was used otherwise: such a payment expires.
    const evidence = isPermit2
      ? await findPermit2Evidence(relayer.chain, row, applied)
      : await findEvidence({ config, relayer }, query, applied);
    // The nonce is used in a block that is not applied yet; the indexer will apply it.
    if (evidence.kind === "none") return false;
    if (!(await this.#decide(row, evidence))) return false;
    const { transaction, blockNumber: block } = evidence;
    log.info({ paymentId: row.payment_id, transaction, block }, "payment decided by the logs of the chain");
    return true;
  }

  /** @returns false when the evidence's block is not applied any more */
  #decide(row: PaymentRow, evidence: Exclude<Evidence, { kind: "none" }>): Promise<boolean> {
    const { store, feed } = this.#options;
    const fail = (reason: string): Promise<boolean> => failSpent({ store, feed }, row, reason, evidence);
    if (evidence.kind === "cancelled") return fail("cancelled");
    if (evidence.to !== row.pay_to || evidence.amount !== BigInt(row.amount)) return fail("nonce_spent_elsewhere");
    if (row.door === "settle" && evidence.blockNumber <= row.accepted_block) return fail("settled_before_acceptance");
    return adoptEvidence({ store, feed }, row, evidence);
  }
}
