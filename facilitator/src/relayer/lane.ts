/**
 * Runs one key's queue: reserves a nonce, signs, stores the bytes, and only then broadcasts. `receipts` finds the
 * outcome; a broadcast's reply decides nothing. A process that takes over a lane sends the stored bytes again, lowest
 * nonce first.
 */
import type { Logger } from "pino";
import type { Address } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import { describeSilence, silentAfterMs } from "../chain/node-health";
import type { Rpc } from "../chain/rpc";
import type { FacilitatorConfig } from "../config";
import type { Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { KnownForm, OpenTransaction, SignedForm } from "../db/tables/relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { createFaultLog } from "../telemetry/fault-log";
import { createBroadcasts } from "./broadcasts";
import { CEILING_BELOW_BASE_FEE, watchFees } from "./fee-watch";
import { bumpedFees, type Fees, firstFees } from "./fees";
import { closeGap } from "./gap";
import { createInFlightSlots } from "./in-flight-slots";
import { acquireLease, type LeaseKey, releaseLease, renewLease, resetLane, stopLane, storeLaneReport } from "./lease";
import { createReceipts } from "./receipts";
import type { DigestSigner } from "./signer";
import { createSigning } from "./signing";
import { type QueuedTransaction, signedForms, storedTransactions } from "./transactions";

export interface LaneHealth {
  readonly key: Address;
  readonly status: "starting" | "standby" | "running" | "stopped";
  readonly reason?: string;
  readonly balanceWei?: bigint;
  readonly isBalanceLow: boolean;
  /** it sends nothing, or what it sent is not mined; see `reason` */
  readonly isStuck: boolean;
  readonly inFlight: number;
  readonly queued: number;
  readonly oldestPendingSec: number;
}

export interface LaneOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly nodes: Pick<Rpc, "nodes">;
  readonly signer: DigestSigner;
  readonly owner: string;
  readonly log: Logger;
  readonly onStep: Failpoint;
  /** monotonic milliseconds */
  readonly monotonicMs: () => number;
}

export interface Signed {
  readonly count: number;
  send(): void;
}

export interface Lane {
  /** Runs one round. Never throws: logs the error and retries in the next round. */
  tick(): Promise<void>;
  /**
   * Reports that no node answers, which a round that waits for a node cannot do. Runs beside the rounds. Never throws.
   */
  watchNodes(): Promise<void>;
  /**
   * Signs and stores transactions within `tx` without queuing them, as far as slots are free and the queue is empty.
   * @returns how many were signed, from the first, and the function that sends them, to call after the commit of `tx`
   */
  signNow(tx: Tx, entries: readonly QueuedTransaction[]): Promise<Signed>;
  health(): LaneHealth;
  /** whether this process sent these bytes recently */
  hasSent(hash: string): boolean;
  /** transactions in no block yet, by the chain's nonce; undefined while another process has the lease */
  inPool(): number | undefined;
  release(): Promise<void>;
}

/**
 * Blocks to wait for the receipt of a used nonce before another transaction counts as its user. Nodes behind one URL
 * may differ.
 */
const DISPLACED_AFTER_BLOCKS = 10;

const NONE: Signed = { count: 0, send: () => undefined };

const BALANCE_EVERY_MS = 5_000;

/** How often an unchanged lane is reported to the processes without keys. */
export const REPORT_EVERY_MS = 2_000;

/** Fraction of the lease's life. */
const LEASE_PART = 1 / 2;

const SILENT_LOOKS = 2;

/** After this many times BUMP_AFTER_MS without a receipt, raising the fee has not helped. */
const STUCK_AFTER_BUMPS = 3;

