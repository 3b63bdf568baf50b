/**
 * Caches subscription records, so that a request needs no call: read once (concurrent reads share one `getStates`),
 * then kept until a new block's log touches them, history is rewritten or they reach a maximum age. When the chain
 * cannot be read, every answer is Unavailable. Judges nothing: the status is a function of record and clock, elsewhere.
 */
import { type Address, type Hex, Unavailable } from "../protocol";
import { aNumber, aText, callback, fieldsOf } from "../protocol/arguments";
import { type Deferred, deferred } from "../protocol/exchange";
import { PLAN_ENDED } from "./confirmed-head";
import type { HeadWatcher } from "./heads";
import { type RecordOnChain, readRecords } from "./records";
import { requireRpc } from "./require-rpc";
import type { Rpc } from "./rpc";

/** One subscription and its allowance, all from one read at one block. Amounts in base units. */
export interface SubscriptionState extends Omit<RecordOnChain, "status" | "allowance"> {
  readonly allowance: Omit<RecordOnChain["allowance"], "remaining">;
  /** the block at which all this was read */
  readonly blockNumber: number;
}

/** Uncached; in the order of `idHashes`. @throws Unavailable */
export async function readStates(
  rpc: Rpc,
  turnpike: Address,
  idHashes: readonly Hex[],
  blockNumber: number,
): Promise<SubscriptionState[]> {
  aNumber(blockNumber, "blockNumber");
  const records = await readRecords(rpc, turnpike, idHashes, `0x${blockNumber.toString(16)}`);
  // The status is of the block's time, and not of the clock's.
  return records.map(({ status: _atBlock, allowance: { cap, spent, debits }, ...record }) => ({
    ...record,
    allowance: { cap, spent, debits },
    blockNumber,
  }));
}

/** A gate's reader of subscriptions. */
export interface StateReader {
  /** Returns the cached record while it is valid; never calls the chain. */
  peek(idHash: Hex): SubscriptionState | undefined;
  /** @throws Unavailable when the chain cannot be asked, or too many unknown ids are being tried */
  read(idHash: Hex): Promise<SubscriptionState>;
  /**
   * Returns the record as of the newest block, before a refusal: that block may have the signup. Concurrent callers
   * share one call, and only a record that a block has touched is read again.
   * @throws Unavailable
   */
  recheck(idHash: Hex): Promise<SubscriptionState>;
  /** Stops following the chain. */
  close(): void;
}

/** Which contract, through which RPC, and how old an answer may be. */
export interface StateReaderOptions {
  readonly rpc: Rpc;
  readonly turnpike: Address;
  readonly heads: HeadWatcher;
  /** hard ceiling on the age of a record, whatever the logs say; default 60,000 */
  readonly maxRecordAgeMs?: number;
  /** look-ups of ids that turn out unknown, per second; default 100 */
  readonly unknownPerSec?: number;
  /** a clock that never goes back, milliseconds; default: the platform's */
  readonly monotonicMs?: () => number;
}

interface Waiting extends Deferred<SubscriptionState> {
  attempts: number;
}

const IDS_PER_CALL = 200;

const MAX_RECORDS = 100_000;

/** How often a read is repeated because its record changed while it was under way. */
const MAX_ATTEMPTS = 3;

