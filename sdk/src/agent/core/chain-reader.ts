/**
 * Reads the chain through the agent's own RPC, so that it need not trust a Facilitator. Without a chain library,
 * which no agent in a browser should carry.
 */
import { RpcAnswerError } from "../../chain/json-rpc";
import {
  type Address,
  type Hex,
  hexToBytes,
  isTurnpikeError,
  keccakText,
  lensAddressOf,
  PERMIT2,
  toHex,
  Unavailable,
  wordOfAddress,
  wordOfUint,
} from "../../protocol";
import {
  isSubscribedIn,
  type PlanOnChain,
  planIn,
  type SubscriptionOnChain,
  subscriptionIn,
  versionIn,
  wordAt,
} from "./chain-records";
import { ChainRpc, type ReaderEffects } from "./chain-rpc";
import { type AuthorizedTransfer, isInReceipt, type UptoPayment, uptoChargeIn } from "./transfer-evidence";

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
  /** of the token's EIP-712 domain, as its own DOMAIN_SEPARATOR says */
  domainSeparator(token: Address): Promise<Hex>;
  version(turnpike: Address, idHash: Hex): Promise<number>;
  /** whether a subscription was ever made under this id */
  isSubscribed(turnpike: Address, idHash: Hex): Promise<boolean>;
  /** Returns a subscription and its allowance; undefined when none was ever made under this id. */
  subscription(turnpike: Address, idHash: Hex): Promise<SubscriptionOnChain | undefined>;
  /** Returns what can change of a plan; undefined when there is none. */
  plan(turnpike: Address, planId: Hex): Promise<PlanOnChain | undefined>;
  /** whether the account is a contract, or delegates to one */
  hasCode(account: Address): Promise<boolean>;
  blockNumber(): Promise<number>;
  /** Returns logs in the order of the chain; a range that the endpoint refuses is read in parts. @throws Unavailable */
  logs(filter: LogFilter): Promise<readonly ChainLog[]>;
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

/** The nonce of a payment: the token's own (EIP-3009), or one of Permit2's. */
export interface PaymentNonce {
  readonly token: Address;
  readonly payer: Address;
  readonly nonce: Hex;
  readonly isPermit2: boolean;
}

/** A payment's nonce as of one block. */
export interface NonceAtHead {
  /** the block's timestamp, unix seconds */
  readonly timeSec: number;
  readonly isUsed: boolean;
}

const selectorOf = (signature: string): Uint8Array => hexToBytes(keccakText(signature)).slice(0, 4);

