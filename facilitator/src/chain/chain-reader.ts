/** Reads the chain with typed and checked answers. A malformed answer counts as no answer. */
import { RpcAnswerError, revertDataOf } from "turnpike/chain";
import { type Address, checksum, type Hex, isAddress, Unavailable } from "turnpike/protocol";
import type { Rpc } from "./rpc";
import { hashOfTransaction } from "./transaction-hash";

export interface ChainBlock {
  readonly number: number;
  readonly hash: Hex;
  readonly parentHash: Hex;
  /** unix seconds */
  readonly timestampSec: number;
  readonly baseFeeWei: bigint;
  readonly transactions: readonly Hex[];
}

export interface ChainLog {
  readonly address: Address;
  readonly topics: readonly Hex[];
  readonly data: Hex;
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly transaction: Hex;
  readonly logIndex: number;
}

export interface ChainReceipt {
  readonly hash: Hex;
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly success: boolean;
  readonly gasUsed: bigint;
  readonly gasPriceWei: bigint;
  readonly logs: readonly ChainLog[];
}

/** A mined transaction, as it was sent. */
export interface ChainTransaction {
  readonly blockHash: Hex;
  /** its sender, as the node says: no proof of it */
  readonly from: Address | undefined;
  /** undefined when it creates a contract, or its hash does not prove the call */
  readonly call: { readonly to: Address; readonly data: Hex } | undefined;
}

/** "latest", or a height */
export type BlockTag = "latest" | number;

export interface LogFilter {
  readonly addresses: readonly Address[];
  readonly topics?: readonly (Hex | readonly Hex[] | null)[];
}

export interface CallRequest {
  /** absent: `data` runs as the creation code of a contract */
  readonly to?: Address;
  readonly data: Hex;
  readonly from?: Address;
  readonly gas?: bigint;
  readonly block?: BlockTag;
}

/** Answer of a call: its return data, or its revert data. */
export type CallAnswer =
  | { readonly kind: "ok"; readonly data: Hex }
  | { readonly kind: "reverted"; readonly data: Hex; readonly message: string };

export interface ChainReader {
  head(): Promise<ChainBlock>;
  /** @returns undefined when there is no such block yet */
  block(number: number): Promise<ChainBlock | undefined>;
  /** Returns the block at this height from every node that has one. */
  blockOfEach(number: number): Promise<ChainBlock[]>;
  logsOfBlock(blockHash: Hex, filter: LogFilter): Promise<ChainLog[]>;
  /** @throws RpcAnswerError when the node rejects the range as too wide */
  logsBetween(fromBlock: number, toBlock: number, filter: LogFilter): Promise<ChainLog[]>;
  receipt(hash: Hex): Promise<ChainReceipt | undefined>;
  /** @returns undefined while it is in no block */
  transaction(hash: Hex): Promise<ChainTransaction | undefined>;
  nonce(address: Address): Promise<number>;
  balanceWei(address: Address): Promise<bigint>;
  code(address: Address): Promise<Hex>;
  call(request: CallRequest): Promise<CallAnswer>;
  /** Returns what a call returns, from every node that answers soon with data. */
  callOfEach(request: CallRequest): Promise<Hex[]>;
  /** Sends raw bytes. The reply is no outcome, not even an error: only a receipt is. */
  broadcast(raw: Hex): Promise<void>;
}

const tag = (block: BlockTag): string => (block === "latest" ? block : `0x${block.toString(16)}`);

const quantity = (value: bigint | number): string => `0x${value.toString(16)}`;

const paramsOf = ({ to, data, from, gas, block = "latest" }: CallRequest): unknown[] => [
  { ...(to && { to }), data, ...(from && { from }), ...(gas !== undefined && { gas: quantity(gas) }) },
  tag(block),
];