/** Reads subscriptions once and keeps them until the chain touches them: no RPC per request. */
export function createStateReader(options: StateReaderOptions): StateReader {
  fieldsOf(options, "options");
  requireRpc(options.rpc, "options.rpc");
  callback(fieldsOf(options.heads, "options.heads").listen, "options.heads.listen");
  aText(options.turnpike, "options.turnpike");
  const { rpc, turnpike, heads, maxRecordAgeMs = 60_000, unknownPerSec = 100 } = options;
  const { monotonicMs = () => performance.now() } = options;
  const records = new Map<Hex, { readonly state: SubscriptionState; readonly readAtMs: number }>();
  /** unknown ids, remembered for one block */
  const unknown = new Map<Hex, SubscriptionState>();
  /** ids that have existed: never delayed by the limit on unknown ids */
  const seen = new Set<Hex>();
  const waiting = new Map<Hex, Waiting>();
  let inFlight: Set<Hex> | undefined;
  let touchedInFlight = new Set<string>();
  let generation = 0;
  let unknownWindow = { startMs: 0, count: 0 };

  const stopListening = heads.listen({
    onAdvance(_head, touched) {
      unknown.clear();
      // Which records are on the plan is not looked up: a plan is stopped once.
      if (touched.has(PLAN_ENDED)) forget();
      for (const topic of touched) {
        records.delete(topic as Hex);
        if (inFlight) touchedInFlight.add(topic);
      }
    },
    onReset: forget,
  });

  function forget(): void {
    generation++;
    records.clear();
    unknown.clear();
  }

  function peek(idHash: Hex): SubscriptionState | undefined {
    if (!heads.fresh()) return undefined;
    const absent = unknown.get(idHash);
    if (absent) return absent;
    const record = records.get(idHash);
    if (!record) return undefined;
    if (monotonicMs() - record.readAtMs <= maxRecordAgeMs) return record.state;
    records.delete(idHash);
    return undefined;
  }

  async function read(idHash: Hex): Promise<SubscriptionState> {
    await heads.current();
    const held = peek(idHash);
    if (held) return held;
    const shared = waiting.get(idHash);
    if (shared) return shared.promise;
    if (!seen.has(idHash) && unknownInThisSecond() >= unknownPerSec) {
      throw new Unavailable("Too many unknown subscriptions are being tried.", { retryAfterSec: 1 });
    }
    const entry = { ...deferred<SubscriptionState>(), attempts: 0 };
    waiting.set(idHash, entry);
    setImmediate(flush);
    return entry.promise;
  }

  async function recheck(idHash: Hex): Promise<SubscriptionState> {
    await heads.newest();
    return read(idHash);
  }

  function flush(): void {
    if (inFlight || waiting.size === 0) return;
    const batch = [...waiting].slice(0, IDS_PER_CALL);
    inFlight = new Set(batch.map(([idHash]) => idHash));
    touchedInFlight = new Set();
    void readBatch(batch).finally(() => {
      inFlight = undefined;
      if (waiting.size > 0) setImmediate(flush);
    });
  }

  async function readBatch(batch: readonly (readonly [Hex, Waiting])[]): Promise<void> {
    const startedIn = generation;
    try {
      const head = await heads.current();
      const ids = batch.map(([idHash]) => idHash);
      const states = await readStates(rpc, turnpike, ids, head.number);
      batch.forEach(([idHash, entry], index) => {
        const overtaken = startedIn !== generation || touchedInFlight.has(idHash);
        if (overtaken && ++entry.attempts < MAX_ATTEMPTS) return;
        waiting.delete(idHash);
        const state = states[index] as SubscriptionState;
        if (!overtaken) keep(state);
        entry.resolve(state);
      });
    } catch (error) {
      for (const [idHash, entry] of batch) {
        waiting.delete(idHash);
        entry.reject(error);
      }
    }
  }

  function keep(state: SubscriptionState): void {
    if (!state.known) {
      unknownInThisSecond();
      unknownWindow.count++;
      if (unknown.size < MAX_RECORDS) unknown.set(state.idHash, state);
      return;
    }
    dropOldest(records);
    dropOldest(seen);
    records.set(state.idHash, { state, readAtMs: monotonicMs() });
    seen.add(state.idHash);
  }

  function unknownInThisSecond(): number {
    const nowMs = monotonicMs();
    if (nowMs - unknownWindow.startMs >= 1_000) unknownWindow = { startMs: nowMs, count: 0 };
    return unknownWindow.count;
  }

  return { peek, read, recheck, close: stopListening };
}

function dropOldest(collection: { size: number; keys(): Iterator<Hex>; delete(key: Hex): boolean }): void {
  if (collection.size < MAX_RECORDS) return;
  const oldest = collection.keys().next();
  if (!oldest.done) collection.delete(oldest.value);
}