const SELECTORS = {
  balanceOf: selectorOf("balanceOf(address)"),
  allowance: selectorOf("allowance(address,address)"),
  nonces: selectorOf("nonces(address)"),
  authorizationState: selectorOf("authorizationState(address,bytes32)"),
  nonceBitmap: selectorOf("nonceBitmap(address,uint256)"),
  domainSeparator: selectorOf("DOMAIN_SEPARATOR()"),
  getStates: selectorOf("getStates(bytes32[])"),
  getPlan: selectorOf("getPlan(bytes32)"),
};

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
function logsOf(found: unknown, { name }: ChainRpc): ChainLog[] {
  const unusable = () => new Unavailable(`${name} gave no usable logs.`);
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

/** Reads logs in the order of the chain; a range that the endpoint refuses is read in parts. @throws Unavailable */
async function readLogs(rpc: ChainRpc, filter: LogFilter): Promise<ChainLog[]> {
  const { fromBlock, toBlock, ...which } = filter;
  if (fromBlock > toBlock) return [];
  const hex = (number: number) => `0x${number.toString(16)}`;
  try {
    const found = await rpc.request("eth_getLogs", [{ ...which, fromBlock: hex(fromBlock), toBlock: hex(toBlock) }]);
    return logsOf(found, rpc).sort((a, b) => a.block - b.block || a.index - b.index);
  } catch (error) {
    if (toBlock - fromBlock < SMALLEST_RANGE || !isRefusal(error)) throw error;
    const middle = Math.floor((fromBlock + toBlock) / 2);
    const first = await readLogs(rpc, { ...filter, toBlock: middle });
    return [...first, ...(await readLogs(rpc, { ...filter, fromBlock: middle + 1 }))];
  }
}

/** Reads time and nonce from one block: a transfer between two reads of "latest" would be missed. */
async function readNonce(rpc: ChainRpc, { token, payer, nonce, isPermit2 }: PaymentNonce): Promise<NonceAtHead> {
  const { number: block, timeSec } = await rpc.head();
  if (typeof block !== "string" || !/^0x[0-9a-fA-F]{1,16}$/.test(block)) {
    throw new Unavailable(`${rpc.name} gave a block without a number.`);
  }
  if (isPermit2) {
    // Permit2 keeps 256 nonces in one word: the last byte is the bit's place in it.
    const words = [wordOfAddress(payer), wordOfUint(BigInt(nonce) >> 8n)];
    const bitmap = wordAt(await rpc.call({ to: PERMIT2, selector: SELECTORS.nonceBitmap, words, block }), 0);
    return { timeSec, isUsed: ((bitmap >> (BigInt(nonce) & 255n)) & 1n) === 1n };
  }
  const words = [wordOfAddress(payer), hexToBytes(nonce)];
  const state = await rpc.call({ to: token, selector: SELECTORS.authorizationState, words, block });
  return { timeSec, isUsed: wordAt(state, 0) !== 0n };
}

async function readBlockNumber(rpc: ChainRpc): Promise<number> {
  const number = Number((await rpc.head()).number);
  if (Number.isSafeInteger(number)) return number;
  throw new Unavailable(`${rpc.name} gave a block without a number.`);
}

async function readHasCode(rpc: ChainRpc, account: Address): Promise<boolean> {
  const code = await rpc.request("eth_getCode", [account, "latest"]);
  if (typeof code === "string" && /^0x[0-9a-fA-F]*$/.test(code)) return code.length > 2;
  throw new Unavailable(`${rpc.name} does not say whether ${account} is a contract.`);
}

export function createChainReader(url: string, chainId: number, effects: ReaderEffects): ChainReader {
  const rpc = new ChainRpc(url, chainId, effects);
  const call = (to: Address, selector: Uint8Array, ...words: Uint8Array[]): Promise<Uint8Array> =>
    rpc.call({ to, selector, words });
  const stateOf = (turnpike: Address, idHash: Hex): Promise<Uint8Array> =>
    call(lensAddressOf(turnpike), SELECTORS.getStates, wordOfUint(32n), wordOfUint(1n), hexToBytes(idHash));
  return {
    logs: (filter) => readLogs(rpc, filter),
    hasCode: (account) => readHasCode(rpc, account),
    blockNumber: () => readBlockNumber(rpc),
    timeSec: async () => (await rpc.head()).timeSec,
    balance: async (token, owner) => wordAt(await call(token, SELECTORS.balanceOf, wordOfAddress(owner)), 0),
    approval: async (token, owner, spender) =>
      wordAt(await call(token, SELECTORS.allowance, wordOfAddress(owner), wordOfAddress(spender)), 0),
    permitNonce: async (token, owner) => wordAt(await call(token, SELECTORS.nonces, wordOfAddress(owner)), 0),
    isNonceUsed: async (token, payer, nonce) =>
      wordAt(await call(token, SELECTORS.authorizationState, wordOfAddress(payer), hexToBytes(nonce)), 0) !== 0n,
    nonceAtHead: (payment) => readNonce(rpc, payment),
    hasTransferred: async (transaction, transfer) =>
      isInReceipt(await rpc.request("eth_getTransactionReceipt", [transaction]), transfer),
    async uptoCharge(hash, payment) {
      const [transaction, receipt] = await Promise.all([
        rpc.request("eth_getTransactionByHash", [hash]),
        rpc.request("eth_getTransactionReceipt", [hash]),
      ]);
      return uptoChargeIn(transaction, receipt, payment);
    },
    domainSeparator: async (token) => toHex((await call(token, SELECTORS.domainSeparator)).slice(0, 32)),
    version: async (turnpike, idHash) => versionIn(await stateOf(turnpike, idHash)),
    isSubscribed: async (turnpike, idHash) => isSubscribedIn(await stateOf(turnpike, idHash)),
    subscription: async (turnpike, idHash) => subscriptionIn(await stateOf(turnpike, idHash)),
    plan: async (turnpike, planId) =>
      planIn(await call(lensAddressOf(turnpike), SELECTORS.getPlan, hexToBytes(planId))),
  };
}
