/**
 * Runs one key's queue: reserves a nonce, signs, stores the bytes, and only then broadcasts. `receipts` finds the
 * outcome; a broadcast's reply decides nothing. A process that takes over a lane sends the stored bytes again, lowest
 * nonce first.
 */
import type { Logger } from "pino";
import type { ChainReader } from "../chain/chain-reader";
import { describeSilence } from "../chain/node-health";
import type { Rpc } from "../chain/rpc";
import type { FacilitatorConfig } from "../config";
import type { Store, Tx } from "../db/open";
import type { Failpoint } from "../telemetry/failpoints";
import { createFaultLog } from "../telemetry/fault-log";
import type { Metrics } from "../telemetry/metrics";
import { createBroadcasts, type FirstBroadcastListener } from "./broadcasts";
import { watchFees } from "./fee-watch";
import { GapWatch } from "./gap";
import { LaneLease } from "./lane-lease";
import { LaneSender, type Signed } from "./lane-sender";
import { coins, type LaneHealth, LaneState } from "./lane-state";
import type { LeaseKey } from "./lease";
import { NodeSilence } from "./node-silence";
import { createReceipts, patienceMsOf } from "./receipts";
import type { DigestSigner } from "./signer";
import { createSigning } from "./signing";
import type { QueuedTransaction } from "./transactions";

export type RelayerMetrics = Pick<Metrics, "mined" | "stageTook" | "feeRaises">;

export interface LaneOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: ChainReader;
  readonly nodes: Pick<Rpc, "nodes">;
  readonly signer: DigestSigner;
  readonly owner: string;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly metrics?: RelayerMetrics | undefined;
  readonly onFirstBroadcast?: FirstBroadcastListener | undefined;
  /** monotonic milliseconds */
  readonly monotonicMs: () => number;
}

export interface Lane {
  /** Runs one round. Never throws: logs the error and retries in the next round. */
  tick(): Promise<void>;
  /** Renews the lease beside the rounds, while nodes answer. */
  renewLease(): Promise<void>;
  /**
   * Reports that no node answers, which a round that waits for a node cannot do. Runs beside the rounds. Never throws.
   */
  watchNodes(): Promise<void>;
  /**
   * Signs and stores transactions within `tx` without queuing them, as far as slots are free and the queue is empty, up
   * to the first that is reserved for another key.
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

export function createLane(options: LaneOptions): Lane {
  const { config, store, chain, nodes, signer, log, metrics, monotonicMs, onStep, onFirstBroadcast } = options;
  const { chainId, blockTimeMs } = config;
  const of: LeaseKey = { chainId, key: signer.address, owner: options.owner };
  const receipts = createReceipts({ store, chain, log, onStep, metrics, monotonicMs, blockTimeMs });
  const signing = createSigning({ store, signer, chainId, onStep });
  const fees = watchFees({ config, store, chain, of, monotonicMs });
  const broadcasts = createBroadcasts({ store, chain, log, onStep, monotonicMs, metrics, onFirstBroadcast });
  const gap = new GapWatch({ store, of, log, monotonicMs, patienceMs: patienceMsOf(config) });
  const lease = new LaneLease({ config, store, chain, of, log, monotonicMs });
  const state = new LaneState({ config, store, chain, of, lease, monotonicMs });
  const parts = { of, lease, state, receipts, gap, signing, fees, broadcasts };
  const sender = new LaneSender({ config, store, chain, signer, log, metrics, onStep, monotonicMs, ...parts });
  const silence = new NodeSilence({ config, nodes, monotonicMs });
  const faults = createFaultLog({ log, monotonicMs });
  let wasLow = false;

  /** Warns when the balance becomes too low, at the start too: payments are refused until it is raised. */
  function warnOfBalance(): void {
    const { key, isBalanceLow, balanceWei = 0n } = state.health();
    if (isBalanceLow && !wasLow) {
      const facts = { key, balance: coins(balanceWei), remedy: "send it native coins" };
      log.warn(facts, "a relayer key is below MIN_BALANCE_WEI; without another one every payment is refused");
    } else if (wasLow && !isBalanceLow) log.info({ key }, "the relayer key has gas money again");
    wasLow = isBalanceLow;
  }

  return {
    async watchNodes() {
      if (!silence.check() || lease.epoch === undefined) return;
      state.obstructed(describeSilence(nodes.nodes()));
      await state.report().catch((error: unknown) => faults.met("report", error, "a lane could not be reported"));
    },
    async renewLease() {
      // Another process with the key may reach other nodes.
      if (!silence.isSilent) await lease.renew();
    },
    async tick() {
      try {
        await sender.round();
        silence.succeeded();
        await state.report();
        warnOfBalance();
        faults.recovered("round");
      } catch (error) {
        faults.met("round", error, "a lane's round failed", { key: of.key });
      }
    },
    signNow: (tx, entries) => sender.signNow(tx, entries),
    health: () => state.health(),
    hasSent: (hash) => broadcasts.lastSentMs(hash) !== undefined,
    inPool: () => (lease.epoch !== undefined && lease.status === "running" ? state.slots.used() : undefined),
    async release() {
      await broadcasts.end();
      await lease.release();
    },
  };
}
