/**
 * Sends with one key: confirms what was mined, broadcasts stored bytes again, raises fees, and signs what is queued.
 * Nothing is sent before its bytes are stored.
 */
import type { Logger } from "pino";
import type { ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { Store, Tx } from "../db/open";
import type { KnownForm, OpenTransaction, SignedForm } from "../db/tables/relayer";
import type { Failpoint } from "../telemetry/failpoints";
import type { Metrics } from "../telemetry/metrics";
import { type Broadcasts, resendAfterMs } from "./broadcasts";
import { CEILING_BELOW_BASE_FEE, DAY_CEILING_REACHED, type FeeWatch } from "./fee-watch";
import { affordable, bumpedFees, type Fees, firstFees } from "./fees";
import type { GapWatch } from "./gap";
import type { LaneLease } from "./lane-lease";
import type { LaneState } from "./lane-state";
import type { LeaseKey } from "./lease";
import type { Receipts } from "./receipts";
import type { DigestSigner } from "./signer";
import { SignerWatch } from "./signer-watch";
import type { Signing } from "./signing";
import { openTransactions, type QueuedTransaction } from "./transactions";

/** Transactions that are signed and stored within a database transaction. */
export interface Signed {
  readonly count: number;
  send(): void;
}

export interface LaneSenderOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly signer: DigestSigner;
  readonly of: LeaseKey;
  readonly lease: LaneLease;
  readonly state: LaneState;
  readonly receipts: Receipts;
  readonly gap: GapWatch;
  readonly signing: Signing;
  readonly fees: FeeWatch;
  readonly broadcasts: Broadcasts;
  readonly log: Logger;
  readonly metrics?: Pick<Metrics, "feeRaises"> | undefined;
  readonly onStep: Failpoint;
  /** monotonic milliseconds */
  readonly monotonicMs: () => number;
}

/** signed forms of open transactions by their ids, newest first */
type Forms = ReadonlyMap<string, KnownForm[]>;

const NONE: Signed = { count: 0, send: () => undefined };

export class LaneSender {
  readonly #options: LaneSenderOptions;
  readonly #signer: SignerWatch;
  /** the form that waits too long, and the chain's height when that was noticed */
  #stuck: { readonly hash: string; readonly head: number } | undefined;

  constructor(options: LaneSenderOptions) {
    this.#options = options;
    this.#signer = new SignerWatch(options);
  }

  async round(): Promise<void> {
    const { config, store, of, lease, state, broadcasts, monotonicMs } = this.#options;
    const { slots } = state;
    if (!(await lease.acquire())) return;
    const beganMs = monotonicMs();
    const { open, forms } = await openTransactions(store.db, config.chainId, of.key);
    broadcasts.forgetAllBut([...forms.values()].flat(), beganMs);
    state.beginRound();
    const waiting = await this.#confirm(open, forms);
    if (lease.status !== "running") return;
    // A transaction in a block frees its slot, whether or not that block is indexed.
    const before = slots.used();
    slots.count([...forms.keys()], waiting.length);
    if (slots.used() < before) store.notifier.notify("payments");
    await state.measure(waiting);
    await this.#rebroadcast(waiting, forms);
    // More transactions are likely while some are in flight; they use these fees without waiting.
    if (waiting.length > 0) await this.#mayPay(config.blockTimeMs);
    const filled = await this.#signQueued(config.lanesInFlight - slots.used());
    for (const form of filled) {
      slots.acquire(form.transaction_id);
      broadcasts.send(form);
    }
    state.endRound();
  }

  async signNow(tx: Tx, entries: readonly QueuedTransaction[]): Promise<Signed> {
    const { config, signer, of, lease, state, signing, fees, broadcasts, onStep } = this.#options;
    const { slots } = state;
    const foreign = entries.findIndex(({ sender }) => sender !== undefined && sender !== of.key);
    const own = foreign < 0 ? entries : entries.slice(0, foreign);
    const isOpen = signer.isHere && lease.status === "running" && state.queued === 0;
    const first = fees.known();
    const { epoch } = lease;
    if (epoch === undefined || !first || !isOpen) return NONE;
    const free = own.slice(0, Math.max(0, config.lanesInFlight - slots.used()));
    const { items: some, wei } = affordable(free, first, fees.knownLeftToday());
    if (some.length === 0) return NONE;
    for (const { id } of some) slots.acquire(id);
    const signed = await signing.signNew(tx, some, { of, epoch, fees: first });
    if (signed === "lease lost") {
      for (const { id } of some) slots.release(id);
      lease.lost();
      return NONE;
    }
    fees.committed(wei);
    return {
      count: some.length,
      send() {
        onStep("stored");
        for (const form of signed) broadcasts.send(form);
      },
    };
  }

