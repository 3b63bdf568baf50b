/**
 * Follows transactions of keys that no process has any more. Their bytes are stored, so sending them again takes no
 * key. What takes one is not done: nothing raises their fee or fills a missing nonce.
 */
import type { Logger } from "pino";
import type { Address } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { KnownForm, OpenTransaction } from "../db/tables/relayer";
import { repeat, type Worker } from "../lib/loop";
import { createFaultLog, type FaultLog } from "../telemetry/fault-log";
import { type Broadcasts, type BroadcastsOptions, createBroadcasts, resendAfterMs } from "./broadcasts";
import { type Lapsed, lapsedLanes, stopLane } from "./lease";
import { createReceipts, type Receipts, type ReceiptsOptions } from "./receipts";
import { openTransactions } from "./transactions";

export interface FormerKeysOptions {
  readonly config: Pick<FacilitatorConfig, "chainId" | "blockTimeMs">;
  readonly store: Store;
  readonly chain: Pick<ChainReader, "nonce">;
  readonly own: readonly Address[];
  readonly owner: string;
  readonly receipts: Receipts;
  readonly broadcasts: Broadcasts;
  readonly log: Logger;
  /** monotonic milliseconds */
  readonly monotonicMs: () => number;
}

/** A process that is replaced, or freezes for a moment, has its keys again sooner. */
const FORMER_AFTER_MS = 10_000;

const LOOK_EVERY_MS = 2_000;

interface Followed {
  readonly key: Address;
  /** the nonce of the next transaction that can be mined */
  readonly chainNonce: number;
  readonly isStopped: boolean;
  readonly open: readonly OpenTransaction[];
}

export class FormerKeys {
  readonly #options: FormerKeysOptions;
  readonly #faults: FaultLog;
  /** since when this process has seen no process run the lane */
  #lapsedSinceMs = new Map<Address, number>();
  #named: ReadonlySet<Address> = new Set();

  constructor(options: FormerKeysOptions) {
    this.#options = options;
    this.#faults = createFaultLog(options);
  }

  /** Records what was mined or displaced, and sends the rest again. Never throws. */
  async round(): Promise<void> {
    try {
      await this.#follow();
      this.#faults.recovered("former keys");
    } catch (error) {
      this.#faults.met("former keys", error, "transactions of former relayer keys cannot be followed");
    }
  }

  async #follow(): Promise<void> {
    const { store, chain, config, receipts, broadcasts, monotonicMs } = this.#options;
    const beganMs = monotonicMs();
    const followed: Followed[] = [];
    const forms = new Map<string, KnownForm[]>();
    for (const { key, status } of await this.#former()) {
      const found = await openTransactions(store.db, config.chainId, key);
      if (found.open.length === 0) continue;
      for (const [id, all] of found.forms) forms.set(id, all);
      followed.push({ key, chainNonce: await chain.nonce(key), isStopped: status === "stopped", open: found.open });
    }
    broadcasts.forgetAllBut([...forms.values()].flat(), beganMs);
    this.#name(followed);
    const used = followed.flatMap(({ open, chainNonce }) => open.filter(({ nonce }) => (nonce ?? 0) < chainNonce));
    await this.#stop(followed, await receipts.record(used, forms));
    for (const { open, chainNonce, isStopped } of followed) {
      if (!isStopped)
        await this.#send(
          open.filter(({ nonce }) => (nonce ?? 0) >= chainNonce),
          forms,
        );
    }
  }

  async #former(): Promise<readonly Lapsed[]> {
    const { store, config, own, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    const lapsed = await lapsedLanes(store, config.chainId, own);
    this.#lapsedSinceMs = new Map(lapsed.map(({ key }) => [key, this.#lapsedSinceMs.get(key) ?? nowMs]));
    return lapsed.filter(({ key }) => nowMs - (this.#lapsedSinceMs.get(key) ?? nowMs) >= FORMER_AFTER_MS);
  }

  /** A key whose nonce another transaction has used is in other hands: it sends nothing when it is set again. */
  async #stop(followed: readonly Followed[], displaced: readonly OpenTransaction[]): Promise<void> {
    const { store, config, owner, log } = this.#options;
    for (const { key, open } of followed) {
      const row = open.find(({ id }) => displaced.some((one) => one.id === id));
      if (!row) continue;
      const reason = `nonce ${row.nonce} was used by a transaction that is not ours`;
      await stopLane(store, { chainId: config.chainId, key, owner }, reason);
      log.error({ key, reason }, "somebody else uses a former relayer key");
    }
  }

  /** Sends what was not sent recently, lowest nonce first. */
  async #send(open: readonly OpenTransaction[], forms: ReadonlyMap<string, KnownForm[]>): Promise<void> {
    const { broadcasts, config, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    for (const { id } of open) {
      const newest = forms.get(id)?.[0];
      if (!newest) continue;
      const sentMs = broadcasts.lastSentMs(newest.hash);
      if (sentMs === undefined || nowMs - sentMs >= resendAfterMs(config)) await broadcasts.broadcast(newest);
    }
  }

  #name(followed: readonly Followed[]): void {
    const { log } = this.#options;
    for (const { key, open } of followed) {
      if (this.#named.has(key)) continue;
      log.warn(
        { key, transactions: open.length },
        "a relayer key that no process has any more has unmined transactions",
      );
    }
    const keys = new Set(followed.map(({ key }) => key));
    for (const key of this.#named) if (!keys.has(key)) log.info({ key }, "a former relayer key has nothing unmined");
    this.#named = keys;
  }
}

export type FollowOptions = Omit<FormerKeysOptions, "receipts" | "broadcasts"> &
  Omit<ReceiptsOptions, "blockTimeMs"> &
  BroadcastsOptions;

export function followFormerKeys(options: FollowOptions): Worker {
  const { config, store } = options;
  const formerKeys = new FormerKeys({
    ...options,
    receipts: createReceipts({ ...options, blockTimeMs: config.blockTimeMs }),
    broadcasts: createBroadcasts(options),
  });
  return repeat(
    () => formerKeys.round(),
    () => store.notifier.wait("lanes", LOOK_EVERY_MS),
  );
}
