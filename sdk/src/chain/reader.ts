/**
 * Reads what an agent needs of the chain through its own endpoint, so that it need not trust a Facilitator. Without a
 * chain library, which no agent in a browser should carry.
 */
import { type Address, type Hex, isTurnpikeError, Unavailable, wordOfAddress } from "../protocol";
import { TRANSFER_METHODS, type TransferMethod } from "../protocol/transfer-methods";
import { type AuthorizedTransfer, calledIn, isInReceipt, movedBy, type ProxyCall } from "./evidence";
import { describeFault, faultOf, postByFetch, RpcAnswerError, RpcEndpoint } from "./json-rpc";
import { loadPlans, type Plan } from "./plans";
import { decodeProxyCall } from "./proxy-calls";
import { type RecordOnChain, readRecords } from "./records";
import { type Caller, callWords, hasCode, readHead, readNonceUse, type Words } from "./views";

export interface ChainReader {
  /** the newest head's timestamp, unix seconds */
  timeSec(): Promise<number>;
  balance(token: Address, owner: Address): Promise<bigint>;
  approval(token: Address, owner: Address, spender: Address): Promise<bigint>;
  permitNonce(token: Address, owner: Address): Promise<bigint>;
  /** whether an EIP-3009 nonce is spent or cancelled */
  isNonceUsed(token: Address, payer: Address, nonce: Hex): Promise<boolean>;
  /** Reads one block: its timestamp, unix seconds, and whether a payment's nonce is spent or cancelled at its end. */
  nonceAtHead(payment: PaymentNonce): Promise<NonceAtHead>;
  /** Returns whether a mined transaction made this transfer by its EIP-3009 authorization. */
  hasTransferred(transaction: Hex, transfer: AuthorizedTransfer): Promise<boolean>;
  /**
   * Returns what a mined transaction charged of an `upto` payment, base units; undefined when it does not prove that it
   * charged this payment.
   */
  uptoCharge(transaction: Hex, payment: UptoPayment): Promise<bigint | undefined>;
  /** The token's EIP-712 domain has it, as its own DOMAIN_SEPARATOR says. */
  domainSeparator(token: Address): Promise<Hex>;
  /** Returns a subscription and its allowance; undefined when none was ever made under this id. */
  subscription(turnpike: Address, idHash: Hex): Promise<RecordOnChain | undefined>;
  /** Returns a plan; undefined when there is none. */
  plan(turnpike: Address, planId: Hex): Promise<Plan | undefined>;
  /** whether the account is a contract, or delegates to one */
  hasCode(account: Address): Promise<boolean>;
  blockNumber(): Promise<number>;
  /** Returns logs in the order of the chain; a range that the endpoint refuses is read in parts. @throws Unavailable */
  logs(filter: LogFilter): Promise<readonly ChainLog[]>;
}

/** An `upto` payment as it was signed; `max` in base units. */
export interface UptoPayment extends Omit<ProxyCall, "amount"> {
  readonly max: bigint;
}

/** Which logs; blocks inclusive. */
export interface LogFilter {
  readonly address: Address;
  readonly topics: readonly (Hex | readonly Hex[] | null)[];
  readonly fromBlock: number;
  readonly toBlock: number;
}

/** One log. */
export interface ChainLog {
  readonly topics: readonly Hex[];
  /** 32 bytes each */
  readonly words: readonly bigint[];
  readonly transaction: Hex;
  readonly block: number;
  readonly index: number;
}

/** The nonce of a payment. */
export interface PaymentNonce {
  readonly token: Address;
  readonly payer: Address;
  readonly nonce: Hex;
  readonly method: Pick<TransferMethod, "nonceView">;
}

/** A payment's nonce as of one block. */
export interface NonceAtHead {
  readonly timeSec: number;
  readonly isUsed: boolean;
}

