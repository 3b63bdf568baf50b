/**
 * Sends debits by a plan operator's own transactions: one at a time per key, so that nonce and order are certain. What
 * is prepared is the signed bytes; an outcome is final only when the chain leaves no doubt. The meter merges and
 * schedules.
 */
import { Transaction, type TransactionLike, Wallet } from "ethers";
import { type Address, type ErrorCode, type Hex, Unavailable } from "../protocol";
import { turnpikeInterface } from "./abi";
import type { DebitItem, DebitOutcome, DebitResult, DebitSender, MeterStates, PreparedDebits } from "./debit-sender";
import { debitGasLimit, encodeDebits, MAX_TRANSACTION_GAS, simulateDebits } from "./debit-simulation";
import { reasonName } from "./errors";
import { createMeterStates, findLogs, readMetered, type TurnpikeLog } from "./metered-states";
import type { Rpc } from "./rpc";

/** Signs transactions: an ethers Wallet, or a key in a vault. */
export interface TransactionSigner {
  readonly address: string;
  /** @returns the raw transaction */
  signTransaction(transaction: TransactionLike): Promise<string>;
}

/** Whose transactions, through which RPC, at what most they may cost. */
export interface OperatorOptions {
  readonly rpc: Rpc;
  readonly turnpike: Address;
  readonly chainId: number;
  /** the private key of an operator of the plan (the provider is one from the start), or a signer that holds it */
  readonly signer: Hex | TransactionSigner;
  /** blocks, the transaction's own included, after which a debit is final; default 1 */
  readonly confirmations?: number;
  /** wei per gas; above it nothing is sent, and no fee raised further; default none */
  readonly maxFeePerGas?: bigint;
}

/** An account that sends transactions of its own. */
export interface Operator {
  readonly address: Address;
  readonly sender: DebitSender;
  readonly states: MeterStates;
  /** Returns the account's balance, and what it needs for one debit at the current fees; wei. @throws Unavailable */
  gasFunds(): Promise<GasFunds>;
}

/** Both in wei. */
export interface GasFunds {
  readonly held: bigint;
  readonly needed: bigint;
}

interface Payload {
  readonly raw: Hex;
  /** nothing of this payload can be on chain before */
  readonly fromBlock: number;
}

interface Receipt {
  readonly blockNumber: Hex;
  readonly status: Hex;
  readonly transactionHash: Hex;
  readonly logs: readonly TurnpikeLog[];
}

const FALLBACK_TIP_WEI = 1_000_000n;

/** The gas limit that `prepare` gives a transaction with one debit, rounded up. */
const ONE_DEBIT_GAS = 1_250_000n;

