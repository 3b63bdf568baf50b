/**
 * Prepares, sends and replaces the transactions of debits: one nonce at a time, so that nonce and order are certain.
 * What is prepared is the signed bytes.
 */
import { SigningKey } from "ethers/crypto";
import { Transaction, type TransactionLike } from "ethers/transaction";
import { type Address, addressOfKey, type Hex, Unavailable } from "../protocol";
import { headNumber, nonceAt, payloadOf, type SignedDebits } from "./debit-outcome";
import type { DebitItem, PreparedDebits } from "./debit-sender";
import { debitGasLimit, encodeDebits, MAX_TRANSACTION_GAS, simulateDebits } from "./debit-simulation";
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

const FALLBACK_TIP_WEI = 1_000_000n;

export class DebitTransactions {
  readonly address: Address;
  readonly #options: OperatorOptions;
  readonly #signer: TransactionSigner;

  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#signer = typeof options.signer === "string" ? signerOf(options.signer) : options.signer;
    this.address = this.#signer.address as Address;
  }

  async prepare(items: readonly DebitItem[]): Promise<PreparedDebits> {
    if (items.length === 0) return { items, refused: [], payload: undefined };
    const { rpc, turnpike } = this.#options;
    const simulation = await simulateDebits({ rpc, turnpike, operator: this.address, items });
    if (simulation === undefined) {
      if (items.length === 1) throw new Unavailable("One debit does not fit into a transaction: is the token sound?");
      return this.prepare(items.slice(0, Math.ceil(items.length / 2)));
    }
    const refused = items.flatMap((item, i) => {
      const reason = simulation.reasons[i];
      return reason === undefined ? [] : [{ item, reason }];
    });
    const accepted = items.filter((_, i) => simulation.reasons[i] === undefined);
    if (accepted.length === 0) return { items: [], refused, payload: undefined };
    const gasLimit = debitGasLimit(encodeDebits(accepted), simulation.gasUsed);
    if (gasLimit === MAX_TRANSACTION_GAS && items.length > 1)
      return this.prepare(items.slice(0, Math.ceil(items.length / 2)));
    const payload = await this.#sign(accepted, gasLimit);
    return { items: accepted, refused, payload: JSON.stringify(payload) };
  }

  /** The endpoint's objection ("already known", "nonce too low") proves nothing; at least one must have been taken. */
  async submit(payloads: readonly string[]): Promise<void> {
    const answers = await Promise.allSettled(
      payloads.map((text) => this.#options.rpc.send<Hex>("eth_sendRawTransaction", [payloadOf(text).raw])),
    );
    const last = answers.at(-1);
    if (last?.status === "rejected" && answers.every(({ status }) => status === "rejected")) throw last.reason;
  }

  async replace(payloads: readonly string[]): Promise<string | undefined> {
    const { chainId, maxFeePerGas } = this.#options;
    const last = payloads.at(-1);
    if (last === undefined) return undefined;
    const { raw, fromBlock } = payloadOf(last);
    const old = Transaction.from(raw);
    const { to, data, nonce, gasLimit } = old;
    const fees = await this.currentFees();
    const raised = {
      maxFeePerGas: larger(fees.maxFeePerGas, raise(old.maxFeePerGas)),
      maxPriorityFeePerGas: larger(fees.maxPriorityFeePerGas, raise(old.maxPriorityFeePerGas)),
    };
    if (maxFeePerGas !== undefined && raised.maxFeePerGas > maxFeePerGas) return undefined;
    const next = await this.#signer.signTransaction({
      type: 2,
      chainId,
      to,
      data,
      nonce,
      gasLimit,
      value: 0n,
      ...raised,
    });
    return JSON.stringify({ raw: next, fromBlock });
  }

  /** Wei per gas. */
  async currentFees() {
    const { rpc } = this.#options;
    const [block, tip] = await Promise.all([
      rpc.send<{ baseFeePerGas?: Hex } | null>("eth_getBlockByNumber", ["latest", false]),
      rpc.send<Hex>("eth_maxPriorityFeePerGas", []).then(BigInt, () => FALLBACK_TIP_WEI),
    ]);
    return { maxFeePerGas: 2n * BigInt(block?.baseFeePerGas ?? 0) + tip, maxPriorityFeePerGas: tip };
  }

  async #sign(items: readonly DebitItem[], gasLimit: bigint): Promise<SignedDebits> {
    const { rpc, turnpike, chainId, maxFeePerGas } = this.#options;
    const data = encodeDebits(items);
    const [fromBlock, nonce, fees] = await Promise.all([
      headNumber(rpc),
      nonceAt(rpc, this.address, "pending"),
      this.currentFees(),
    ]);
    if (maxFeePerGas !== undefined && fees.maxFeePerGas > maxFeePerGas) {
      throw new Unavailable("The chain's fees are above maxFeePerGas.", { retryAfterSec: 30 });
    }
    const raw = await this.#signer.signTransaction({
      type: 2,
      chainId,
      to: turnpike,
      data,
      nonce,
      value: 0n,
      ...fees,
      gasLimit,
    });
    return { raw: raw as Hex, fromBlock };
  }
}

/** What ethers' Wallet does, which would load its keystores and providers. */
function signerOf(privateKey: Hex): TransactionSigner {
  const key = new SigningKey(privateKey);
  return {
    address: addressOfKey(privateKey),
    async signTransaction(fields) {
      const transaction = Transaction.from(fields);
      transaction.signature = key.sign(transaction.unsignedHash);
      return transaction.serialized;
    },
  };
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** Pools take a replacement only for at least a tenth more. */
const raise = (fee: bigint | null): bigint => ((fee ?? 0n) * 9n) / 8n + 1n;
