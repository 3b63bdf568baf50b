/** Measures a lane: balance, queue, slots in use, and what prevents it from sending. Reports it to other processes. */
import type { Address } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { OpenTransaction } from "../db/tables/relayer";
import { createInFlightSlots } from "./in-flight-slots";
import type { LaneLease, LaneStatus } from "./lane-lease";
import { type LeaseKey, storeLaneReport } from "./lease";

export interface LaneHealth {
  readonly key: Address;
  readonly status: LaneStatus;
  readonly reason?: string;
  readonly balanceWei?: bigint;
  readonly isBalanceLow: boolean;
  /** it sends nothing, or what it sent is not mined; see `reason` */
  readonly isStuck: boolean;
  readonly inFlight: number;
  readonly queued: number;
  readonly oldestPendingSec: number;
}

export interface LaneStateOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly of: LeaseKey;
  readonly lease: LaneLease;
  readonly monotonicMs: () => number;
}

const BALANCE_EVERY_MS = 5_000;

/** Writes an amount of native coins with six decimals. */
export const coins = (wei: bigint): string => (Number(wei) / 1e18).toFixed(6);

/** How often an unchanged lane is reported to the processes without keys. */
export const REPORT_EVERY_MS = 2_000;

/** After this many times BUMP_AFTER_MS without a receipt, raising the fee has not helped. */
const STUCK_AFTER_BUMPS = 3;

export class LaneState {
  readonly slots = createInFlightSlots();
  readonly #options: LaneStateOptions;
  /** what prevents this lane from sending: as of the last round, and as of the current one */
  #obstacle: string | undefined;
  #blockedBy: string | undefined;
  #balance: { readonly wei: bigint; readonly atMs: number } | undefined;
  #counts = { queued: 0, oldestPendingSec: 0 };
  #reported: { readonly text: string; readonly atMs: number } | undefined;

  constructor(options: LaneStateOptions) {
    this.#options = options;
  }

  get queued(): number {
    return this.#counts.queued;
  }

  beginRound(): void {
    this.#blockedBy = undefined;
  }

  /** Records what prevents the current round from sending. */
  blocked(by: string): void {
    this.#blockedBy = by;
  }

  endRound(): void {
    this.#obstacle = this.#blockedBy ?? this.#overdue();
  }

  /** Records an obstacle that a round cannot, because it waits. */
  obstructed(by: string): void {
    this.#obstacle = by;
  }

  /** @param open transactions in no block yet, by nonce */
  async measure(open: readonly OpenTransaction[]): Promise<void> {
    const { config, store, chain, of, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    if (!this.#balance || nowMs - this.#balance.atMs > BALANCE_EVERY_MS) {
      this.#balance = { wei: await chain.balanceWei(of.key), atMs: nowMs };
    }
    const row = await store.db
      .selectFrom("transactions")
      .select([(eb) => eb.fn.countAll<number>().as("queued"), databaseNowMs.as("now")])
      .where("chain_id", "=", config.chainId)
      .where("status", "=", "queued")
      .where((eb) => eb.or([eb("sender", "is", null), eb("sender", "=", of.key)]))
      .executeTakeFirst();
    const oldest = open[0]?.stored_at_ms;
    this.#counts = {
      queued: Number(row?.queued ?? 0),
      oldestPendingSec: oldest ? Math.max(0, Math.round(((row?.now ?? oldest) - oldest) / 1_000)) : 0,
    };
  }

  /** Stores a report. Only the process with the lease knows the lane's balance and obstacle. */
  async report(): Promise<void> {
    const { store, of, lease, monotonicMs } = this.#options;
    if (lease.epoch === undefined || store.kind === "pglite") return;
    const nowMs = monotonicMs();
    const { balanceWei, isBalanceLow, inFlight, queued, oldestPendingSec } = this.health();
    const text = `${isBalanceLow} ${this.#obstacle ?? ""}`;
    if (this.#reported?.text === text && nowMs - this.#reported.atMs < REPORT_EVERY_MS) return;
    await storeLaneReport(store.db, lease.epoch, {
      chain_id: of.chainId,
      key: of.key,
      balance_wei: balanceWei?.toString() ?? null,
      is_balance_low: isBalanceLow,
      obstacle: this.#obstacle ?? null,
      in_flight: inFlight,
      queued,
      oldest_pending_sec: oldestPendingSec,
    });
    this.#reported = { text, atMs: nowMs };
  }

  health(): LaneHealth {
    const { config, of, lease } = this.#options;
    const why = lease.status === "stopped" ? lease.reason : this.#obstacle;
    return {
      key: of.key,
      status: lease.status,
      ...(why && { reason: why }),
      ...(this.#balance && { balanceWei: this.#balance.wei }),
      isBalanceLow: this.#balance !== undefined && this.#balance.wei < config.minBalanceWei,
      isStuck: lease.status === "running" && this.#obstacle !== undefined,
      inFlight: this.slots.used(),
      ...this.#counts,
    };
  }

  #overdue(): string | undefined {
    const { oldestPendingSec } = this.#counts;
    const isOverdue = oldestPendingSec * 1_000 > this.#options.config.bumpAfterMs * STUCK_AFTER_BUMPS;
    return isOverdue ? `its oldest transaction is not mined since ${oldestPendingSec} s` : undefined;
  }
}