  /** Records the outcomes of used nonces. @returns the transactions whose nonce is not used yet */
  async #confirm(open: readonly OpenTransaction[], forms: Forms): Promise<OpenTransaction[]> {
    const { chain, of, lease, receipts, gap } = this.#options;
    if (open.length === 0) return [];
    const chainNonce = await chain.nonce(of.key);
    const isUsed = (row: OpenTransaction): boolean => (row.nonce ?? 0) < chainNonce;
    const [displaced] = await receipts.record(open.filter(isUsed), forms);
    if (displaced) await lease.stop(`nonce ${displaced.nonce} was used by a transaction that is not ours`);
    const waiting = open.filter((row) => !isUsed(row));
    await gap.check(chainNonce, waiting[0]?.nonce ?? chainNonce, lease.epoch);
    return waiting;
  }

  /**
   * Broadcasts transactions again that were not sent recently. Raises the fee of the lowest nonce when it waits too
   * long.
   */
  async #rebroadcast(open: readonly OpenTransaction[], forms: Forms): Promise<void> {
    const { config, broadcasts, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    const againMs = resendAfterMs(config);
    for (const [place, row] of open.entries()) {
      const newest = forms.get(row.id)?.[0];
      if (!newest) {
        await this.#signFirst(row);
        continue;
      }
      const lastSentMs = broadcasts.lastSentMs(newest.hash);
      const isStuck = place === 0 && lastSentMs !== undefined && broadcasts.knownForMs(newest) > config.bumpAfterMs;
      const raised = isStuck ? await this.#bump(row, newest) : undefined;
      if (!raised && lastSentMs !== undefined && nowMs - lastSentMs < againMs) continue;
      await broadcasts.broadcast(raised ?? newest);
    }
  }

  /** Signs the first form of a transaction that fills a gap; it has a nonce but no bytes yet. */
  async #signFirst(row: OpenTransaction): Promise<void> {
    const { config, chain, state, broadcasts } = this.#options;
    const first = firstFees((await chain.head()).baseFeeWei, config);
    if (!first) return state.blocked(CEILING_BELOW_BASE_FEE);
    const signed = await this.#signAgain(row, first, 0n);
    if (signed) await broadcasts.broadcast(signed);
  }

  async #bump(row: OpenTransaction, last: KnownForm): Promise<SignedForm | undefined> {
    const { config, chain, state, log, metrics } = this.#options;
    const { baseFeeWei, number } = await chain.head();
    if (this.#stuck?.hash !== last.hash) this.#stuck = { hash: last.hash, head: number };
    // A chain that makes no blocks mines it at no fee.
    if (number <= this.#stuck.head) return undefined;
    const maxFeeWei = BigInt(last.max_fee_wei);
    const raised = bumpedFees({ maxFeeWei, priorityFeeWei: BigInt(last.priority_fee_wei) }, baseFeeWei, config);
    if (!raised) {
      state.blocked("the fee ceiling is reached");
      return undefined;
    }
    const signed = await this.#signAgain(row, raised, maxFeeWei);
    if (!signed) return undefined;
    log.warn({ transaction: signed.hash, replaces: last.hash, nonce: row.nonce }, "fee raised");
    metrics?.feeRaises.inc();
    return signed;
  }

  /** @param formerMaxFeeWei what the day's sum has of the transaction already, in wei per gas */
  async #signAgain(row: OpenTransaction, next: Fees, formerMaxFeeWei: bigint): Promise<SignedForm | undefined> {
    const { state, signing, fees } = this.#options;
    const wei = BigInt(row.gas_limit) * (next.maxFeeWei - formerMaxFeeWei);
    if (wei > (await fees.leftToday(wei))) {
      state.blocked(DAY_CEILING_REACHED);
      return undefined;
    }
    const signed = await this.#signer.during(() => signing.signAgain(row, next));
    if (signed) fees.committed(wei);
    return signed;
  }

  async #mayPay(maxAgeMs: number): Promise<Fees | undefined> {
    const { state, fees } = this.#options;
    const first = await fees.read(maxAgeMs);
    if (typeof first !== "string") return first;
    state.blocked(first);
    return undefined;
  }

  /** Signs and stores queued transactions, as far as slots are free. Nothing is sent before the commit. */
  async #signQueued(free: number): Promise<SignedForm[]> {
    const { of, lease, state, signing, fees, onStep } = this.#options;
    if (free <= 0 || state.queued === 0) return [];
    const first = await this.#mayPay(0);
    const { epoch } = lease;
    if (epoch === undefined || !first) return [];
    const leftWei = await fees.leftToday(1n);
    const turn = { of, epoch, limit: free, fees: first, leftWei };
    const stored = await this.#signer.during(() => signing.signQueued(turn));
    if (stored === undefined) return [];
    if (stored === "lease lost") {
      lease.lost();
      return [];
    }
    fees.committed(stored.wei);
    if (stored.unaffordableWei !== undefined) {
      state.blocked(DAY_CEILING_REACHED);
      // Reads the sum for the next round.
      await fees.leftToday(stored.unaffordableWei);
    }
    if (stored.forms.length > 0) onStep("stored");
    return stored.forms;
  }
}
