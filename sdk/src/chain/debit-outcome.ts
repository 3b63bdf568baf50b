/**
 * Reads what became of debits that an operator's transactions carry: from a receipt, or where there is none from the
 * contract's own index and log. An outcome is final only when the chain leaves no doubt.
 */
import { Transaction } from "ethers/transaction";
import type { Address, ErrorCode, Hex } from "../protocol";
import { turnpikeInterface } from "./abi";
import type { DebitItem, DebitOutcome, DebitResult } from "./debit-sender";
import { reasonName } from "./errors";
import { findLogs, quantity, readMetered, type TurnpikeLog } from "./metered-states";
import type { Rpc } from "./rpc";

/** Whose debits of which contract, and when they are final. */
export interface DebitSource {
  readonly rpc: Rpc;
  readonly turnpike: Address;
  readonly address: Address;
  /** blocks, the transaction's own included, after which a debit is final */
  readonly confirmations: number;
}

/** What a payload's text holds. */
export interface SignedDebits {
  readonly raw: Hex;
  /** nothing of this payload can be on chain before */
  readonly fromBlock: number;
}

interface DebitReceipt {
  readonly blockNumber: Hex;
  readonly status: Hex;
  readonly transactionHash: Hex;
  readonly logs: readonly TurnpikeLog[];
}

/** Returns what became of debits, of which one of the payloads may be on chain. */
export async function readDebitOutcome(
  source: DebitSource,
  items: readonly DebitItem[],
  payloads: readonly string[],
): Promise<DebitOutcome> {
  const { rpc, confirmations } = source;
  const sent = payloads.map((text) => ({ ...payloadOf(text), transaction: Transaction.from(payloadOf(text).raw) }));
  for (const { transaction } of sent) {
    const receipt = await rpc.send<DebitReceipt | null>("eth_getTransactionReceipt", [transaction.hash]);
    if (!receipt) continue;
    if ((await headNumber(rpc)) - Number(receipt.blockNumber) + 1 < confirmations) return { kind: "pending" };
    const { transactionHash, blockNumber } = receipt;
    const at = { transaction: transactionHash, blockNumber: Number(blockNumber) };
    return { kind: "final", results: resultsOf(source.turnpike, receipt, items), ...at };
  }
  const nonce = sent[0]?.transaction.nonce;
  if (nonce === undefined) return { kind: "final", results: items.map(() => ({ kind: "void" })) };
  const hashes = new Set(sent.map(({ transaction }) => transaction.hash ?? ""));
  return withoutReceipt(source, { items, nonce, hashes, fromBlock: Math.min(...sent.map((one) => one.fromBlock)) });
}

/**
 * No receipt in hand. While the nonce is unused these bytes can still land. Once it is used, by a transaction that is
 * not in this journal or as seen by an endpoint that lags, the contract's own index and log decide, all read at one
 * block.
 */
async function withoutReceipt(
  { rpc, turnpike, address, confirmations }: DebitSource,
  search: {
    readonly items: readonly DebitItem[];
    readonly nonce: number;
    readonly hashes: ReadonlySet<string>;
    readonly fromBlock: number;
  },
): Promise<DebitOutcome> {
  const block = (await headNumber(rpc)) - confirmations + 1;
  if (block < 0 || (await nonceAt(rpc, address, quantity(block))) <= search.nonce) return { kind: "pending" };
  const idHashes = search.items.map(({ idHash }) => idHash);
  const [states, logs] = await Promise.all([
    readMetered({ rpc, turnpike }, idHashes, block),
    findLogs({ rpc, turnpike }, { event: "Debited", idHashes, fromBlock: search.fromBlock, toBlock: block }),
  ]);
  const results: DebitResult[] = [];
  for (const [i, item] of search.items.entries()) {
    const log = logs.find((one) => isDebitOf(one, item));
    if (log !== undefined) {
      const isOwn = search.hashes.has(log.transactionHash);
      results.push(isOwn ? { kind: "settled" } : { kind: "failed", reason: "StaleDebit" });
    } else if ((states[i]?.debits ?? 0) > item.index) {
      // The index is taken and the log is not to be seen: not certain enough to debit again.
      return { kind: "pending" };
    } else results.push({ kind: "void" });
  }
  return { kind: "final", results, blockNumber: block };
}

function resultsOf(turnpike: Address, receipt: DebitReceipt, items: readonly DebitItem[]): DebitResult[] {
  // The batch isolates its items: as a whole it fails only for lack of gas.
  if (Number(receipt.status) === 0) return items.map(() => ({ kind: "failed", reason: "InsufficientGas" }));
  const logs = receipt.logs.filter((log) => log.address.toLowerCase() === turnpike.toLowerCase());
  return items.map((item) => {
    const log = logs.find((one) => isDebitOf(one, item));
    if (log === undefined) return { kind: "void" };
    const parsed = turnpikeInterface.parseLog(log);
    if (parsed?.name === "Debited") return { kind: "settled" };
    return { kind: "failed", reason: failureOf(parsed?.args.reason) };
  });
}

function isDebitOf(log: TurnpikeLog, item: DebitItem): boolean {
  if (log.topics[1]?.toLowerCase() !== item.idHash.toLowerCase()) return false;
  const parsed = turnpikeInterface.parseLog(log);
  const isDebit = parsed?.name === "Debited" || parsed?.name === "DebitFailed";
  return isDebit && Number(parsed.args.index) === item.index;
}

const failureOf = (selector: unknown): ErrorCode => reasonName(String(selector)) ?? "TransferFailed";

export const payloadOf = (text: string): SignedDebits => JSON.parse(text) as SignedDebits;

export const headNumber = async (rpc: Rpc): Promise<number> => Number(await rpc.send<Hex>("eth_blockNumber", []));

export const nonceAt = async (rpc: Rpc, address: Address, tag: string): Promise<number> =>
  Number(await rpc.send<Hex>("eth_getTransactionCount", [address, tag]));