/** Sends a provider's own transactions: one nonce at a time, replaced when they are stuck. */
export function createOperator(options: OperatorOptions): Operator {
  const { rpc, turnpike, chainId, confirmations = 1, maxFeePerGas } = options;
  const signer = typeof options.signer === "string" ? new Wallet(options.signer) : options.signer;
  const address = signer.address as Address;

  async function prepare(items: readonly DebitItem[]): Promise<PreparedDebits> {
    if (items.length === 0) return { items, refused: [], payload: undefined };
    const simulation = await simulateDebits({ rpc, turnpike, operator: address, items });
    if (simulation === undefined) {
      if (items.length === 1) throw new Unavailable("One debit does not fit into a transaction: is the token sound?");
      return prepare(items.slice(0, Math.ceil(items.length / 2)));
    }
    const refused = items.flatMap((item, i) => {
      const reason = simulation.reasons[i];
      return reason === undefined ? [] : [{ item, reason }];
    });
    const accepted = items.filter((_, i) => simulation.reasons[i] === undefined);
    if (accepted.length === 0) return { items: [], refused, payload: undefined };
    const gasLimit = debitGasLimit(encodeDebits(accepted), simulation.gasUsed);
    if (gasLimit === MAX_TRANSACTION_GAS && items.length > 1)
      return prepare(items.slice(0, Math.ceil(items.length / 2)));
    const payload = await sign(accepted, gasLimit);
    return { items: accepted, refused, payload: JSON.stringify(payload) };
  }

  async function sign(items: readonly DebitItem[], gasLimit: bigint): Promise<Payload> {
    const data = encodeDebits(items);
    const [fromBlock, nonce, fees] = await Promise.all([headNumber(), nonceAt("pending"), currentFees()]);
    if (maxFeePerGas !== undefined && fees.maxFeePerGas > maxFeePerGas) {
      throw new Unavailable("The chain's fees are above maxFeePerGas.", { retryAfterSec: 30 });
    }
    const raw = await signer.signTransaction({
      ...{ type: 2, chainId, to: turnpike, data, nonce, value: 0n },
      ...fees,
      gasLimit,
    });
    return { raw: raw as Hex, fromBlock };
  }

  async function currentFees() {
    const [block, tip] = await Promise.all([
      rpc.send<{ baseFeePerGas?: Hex } | null>("eth_getBlockByNumber", ["latest", false]),
      rpc.send<Hex>("eth_maxPriorityFeePerGas", []).then(BigInt, () => FALLBACK_TIP_WEI),
    ]);
    return { maxFeePerGas: 2n * BigInt(block?.baseFeePerGas ?? 0) + tip, maxPriorityFeePerGas: tip };
  }

  const headNumber = async (): Promise<number> => Number(await rpc.send<Hex>("eth_blockNumber", []));
  const nonceAt = async (tag: string): Promise<number> =>
    Number(await rpc.send<Hex>("eth_getTransactionCount", [address, tag]));

  /** The endpoint's objection ("already known", "nonce too low") proves nothing; at least one must have been taken. */
  async function submit(payloads: readonly string[]): Promise<void> {
    const answers = await Promise.allSettled(
      payloads.map((text) => rpc.send<Hex>("eth_sendRawTransaction", [payloadOf(text).raw])),
    );
    const last = answers.at(-1);
    if (last?.status === "rejected" && answers.every(({ status }) => status === "rejected")) throw last.reason;
  }

  async function outcome(items: readonly DebitItem[], payloads: readonly string[]): Promise<DebitOutcome> {
    const sent = payloads.map((text) => ({ ...payloadOf(text), transaction: Transaction.from(payloadOf(text).raw) }));
    for (const { transaction } of sent) {
      const receipt = await rpc.send<Receipt | null>("eth_getTransactionReceipt", [transaction.hash]);
      if (!receipt) continue;
      if ((await headNumber()) - Number(receipt.blockNumber) + 1 < confirmations) return { kind: "pending" };
      const { transactionHash, blockNumber } = receipt;
      const at = { transaction: transactionHash, blockNumber: Number(blockNumber) };
      return { kind: "final", results: resultsOf(receipt, items), ...at };
    }
    const nonce = sent[0]?.transaction.nonce;
    if (nonce === undefined) return { kind: "final", results: items.map(() => ({ kind: "void" })) };
    const hashes = new Set(sent.map(({ transaction }) => transaction.hash ?? ""));
    return withoutReceipt({ items, nonce, hashes, fromBlock: Math.min(...sent.map((one) => one.fromBlock)) });
  }

  /**
   * No receipt in hand. While the nonce is unused these bytes can still land. Once it is used, by a transaction that is
   * not in this journal or as seen by an endpoint that lags, the contract's own index and log decide, all read at one
   * block.
   */
  async function withoutReceipt(search: {
    readonly items: readonly DebitItem[];
    readonly nonce: number;
    readonly hashes: ReadonlySet<string>;
    readonly fromBlock: number;
  }): Promise<DebitOutcome> {
    const block = (await headNumber()) - confirmations + 1;
    if (block < 0 || (await nonceAt(quantity(block))) <= search.nonce) return { kind: "pending" };
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

  function resultsOf(receipt: Receipt, items: readonly DebitItem[]): DebitResult[] {
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

  async function replace(payloads: readonly string[]): Promise<string | undefined> {
    const last = payloads.at(-1);
    if (last === undefined) return undefined;
    const { raw, fromBlock } = payloadOf(last);
    const old = Transaction.from(raw);
    const { to, data, nonce, gasLimit } = old;
    const fees = await currentFees();
    const raised = {
      maxFeePerGas: larger(fees.maxFeePerGas, raise(old.maxFeePerGas)),
      maxPriorityFeePerGas: larger(fees.maxPriorityFeePerGas, raise(old.maxPriorityFeePerGas)),
    };
    if (maxFeePerGas !== undefined && raised.maxFeePerGas > maxFeePerGas) return undefined;
    const next = await signer.signTransaction({ type: 2, chainId, to, data, nonce, gasLimit, value: 0n, ...raised });
    return JSON.stringify({ raw: next, fromBlock });
  }

  async function gasFunds(): Promise<GasFunds> {
    const [held, { maxFeePerGas: fee }] = await Promise.all([
      rpc.send<Hex>("eth_getBalance", [address, "latest"]).then(BigInt),
      currentFees(),
    ]);
    return { held, needed: ONE_DEBIT_GAS * fee };
  }

  return {
    address,
    sender: { prepare, submit, outcome, replace },
    states: createMeterStates({ rpc, turnpike }),
    gasFunds,
  };
}

function isDebitOf(log: TurnpikeLog, item: DebitItem): boolean {
  if (log.topics[1]?.toLowerCase() !== item.idHash.toLowerCase()) return false;
  const parsed = turnpikeInterface.parseLog(log);
  const isDebit = parsed?.name === "Debited" || parsed?.name === "DebitFailed";
  return isDebit && Number(parsed.args.index) === item.index;
}

const failureOf = (selector: unknown): ErrorCode => reasonName(String(selector)) ?? "TransferFailed";

const payloadOf = (text: string): Payload => JSON.parse(text) as Payload;

const quantity = (value: number): Hex => `0x${value.toString(16)}`;

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** Pools take a replacement only for at least a tenth more. */
const raise = (fee: bigint | null): bigint => ((fee ?? 0n) * 9n) / 8n + 1n;
