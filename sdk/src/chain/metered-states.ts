/**
 * Reads, uncached, what the sender of debits needs: allowances at one block, and where a rekey moved a record. Sends
 * nothing.
 */
import type { Address, Hex } from "../protocol";
import { aText, fieldsOf } from "../protocol/arguments";
import { turnpikeInterface } from "./abi";
import type { MeteredState, MeterStates } from "./debit-sender";
import { readRecords } from "./records";
import { requireRpc } from "./require-rpc";
import type { Rpc } from "./rpc";

/** Which contract, and through which RPC. */
export interface MeterStatesOptions {
  readonly rpc: Rpc;
  readonly turnpike: Address;
}

export interface TurnpikeLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly transactionHash: string;
}

/** What most public endpoints allow in one eth_getLogs. */
const LOG_RANGE_BLOCKS = 10_000;

/** Reads what metering needs from a chain. */
export function createMeterStates(options: MeterStatesOptions): MeterStates {
  requireRpc(fieldsOf(options, "options").rpc, "options.rpc");
  aText(options.turnpike, "options.turnpike");
  const headNumber = async (): Promise<number> => Number(await options.rpc.send<Hex>("eth_blockNumber", []));
  return {
    read: async (idHashes) => (idHashes.length === 0 ? [] : readMetered(options, idHashes, await headNumber())),
    async rekeyedTo(idHash, sinceBlock) {
      const toBlock = await headNumber();
      const search = { event: "Rekeyed", idHashes: [idHash], fromBlock: sinceBlock, toBlock } as const;
      const [log] = await findLogs(options, search);
      return log?.topics[2] as Hex | undefined;
    },
    isRemoved: (idHash, sinceBlock) => isRemoved(options, idHash, sinceBlock).catch(() => false),
  };
}

async function isRemoved(options: MeterStatesOptions, idHash: Hex, sinceBlock: number): Promise<boolean> {
  const block = await options.rpc.send<{ number: Hex } | null>("eth_getBlockByNumber", ["finalized", false]);
  if (block === null || Number(block.number) < sinceBlock) return false;
  const [state] = await readMetered(options, [idHash], Number(block.number));
  return state?.status === "NONE";
}

/**
 * One state for each idHash, in order, all at `block`.
 * @throws Unavailable, also when the endpoint has no such block
 */
export async function readMetered(
  { rpc, turnpike }: MeterStatesOptions,
  idHashes: readonly Hex[],
  block: number,
): Promise<MeteredState[]> {
  const records = await readRecords(rpc, turnpike, idHashes, quantity(block));
  return records.map(({ idHash, status, allowance: { cap, spent, debits }, paidThroughSec, version }) => ({
    ...{ idHash, status, cap, spent, debits, paidThroughSec, version },
    blockNumber: block,
  }));
}

export interface LogSearch {
  readonly event: "Debited" | "Rekeyed";
  readonly idHashes: readonly Hex[];
  readonly fromBlock: number;
  readonly toBlock: number;
}

export async function findLogs({ rpc, turnpike }: MeterStatesOptions, search: LogSearch): Promise<TurnpikeLog[]> {
  const topic = turnpikeInterface.getEvent(search.event)?.topicHash;
  const logs: TurnpikeLog[] = [];
  for (let from = search.fromBlock; from <= search.toBlock; from += LOG_RANGE_BLOCKS) {
    const to = Math.min(search.toBlock, from + LOG_RANGE_BLOCKS - 1);
    const range = { fromBlock: quantity(from), toBlock: quantity(to) };
    const filter = { address: turnpike, topics: [topic, search.idHashes], ...range };
    logs.push(...(await rpc.send<TurnpikeLog[]>("eth_getLogs", [filter])));
  }
  return logs;
}

/** A number as JSON-RPC writes it. */
export const quantity = (value: number): Hex => `0x${value.toString(16)}`;
