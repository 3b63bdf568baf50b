/** A batch of debits as one call of the contract: its gas, its rehearsal, and what its receipt says of each item. */
import { decodeTurnpikeLog, reasonName, turnpikeInterface } from "turnpike/chain";
import type { DebitRequest } from "turnpike/facilitator";
import type { Address, ErrorCode, Hex } from "turnpike/protocol";
import type { ChainLog } from "../../chain/chain-reader";
import { intrinsicGas, MAX_TRANSACTION_GAS } from "../../chain/gas";
import type { Relayer } from "../../relayer";
import { debitKeyOf } from "./records";

/** The contract gives each item at most so much, and reverts as a whole when it cannot. @see Frames.ITEM_GAS */
const ITEM_CAP = 450_000n;

/** What a debit uses with well-behaved tokens; a batch of dearer ones is found out by rehearsal and halved. */
const ITEM_USE = 60_000n;

export function encodeDebits(items: readonly DebitRequest[]): Hex {
  const debits = items.map(({ idHash, amount, index }) => ({ idHash, amount, index }));
  return turnpikeInterface.encodeFunctionData("debitBatch", [debits]) as Hex;
}

export function debitGas(data: Hex, items: number): bigint {
  const wanted = intrinsicGas(data) + BigInt(items) * ITEM_USE + 2n * ITEM_CAP;
  return wanted < MAX_TRANSACTION_GAS ? wanted : MAX_TRANSACTION_GAS;
}

/** Why each item would fail now, or undefined, by its key. @throws Unavailable */
export async function rehearse(
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
  // The only revert of the whole is too little gas for the next item.
  const middle = Math.ceil(items.length / 2);
  const first = await rehearse(items.slice(0, middle), { relayer, turnpike });
  const second = await rehearse(items.slice(middle), { relayer, turnpike });
  return new Map([...first, ...second]);
}

const reasonOf = (selector: string): ErrorCode | undefined =>
  /^0x0{8}$/.test(selector) ? undefined : (reasonName(selector) ?? "TransferFailed");

/** Items that the contract says have failed, by their key, with the reason. Only Turnpike's own events count. */
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
