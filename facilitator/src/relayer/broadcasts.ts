/**
 * Broadcasts stored bytes and records when. The reply decides nothing, not even an error. Independent of nonces and
 * leases.
 */
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import type { Store } from "../db/open";
import type { KnownForm, SignedForm } from "../db/tables/relayer";
import type { Failpoint } from "../telemetry/failpoints";
import type { PaymentMetrics } from "../telemetry/metrics";
import { rawBytesOf } from "./transactions";

export interface Broadcasts {
  /** @param form its bytes are loaded when it does not carry them */
  broadcast(form: KnownForm | SignedForm): Promise<void>;
  /** Broadcasts without waiting for the node. */
  send(form: SignedForm): void;
  /** last time these bytes were sent, in monotonic milliseconds */
  lastSentMs(hash: string): number | undefined;
  /** how long this process has known the form, in milliseconds */
  knownForMs(form: KnownForm): number;
  /**
   * Forgets all other forms that were last sent before `sinceMs`. Later ones are kept: the caller read its list before
   * they were sent.
   */
  forgetAllBut(forms: Iterable<KnownForm>, sinceMs: number): void;
  end(): Promise<void>;
}

/**
 * Called when this process is about to broadcast a form for the first time. Must not throw.
 * @param answered resolves with the milliseconds until a node accepted it, or undefined
 */
export type FirstBroadcastListener = (form: KnownForm, answered: Promise<number | undefined>) => void;

export interface BroadcastsOptions {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly monotonicMs: () => number;
  readonly metrics?: Pick<PaymentMetrics, "stageTook"> | undefined;
  readonly onFirstBroadcast?: FirstBroadcastListener | undefined;
}

/** Stored bytes that are in no block are sent again after this time. */
export const resendAfterMs = ({ blockTimeMs }: { readonly blockTimeMs: number }): number =>
  Math.max(blockTimeMs * 3, 2_000);

export function createBroadcasts(options: BroadcastsOptions): Broadcasts {
  const { store, chain, log, onStep, monotonicMs, metrics, onFirstBroadcast } = options;
  const sentAtMs = new Map<string, number>();
  const firstSeenMs = new Map<string, number>();
  const sending = new Set<Promise<void>>();

  function knownForMs({ hash }: KnownForm): number {
    const nowMs = monotonicMs();
    const firstMs = firstSeenMs.get(hash) ?? nowMs;
    firstSeenMs.set(hash, firstMs);
    return nowMs - firstMs;
  }

  async function broadcast(form: KnownForm | SignedForm): Promise<void> {
    knownForMs(form);
    let answer = (_tookMs: number | undefined): void => undefined;
    if (onFirstBroadcast && !sentAtMs.has(form.hash)) {
      const answered = new Promise<number | undefined>((resolve) => {
        answer = resolve;
      });
      onFirstBroadcast(form, answered);
    }
    const startedMs = monotonicMs();
    sentAtMs.set(form.hash, startedMs);
    try {
      const raw = "raw" in form ? form.raw : await rawBytesOf(store.db, form.hash);
      await chain.broadcast(raw as Hex);
      onStep("broadcast");
      const tookMs = monotonicMs() - startedMs;
      metrics?.stageTook("submit", tookMs);
      answer(tookMs);
    } catch (error) {
      answer(undefined);
      // Unknown outcome: nodes also answer with an error for what they mined, or hold already.
      const text = error instanceof Error ? error.message.slice(0, 120) : "unknown";
      log.debug({ transaction: form.hash, reason: text }, "a broadcast was answered with an error");
    }
  }

  return {
    broadcast,
    send(form) {
      const sent = broadcast(form).finally(() => sending.delete(sent));
      sending.add(sent);
    },
    lastSentMs: (hash) => sentAtMs.get(hash),
    knownForMs,
    forgetAllBut(forms, sinceMs) {
      const hashes = new Set<string>([...forms].map(({ hash }) => hash));
      for (const times of [sentAtMs, firstSeenMs])
        for (const [hash, atMs] of times) if (!hashes.has(hash) && atMs < sinceMs) times.delete(hash);
    },
    async end() {
      await Promise.all(sending);
    },
  };
}
