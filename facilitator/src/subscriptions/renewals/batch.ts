/**
 * Collects a batch of due periods: simulates it, drops the items that would fail, sends the rest, and reads the outcome
 * from the receipt's events. A batch that runs out of gas is halved and retried. Knows nothing of schedules.
 */
import { decodeTurnpikeLog, reasonName, turnpikeInterface } from "turnpike/chain";
import { type Address, type Hex, keccakText } from "turnpike/protocol";
import type { ChainLog } from "../../chain/chain-reader";
import { intrinsicGas, MAX_TRANSACTION_GAS } from "../../chain/gas";
import type { Relayer } from "../../relayer";

export interface BatchItem {
  readonly idHash: Hex;
  readonly paidThroughSec: number;
  readonly attempts: number;
}

/**
 * The outcome of an item. `early`: the chain's next block may come before the period ends. `unsettled`: check again.
 */
export type ItemOutcome =
  | { readonly kind: "renewed"; readonly paidThroughSec: number; readonly blockNumber: number }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "early" }
  | { readonly kind: "unsettled" };

export interface BatchDeps {
  readonly relayer: Relayer;
  readonly turnpike: Address;
  /** called while a transaction is pending; false ends the wait */
  keepWaiting(): Promise<boolean>;
}

/** The contract's gas cap for each item. It reverts the whole call when it cannot provide it. @see Frames.ITEM_GAS */
const ITEM_CAP = 450_000n;

/**
 * Twice the gas that an item uses with well-behaved tokens. Simulation detects a costlier batch, which is then halved.
 */
const ITEM_USE = 60_000n;

const WAIT_SLICE_MS = 1_000;

export function batchGas(data: Hex, items: number): bigint {
  const wanted = intrinsicGas(data) + BigInt(items) * ITEM_USE + 2n * ITEM_CAP;
  return wanted < MAX_TRANSACTION_GAS ? wanted : MAX_TRANSACTION_GAS;
}

/** @returns the outcome of every item by idHash. @throws Unavailable when no node answers */
export async function collect(items: readonly BatchItem[], deps: BatchDeps): Promise<Map<Hex, ItemOutcome>> {
  const outcomes = new Map<Hex, ItemOutcome>();
  const simulated = await simulate(items, deps);
  if (simulated === "out_of_gas") return collectHalves(items, deps);

  const willing: BatchItem[] = [];
  for (const [index, item] of items.entries()) {
    const reason = simulated[index];
    if (reason === undefined) willing.push(item);
    else outcomes.set(item.idHash, reason === "RenewalNotDue" ? { kind: "early" } : { kind: "failed", reason });
  }
  if (willing.length === 0) return outcomes;
  for (const [idHash, outcome] of await send(willing, deps)) outcomes.set(idHash, outcome);
  return outcomes;
}

const encode = (items: readonly BatchItem[]): Hex =>
  turnpikeInterface.encodeFunctionData("renewBatch", [items.map((item) => item.idHash)]) as Hex;

/** @returns for each item the reason why it would fail, or undefined; "out_of_gas" when the gas is too little for all */
async function simulate(
  items: readonly BatchItem[],
  { relayer, turnpike }: BatchDeps,
): Promise<(string | undefined)[] | "out_of_gas"> {
  const data = encode(items);
  const simulation = await relayer.simulate({ to: turnpike, data, gas: batchGas(data, items.length) });
  if (simulation.kind === "reverted") {
    if (items.length > 1) return "out_of_gas";
    return [simulation.error.name];
  }
  const [reasons] = turnpikeInterface.decodeFunctionResult("renewBatch", simulation.data);
  return (reasons as string[]).map((reason) =>
    /^0x0{8}$/.test(reason) ? undefined : (reasonName(reason as Hex) ?? "TransferFailed"),
  );
}

async function collectHalves(items: readonly BatchItem[], deps: BatchDeps): Promise<Map<Hex, ItemOutcome>> {
  const middle = Math.ceil(items.length / 2);
  const first = await collect(items.slice(0, middle), deps);
  const second = await collect(items.slice(middle), deps);
  return new Map([...first, ...second]);
}

async function send(items: readonly BatchItem[], deps: BatchDeps): Promise<Map<Hex, ItemOutcome>> {
  const { relayer, turnpike, keepWaiting } = deps;
  const data = encode(items);
  const transactionId = await relayer.submit({
    purpose: "renew",
    // The same periods at the same attempt are the same transaction, also after a crash.
    idempotencyKey: `renew:${keccakText(items.map((i) => `${i.idHash}/${i.paidThroughSec}/${i.attempts}`).join())}`,
    to: turnpike,
    data,
    gasLimit: batchGas(data, items.length),
  });
  const all = (outcome: ItemOutcome) => new Map(items.map((item) => [item.idHash, outcome] as const));
  for (;;) {
    const outcome = await relayer.waitFor(transactionId, WAIT_SLICE_MS);
    if (outcome.kind === "pending") {
      if (await keepWaiting()) continue;
      return all({ kind: "unsettled" });
    }
    if (outcome.kind !== "mined") return all({ kind: "failed", reason: "displaced" });
    if (outcome.success) return judge(items, outcome.logs, turnpike, outcome.blockNumber);
    // The whole call reverts only when too little gas is left for the next item.
    return items.length > 1 ? collectHalves(items, deps) : all({ kind: "failed", reason: "InsufficientGas" });
  }
}

/** Only Turnpike's own events count; an item without an event is checked again. */
function judge(
  items: readonly BatchItem[],
  logs: readonly ChainLog[],
  turnpike: Address,
  blockNumber: number,
): Map<Hex, ItemOutcome> {
  const outcomes = new Map<Hex, ItemOutcome>(items.map((item) => [item.idHash, { kind: "unsettled" }]));
  for (const log of logs) {
    const event = log.address === turnpike ? decodeTurnpikeLog(log) : undefined;
    if (event?.name === "Renewed") {
      outcomes.set(event.idHash, { kind: "renewed", paidThroughSec: event.paidThroughSec, blockNumber });
    } else if (event?.name === "RenewalFailed") {
      outcomes.set(event.idHash, { kind: "failed", reason: reasonName(event.reason) ?? "TransferFailed" });
    }
  }
  return outcomes;
}