/** An agent's own endpoint, and how it is reached. */
export interface ReaderOptions {
  readonly url: string;
  readonly chainId: number;
  readonly fetch: (input: string, init: RequestInit) => Promise<Response>;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** Blocks: a smaller range is not divided again. */
const SMALLEST_RANGE = 500;

/** Endpoints limit the range, or the number of logs: by an error, or by a status. */
function isRefusal(error: unknown): boolean {
  const { cause } = error as { readonly cause?: unknown };
  return cause instanceof RpcAnswerError || (isTurnpikeError(cause) && /^http_4/.test(cause.reason ?? ""));
}

const LOG_WORDS = /^0x(?:[0-9a-fA-F]{64})*$/;

const HASH = /^0x[0-9a-fA-F]{64}$/;

/** @throws Unavailable for an answer that is no list of logs */
function logsOf(found: unknown): ChainLog[] {
  const unusable = () => new Unavailable("The agent's RPC gave no usable logs.");
  if (!Array.isArray(found)) throw unusable();
  return found.map((log: unknown) => {
    const { topics, data, transactionHash, blockNumber, logIndex, removed } = log as Readonly<Record<string, unknown>>;
    const [block, index] = [Number(blockNumber), Number(logIndex)];
    const isWhole = Array.isArray(topics) && topics.every((topic) => typeof topic === "string" && HASH.test(topic));
    if (!isWhole || typeof data !== "string" || !LOG_WORDS.test(data) || removed === true) throw unusable();
    if (typeof transactionHash !== "string" || !HASH.test(transactionHash)) throw unusable();
    if (!Number.isSafeInteger(block) || !Number.isSafeInteger(index)) throw unusable();
    const words = (data.slice(2).match(/.{64}/g) ?? []).map((word) => BigInt(`0x${word}`));
    const lowered = topics.map((topic: string) => topic.toLowerCase() as Hex);
    return { topics: lowered, words, transaction: transactionHash as Hex, block, index };
  });
}

async function readLogs(rpc: Caller, filter: LogFilter): Promise<ChainLog[]> {
  const { fromBlock, toBlock, ...which } = filter;
  if (fromBlock > toBlock) return [];
  const hex = (number: number) => `0x${number.toString(16)}`;
  try {
    const found = await rpc.send("eth_getLogs", [{ ...which, fromBlock: hex(fromBlock), toBlock: hex(toBlock) }]);
    return logsOf(found).sort((a, b) => a.block - b.block || a.index - b.index);
  } catch (error) {
    if (toBlock - fromBlock < SMALLEST_RANGE || !isRefusal(error)) throw error;
    const middle = Math.floor((fromBlock + toBlock) / 2);
    const first = await readLogs(rpc, { ...filter, toBlock: middle });
    return [...first, ...(await readLogs(rpc, { ...filter, fromBlock: middle + 1 }))];
  }
}

/** Reads time and nonce from one block: a transfer between two reads of "latest" would be missed. */
async function readNonce(rpc: Caller, { method, ...key }: PaymentNonce): Promise<NonceAtHead> {
  const { number: block, timeSec } = await readHead(rpc);
  return { timeSec, isUsed: await readNonceUse(rpc, method.nonceView(key), block) };
}

/** Creates a reader over one endpoint, once it has shown that it serves the expected chain. */
export function createChainReader(options: ReaderOptions): ChainReader {
  const rpc = ownEndpoint(options);
  const call = (to: Address, view: string, ...words: Uint8Array[]): Promise<Words> =>
    callWords(rpc, { to, view, words });
  return {
    logs: (filter) => readLogs(rpc, filter),
    hasCode: (account) => hasCode(rpc, account),
    blockNumber: async () => Number((await readHead(rpc)).number),
    timeSec: async () => (await readHead(rpc)).timeSec,
    balance: async (token, owner) => (await call(token, "balanceOf(address)", wordOfAddress(owner))).uint(0),
    approval: async (token, owner, spender) =>
      (await call(token, "allowance(address,address)", wordOfAddress(owner), wordOfAddress(spender))).uint(0),
    permitNonce: async (token, owner) => (await call(token, "nonces(address)", wordOfAddress(owner))).uint(0),
    isNonceUsed: (token, payer, nonce) =>
      readNonceUse(rpc, TRANSFER_METHODS.eip3009.nonceView({ token, payer, nonce })),
    nonceAtHead: (payment) => readNonce(rpc, payment),
    hasTransferred: async (transaction, transfer) =>
      isInReceipt(await rpc.send("eth_getTransactionReceipt", [transaction]), transfer),
    async uptoCharge(hash, payment) {
      const [transaction, receipt] = await Promise.all([
        rpc.send("eth_getTransactionByHash", [hash]),
        rpc.send("eth_getTransactionReceipt", [hash]),
      ]);
      const called = calledIn(transaction);
      const charged = movedBy(called && decodeProxyCall(called), receipt, payment);
      return charged !== undefined && charged <= payment.max ? charged : undefined;
    },
    domainSeparator: async (token) => (await call(token, "DOMAIN_SEPARATOR()")).hash(0),
    subscription: async (turnpike, idHash) => (await readRecords(rpc, turnpike, [idHash])).find(({ known }) => known),
    plan: async (turnpike, planId) => (await loadPlans(rpc, turnpike, [planId])).get(planId.toLowerCase() as Hex),
  };
}

/** Sends calls whose results are neither null nor of another chain. Each throws Unavailable. */
function ownEndpoint({ url, chainId, fetch, signal, timeoutMs }: ReaderOptions): Caller {
  const endpoint = new RpcEndpoint({ url, post: postByFetch(fetch), timeoutMs, signal });
  // The host alone: the path may hold a key.
  const name = `The agent's RPC at ${URL.canParse(url) ? new URL(url).host : "an address that is no URL"}`;
  let isChecked = false;
  async function result(method: string, params: readonly unknown[]): Promise<unknown> {
    try {
      const answer = await endpoint.request(method, params);
      if (answer !== undefined && answer !== null) return answer;
    } catch (error) {
      if (faultOf(error) === "timeout") {
        throw new Unavailable(`${name} did not answer within ${timeoutMs} ms.`, { cause: error });
      }
      const isAnswer = error instanceof RpcAnswerError || isTurnpikeError(error);
      const what = isAnswer ? `did not answer ${method}` : "cannot be reached";
      throw new Unavailable(`${name} ${what} (${describeFault(error)}).`, { cause: error });
    }
    throw new Unavailable(`${name} did not answer ${method}.`);
  }
  return {
    async send<T>(method: string, params: readonly unknown[]): Promise<T> {
      if (!isChecked) {
        const reported = Number(await result("eth_chainId", []));
        if (reported !== chainId) throw new Unavailable(`${name} is of chain ${reported}, not ${chainId}.`);
        isChecked = true;
      }
      return (await result(method, params)) as T;
    },
  };
}
