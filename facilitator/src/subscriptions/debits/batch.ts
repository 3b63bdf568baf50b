/** Builds a batch of debits as one contract call: its gas, its simulation, and the outcome of each item by receipt. */
import { decodeTurnpikeLog, reasonName, turnpikeInterface } from "turnpike/chain";
import type { DebitRequest } from "turnpike/facilitator";
import type { Address, ErrorCode, Hex } from "turnpike/protocol";
import type { ChainLog } from "../../chain/chain-reader";
import { intrinsicGas, MAX_TRANSACTION_GAS } from "../../chain/gas";
import type { Relayer } from "../../relayer";
import { debitKeyOf } from "./records";

/** The contract's gas cap for each item. It reverts the whole call when it cannot provide it. @see Frames.ITEM_GAS */
const ITEM_CAP = 450_000n;

/**
 * Gas that a debit uses with well-behaved tokens. Simulation detects a batch of costlier ones, which is then halved.
 */
const ITEM_USE = 60_000n;

export function encodeDebits(items: readonly DebitRequest[]): Hex {
  const debits = items.map(({ idHash, amount, index }) => ({ idHash, amount, index }));
  return turnpikeInterface.encodeFunctionData("debitBatch", [debits]) as Hex;
}

export function debitGas(data: Hex, items: number): bigint {
  const wanted = intrinsicGas(data) + BigInt(items) * ITEM_USE + 2n * ITEM_CAP;
  return wanted < MAX_TRANSACTION_GAS ? wanted : MAX_TRANSACTION_GAS;
}

/** Returns by key why each item would fail now, or undefined. @throws Unavailable */
export async function simulate(
  items: readonly DebitRequest[],
  { relayer, turnpike }: { readonly relayer: Pick<Relayer, "simulate">; readonly turnpike: Address },
): Promise<Map<string, ErrorCode | undefined>> {
  const data = encodeDebits(items);
  const simulation = await relayer.simulate({ to: turnpike, data, gas: debitGas(data, items.length) });
  if (simulation.kind === "ok") {
    const [reasons] = turnpikeInterface.decodeFunctionResult("debitBatch", simulation.data);
    return new Map(items.map((item, place) => [debitKeyOf(item), reasonOf((reasons as string[])[place] ?? "")]));
  }
  const [only] = items;
  if (items.length === 1 && only) return new Map([[debitKeyOf(only), simulation.error.error.code]]);
  // The whole call reverts only when too little gas is left for the next item.
  const middle = Math.ceil(items.length / 2);
  const first = await simulate(items.slice(0, middle), { relayer, turnpike });
  const second = await simulate(items.slice(middle), { relayer, turnpike });
  return new Map([...first, ...second]);
}

const reasonOf = (selector: string): ErrorCode | undefined =>
  /^0x0{8}$/.test(selector) ? undefined : (reasonName(selector) ?? "TransferFailed");

/** Returns by key the reason of each item that the contract reports as failed. Only Turnpike's own events count. */
export function failuresIn(logs: readonly ChainLog[], turnpike: Address): Map<string, ErrorCode> {
  const failures = new Map<string, ErrorCode>();
  for (const log of logs) {
    const event = log.address === turnpike ? decodeTurnpikeLog(log) : undefined;
    if (event?.name !== "DebitFailed") continue;
    const key = debitKeyOf({ idHash: event.idHash, index: Number(event.index) });
    failures.set(key, reasonName(event.reason) ?? "TransferFailed");
  }
  return failures;
}