export function createChainReader(rpc: Rpc): ChainReader {
  /** Treats a node's error answer as no answer. */
  const ask = async (method: string, params: readonly unknown[]): Promise<unknown> => {
    try {
      return await rpc.request(method, params);
    } catch (error) {
      throw asUnavailable(error);
    }
  };

  return {
    async head() {
      const block = blockOf(await ask("eth_getBlockByNumber", ["latest", false]));
      if (!block) throw new Unavailable("a node returned no newest block");
      return block;
    },
    async block(number) {
      const block = blockOf(await ask("eth_getBlockByNumber", [tag(number), false]));
      if (block && block.number !== number) throw new Unavailable("a node returned another block");
      return block;
    },
    async blockOfEach(number) {
      const results = await rpc.requestEach("eth_getBlockByNumber", [tag(number), false]);
      return results.flatMap((raw) => {
        try {
          const block = blockOf(raw);
          return block?.number === number ? [block] : [];
        } catch {
          // A malformed answer counts as none.
          return [];
        }
      });
    },
    async logsOfBlock(blockHash, filter) {
      const logs = logsOf(
        await ask("eth_getLogs", [{ blockHash, address: filter.addresses, topics: filter.topics ?? [] }]),
      );
      // Some nodes ignore part of the filter.
      const isAsked = (log: ChainLog) => log.blockHash === blockHash && filter.addresses.includes(log.address);
      if (!logs.every(isAsked)) throw new Unavailable("a node returned logs outside the requested filter");
      return logs;
    },
    logsBetween: async (fromBlock, toBlock, filter) =>
      logsOf(
        await rpc.request("eth_getLogs", [
          { fromBlock: tag(fromBlock), toBlock: tag(toBlock), address: filter.addresses, topics: filter.topics ?? [] },
        ]),
      ),
    async receipt(hash) {
      const raw = await ask("eth_getTransactionReceipt", [hash]);
      if (raw === null) return undefined;
      const fields = record(raw);
      if (hexOf(fields.transactionHash) !== hash)
        throw new Unavailable("a node returned another transaction's receipt");
      let logs: readonly ChainLog[] | undefined;
      return {
        hash,
        blockNumber: numberOf(fields.blockNumber),
        blockHash: hexOf(fields.blockHash),
        success: numberOf(fields.status) === 1,
        gasUsed: bigintOf(fields.gasUsed),
        gasPriceWei: bigintOf(fields.effectiveGasPrice ?? "0x0"),
        // Decoded on first use: a batch has many logs, and most callers read none of them.
        get logs() {
          logs ??= logsOf(fields.logs);
          return logs;
        },
      };
    },
    async transaction(hash) {
      const raw = await ask("eth_getTransactionByHash", [hash]);
      if (raw === null) return undefined;
      const fields = record(raw);
      const { hash: found, blockHash, to, input } = fields;
      const computed = hashOfTransaction(fields);
      if (hexOf(found) !== hash || (computed !== undefined && computed !== hash))
        throw new Unavailable("a node returned another transaction");
      if (blockHash === null || blockHash === undefined) return undefined;
      const isProved = computed !== undefined && Boolean(to);
      const from = isAddress(fields.from) ? checksum(fields.from) : undefined;
      return {
        blockHash: hexOf(blockHash),
        from,
        call: isProved ? { to: addressOf(to), data: hexOf(input) } : undefined,
      };
    },
    nonce: async (address) => numberOf(await ask("eth_getTransactionCount", [address, "latest"])),
    balanceWei: async (address) => bigintOf(await ask("eth_getBalance", [address, "latest"])),
    code: async (address) => hexOf(await ask("eth_getCode", [address, "latest"])),
    async call(request) {
      try {
        return { kind: "ok", data: hexOf(await rpc.request("eth_call", paramsOf(request))) };
      } catch (error) {
        const data = error instanceof RpcAnswerError ? revertDataOf(error) : undefined;
        if (data === undefined) throw asUnavailable(error);
        return { kind: "reverted", data, message: (error as RpcAnswerError).message };
      }
    },
    async callOfEach(request) {
      const results = await rpc.requestEach("eth_call", paramsOf(request));
      return results.flatMap((raw) => (typeof raw === "string" && /^0x[0-9a-fA-F]*$/.test(raw) ? [raw as Hex] : []));
    },
    async broadcast(raw) {
      await rpc.request("eth_sendRawTransaction", [raw]);
    },
  };
}

function asUnavailable(error: unknown): Error {
  if (!(error instanceof RpcAnswerError)) return error as Error;
  return new Unavailable(`a node rejected a request: ${error.rpcCode}`, { cause: error, retryAfterSec: 2 });
}

function record(value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null) throw new Unavailable("a node's answer is malformed");
  return value as Record<string, unknown>;
}

function hexOf(value: unknown): Hex {
  if (typeof value !== "string" || !/^0x[0-9a-fA-F]*$/.test(value))
    throw new Unavailable("a node's answer is malformed");
  return value.toLowerCase() as Hex;
}

function numberOf(value: unknown): number {
  const number = Number(hexOf(value));
  if (!Number.isSafeInteger(number)) throw new Unavailable("a node's answer is malformed");
  return number;
}

function bigintOf(value: unknown): bigint {
  const hex = hexOf(value);
  if (hex === "0x") throw new Unavailable("a node's answer is malformed");
  return BigInt(hex);
}

function addressOf(value: unknown): Address {
  if (!isAddress(value)) throw new Unavailable("a node's answer is malformed");
  return checksum(value);
}

function blockOf(raw: unknown): ChainBlock | undefined {
  if (raw === null) return undefined;
  const fields = record(raw);
  return {
    number: numberOf(fields.number),
    hash: hexOf(fields.hash),
    parentHash: hexOf(fields.parentHash),
    timestampSec: numberOf(fields.timestamp),
    baseFeeWei: bigintOf(fields.baseFeePerGas ?? "0x0"),
    transactions: listOf(fields.transactions ?? []).map(hexOf),
  };
}

function listOf(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new Unavailable("a node's answer is malformed");
  return value;
}

function logsOf(raw: unknown): ChainLog[] {
  return listOf(raw).map((entry) => {
    const fields = record(entry);
    return {
      address: addressOf(fields.address),
      topics: (fields.topics as unknown[]).map(hexOf),
      data: hexOf(fields.data),
      blockNumber: numberOf(fields.blockNumber),
      blockHash: hexOf(fields.blockHash),
      transaction: hexOf(fields.transactionHash),
      logIndex: numberOf(fields.logIndex),
    };
  });
}