export function createLane(options: LaneOptions): Lane {
  const { config, store, chain, nodes, signer, log, monotonicMs, onStep } = options;
  const of: LeaseKey = { chainId: config.chainId, key: signer.address, owner: options.owner };
  const patienceMs = Math.max(config.blockTimeMs * DISPLACED_AFTER_BLOCKS, 2_000);
  const receipts = createReceipts({
    store,
    chain,
    log,
    onStep,
    monotonicMs,
    blockTimeMs: config.blockTimeMs,
    patienceMs,
  });
  const signing = createSigning({ store, signer, chainId: config.chainId, onStep });
  const faults = createFaultLog({ log, monotonicMs });
  let lease: { epoch: number; renewAtMs: number } | undefined;
  let status: LaneHealth["status"] = "starting";
  let reason: string | undefined;
  /** what prevents this lane from sending: as of the last round, and as of the current one */
  let obstacle: string | undefined;
  let blockedBy: string | undefined;
  /** when a round last succeeded, and how many checks in a row found that no node has answered for too long since */
  let wellMs = monotonicMs();
  let silentLooks = 0;
  let gapSinceMs: number | undefined;
  let balance: { wei: bigint; atMs: number } | undefined;
  let counts = { queued: 0, oldestPendingSec: 0 };
  const slots = createInFlightSlots();
  const fees = watchFees({ config, store, chain, of, monotonicMs });
  const { broadcast, send, ...broadcasts } = createBroadcasts({ store, chain, log, onStep, monotonicMs });

  async function acquire(): Promise<boolean> {
    if (lease && monotonicMs() < lease.renewAtMs) return true;
    if (lease) {
      if (await renewLease(store, of, lease.epoch, config.laneLeaseMs)) {
        lease.renewAtMs = monotonicMs() + config.laneLeaseMs / 3;
        return true;
      }
      lease = undefined;
      log.warn({ key: of.key }, "the lease of a lane lapsed, and another process acquired it");
    }
    const chainNonce = await chain.nonce(of.key);
    const taken = await acquireLease(store, of, {
      lifeMs: config.laneLeaseMs,
      firstNonce: chainNonce,
      steal: store.kind === "pglite",
    });
    if (!taken) {
      status = "standby";
      return false;
    }
    lease = { epoch: taken.epoch, renewAtMs: monotonicMs() + config.laneLeaseMs / 3 };
    if (config.adoptNonce && (chainNonce > taken.nextNonce || taken.status === "stopped")) {
      log.warn({ key: of.key, nonce: chainNonce }, "continuing from the chain's nonce because of ADOPT_NONCE");
      await resetLane(store, of, Math.max(chainNonce, taken.nextNonce));
    } else if (taken.status === "stopped") {
      return stopped(taken.reason ?? "stopped");
    } else if (chainNonce > taken.nextNonce) {
      return stop("the chain has seen transactions of this key that this database has not");
    }
    status = "running";
    return true;
  }

  function stopped(why: string): false {
    status = "stopped";
    reason = why;
    return false;
  }

  async function stop(why: string): Promise<false> {
    await stopLane(store, of, why);
    log.error({ key: of.key, reason: why }, "lane stopped: somebody else uses its key, or the database is an old copy");
    return stopped(why);
  }

  /** Records the outcomes of used nonces. @returns the transactions whose nonce is not used yet */
  async function confirm(
    open: readonly OpenTransaction[],
    forms: ReadonlyMap<string, KnownForm[]>,
  ): Promise<OpenTransaction[]> {
    if (open.length === 0) return [];
    const chainNonce = await chain.nonce(of.key);
    const isUsed = (row: OpenTransaction): boolean => (row.nonce ?? 0) < chainNonce;
    const displaced = await receipts.record(open.filter(isUsed), forms);
    if (displaced) await stop(`nonce ${displaced.nonce} was used by a transaction that is not ours`);
    const waiting = open.filter((row) => !isUsed(row));
    await watchGap(chainNonce, waiting[0]?.nonce ?? chainNonce);
    return waiting;
  }

  /** Closes a gap below the first of these nonces, after giving a lagging node time. */
  async function watchGap(from: number, below: number): Promise<void> {
    if (from >= below || !lease) {
      gapSinceMs = undefined;
      return;
    }
    gapSinceMs ??= monotonicMs();
    if (monotonicMs() - gapSinceMs <= patienceMs) return;
    const filled = await closeGap(store, of, lease.epoch, { from, below });
    if (filled.length === 0) return;
    gapSinceMs = undefined;
    log.error({ key: of.key, nonces: filled }, "nonces below this key's transactions were never used; filling them");
    store.wake.notify("lane");
  }

  /**
   * Broadcasts transactions again that were not sent recently. Raises the fee of the lowest nonce when it waits too
   * long.
   */
  async function rebroadcast(open: readonly OpenTransaction[], forms: ReadonlyMap<string, KnownForm[]>): Promise<void> {
    const nowMs = monotonicMs();
    const again = Math.max(config.blockTimeMs * 3, 2_000);
    for (const [place, row] of open.entries()) {
      const newest = forms.get(row.id)?.[0];
      if (!newest) {
        await signFirst(row);
        continue;
      }
      const lastSentMs = broadcasts.lastSentMs(newest.hash);
      const isStuck = place === 0 && lastSentMs !== undefined && broadcasts.knownForMs(newest) > config.bumpAfterMs;
      const raised = isStuck ? await bump(row, newest) : undefined;
      if (!raised && lastSentMs !== undefined && nowMs - lastSentMs < again) continue;
      await broadcast(raised ?? newest);
    }
  }

  /** Signs the first form of a transaction that fills a gap; it has a nonce but no bytes yet. */
  async function signFirst(row: OpenTransaction): Promise<void> {
    const first = firstFees((await chain.head()).baseFeeWei, config);
    if (first) await broadcast(await signing.signAgain(row, first));
    else blockedBy = CEILING_BELOW_BASE_FEE;
  }

  async function bump(row: OpenTransaction, last: KnownForm): Promise<SignedForm | undefined> {
    const { baseFeeWei } = await chain.head();
    const raised = bumpedFees(
      { maxFeeWei: BigInt(last.max_fee_wei), priorityFeeWei: BigInt(last.priority_fee_wei) },
      baseFeeWei,
      config,
    );
    if (!raised) {
      blockedBy = "the fee ceiling is reached";
      return undefined;
    }
    log.warn({ replaces: last.hash, nonce: row.nonce }, "fee raised");
    return signing.signAgain(row, raised);
  }

  async function mayPay(maxAgeMs: number): Promise<Fees | undefined> {
    const first = await fees.look(maxAgeMs);
    if (typeof first !== "string") return first;
    blockedBy = first;
    return undefined;
  }

  /** Signs and stores queued transactions, as far as slots are free. Nothing is sent before the commit. */
  async function signQueued(free: number): Promise<SignedForm[]> {
    if (free <= 0 || counts.queued === 0) return [];
    const first = await mayPay(0);
    if (!lease || !first) return [];
    const stored = await signing.signQueued({ of, epoch: lease.epoch, limit: free, fees: first });
    if (stored === "lease lost") {
      lease = undefined;
      return [];
    }
    if (stored.length > 0) onStep("stored");
    return stored;
  }

  async function measure(open: readonly OpenTransaction[]): Promise<void> {
    const nowMs = monotonicMs();
    if (!balance || nowMs - balance.atMs > BALANCE_EVERY_MS) {
      balance = { wei: await chain.balanceWei(of.key), atMs: nowMs };
    }
    const row = await store.db
      .selectFrom("transactions")
      .select([(eb) => eb.fn.countAll<number>().as("queued"), databaseNowMs.as("now")])
      .where("chain_id", "=", config.chainId)
      .where("status", "=", "queued")
      .executeTakeFirst();
    const oldest = open[0]?.stored_at_ms;
    counts = {
      queued: Number(row?.queued ?? 0),
      oldestPendingSec: oldest ? Math.max(0, Math.round(((row?.now ?? oldest) - oldest) / 1_000)) : 0,
    };
  }

  async function round(): Promise<void> {
    if (!(await acquire())) return;
    const beganMs = monotonicMs();
    const open = await storedTransactions(store.db, config.chainId, of.key);
    const forms = new Map<string, KnownForm[]>(open.map((row) => [row.id, []]));
    for (const form of await signedForms(store.db, [...forms.keys()])) forms.get(form.transaction_id)?.push(form);
    broadcasts.forgetAllBut([...forms.values()].flat(), beganMs);
    blockedBy = undefined;
    const waiting = await confirm(open, forms);
    if (status !== "running") return;
    // A transaction in a block frees its slot, whether or not that block is indexed.
    const taken = slots.used();
    slots.count([...forms.keys()], waiting.length);
    if (slots.used() < taken) store.wake.notify("payments");
    await measure(waiting);
    await rebroadcast(waiting, forms);
    // More transactions are likely while some are in flight; they use these fees without waiting.
    if (waiting.length > 0) await mayPay(config.blockTimeMs);
    const filled = await signQueued(config.lanesInFlight - slots.used());
    for (const form of filled) {
      slots.acquire(form.transaction_id);
      send(form);
    }
    obstacle = blockedBy ?? overdue();
  }

  function overdue(): string | undefined {
    const isOverdue = counts.oldestPendingSec * 1_000 > config.bumpAfterMs * STUCK_AFTER_BUMPS;
    return isOverdue ? `its oldest transaction is not mined since ${counts.oldestPendingSec} s` : undefined;
  }

  /**
   * Returns whether no node has answered for too long. The limit is shorter than the lease: only a round renews the
   * lease, and no process reports the cause once it lapses.
   */
  function isSilent(): boolean {
    const afterMs = Math.min(silentAfterMs(config), config.laneLeaseMs * LEASE_PART);
    if (monotonicMs() - wellMs < afterMs) return false;
    return nodes.nodes().every(({ status, answeredSec }) => status !== "well" || (answeredSec ?? 0) * 1_000 >= afterMs);
  }

  let reported: { readonly text: string; readonly atMs: number } | undefined;

  /** Only the process with the lease knows the lane's balance and obstacle. */
  async function report(): Promise<void> {
    if (!lease || store.kind === "pglite") return;
    const nowMs = monotonicMs();
    const { balanceWei, isBalanceLow, inFlight, queued, oldestPendingSec } = health();
    const text = `${isBalanceLow} ${obstacle ?? ""}`;
    if (reported?.text === text && nowMs - reported.atMs < REPORT_EVERY_MS) return;
    await storeLaneReport(store.db, lease.epoch, {
      chain_id: of.chainId,
      key: of.key,
      balance_wei: balanceWei?.toString() ?? null,
      is_balance_low: isBalanceLow,
      obstacle: obstacle ?? null,
      in_flight: inFlight,
      queued,
      oldest_pending_sec: oldestPendingSec,
    });
    reported = { text, atMs: nowMs };
  }

  function health(): LaneHealth {
    const why = status === "stopped" ? reason : obstacle;
    return {
      key: of.key,
      status,
      ...(why && { reason: why }),
      ...(balance && { balanceWei: balance.wei }),
      isBalanceLow: balance !== undefined && balance.wei < config.minBalanceWei,
      isStuck: status === "running" && obstacle !== undefined,
      inFlight: slots.used(),
      ...counts,
    };
  }

  return {
    async watchNodes() {
      // A single check may be caused by a pause of this process.
      silentLooks = isSilent() ? silentLooks + 1 : 0;
      if (silentLooks < SILENT_LOOKS || !lease) return;
      obstacle = describeSilence(nodes.nodes());
      await report().catch((error: unknown) => faults.met("report", error, "a lane could not be reported"));
    },
    async tick() {
      try {
        await round();
        wellMs = monotonicMs();
        await report();
        faults.recovered("round");
      } catch (error) {
        faults.met("round", error, "a lane's round failed", { key: of.key });
      }
    },
    async signNow(tx, entries) {
      const some = entries.slice(0, Math.max(0, config.lanesInFlight - slots.used()));
      const isOpen = signer.isHere && status === "running" && counts.queued === 0;
      const first = fees.known();
      if (!lease || !first || !isOpen || some.length === 0) return NONE;
      for (const { id } of some) slots.acquire(id);
      const signed = await signing.signNew(tx, some, { of, epoch: lease.epoch, fees: first });
      if (signed === "lease lost") {
        for (const { id } of some) slots.release(id);
        lease = undefined;
        return NONE;
      }
      return {
        count: some.length,
        send() {
          onStep("stored");
          for (const form of signed) send(form);
        },
      };
    },
    health,
    hasSent: (hash) => broadcasts.lastSentMs(hash) !== undefined,
    inPool: () => (lease && status === "running" ? slots.used() : undefined),
    async release() {
      await broadcasts.end();
      if (lease) await releaseLease(store, of, lease.epoch);
      lease = undefined;
    },
  };
}
