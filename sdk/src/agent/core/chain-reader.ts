/**
 * Reads the chain through the agent's own RPC, so that it need not trust a Facilitator. Without a chain library,
 * which no agent in a browser should carry.
 */
import { faultOf, postByFetch, RpcAnswerError, RpcEndpoint } from "../../chain/json-rpc";
import type { Subscription as SubscriptionState } from "../../facilitator/subscriptions";
import {
  type Address,
  checksum,
  concatBytes,
  type Hex,
  hexToBytes,
  isTurnpikeError,
  keccakText,
  lensAddressOf,
  PERMIT2,
  STATUSES,
  toHex,
  Unavailable,
  wordOfAddress,
  wordOfUint,
} from "../../protocol";
import type { Effects } from "./effects";
import { networkFault } from "./request";
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

/** What of a plan its id does not prove. */
export interface PlanOnChain {
  readonly provider: Address;
  readonly token: Address;
  readonly payTo: Address;
  /** another payee that is proposed, and from when on (unix seconds) anyone can apply it */
  readonly proposedPayTo: { readonly payTo: Address; readonly effectiveAtSec: number } | undefined;
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

/** What the contract says of one subscription: the part of a Facilitator's answer that needs no index. */
export type SubscriptionOnChain = Pick<
  SubscriptionState,
  "planId" | "status" | "paidThrough" | "version" | "ending" | "until" | "nextPlanId" | "allowance"
>;

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

/** Positions in the result of `getPlan`. */
const PLAN_WORDS = { planId: 0, provider: 2, token: 3, payTo: 8, proposedPayTo: 12, effectiveAt: 13 };

/** Positions in the result of `getStates` for one id: after the list's offset and length. */
const STATE_WORDS = {
  ...{ subscriber: 3, planId: 4, paidThrough: 5, version: 6, ending: 8, until: 12, nextPlanId: 13, status: 14 },
  ...{ cap: 15, spent: 16, remaining: 17, debits: 19 },
};

/** What a reader needs of an agent. */
export type ReaderEffects = Pick<Effects, "fetch" | "closing"> & {
  readonly limits: Pick<Effects["limits"], "facilitatorTimeoutMs">;
};

/** Blocks: a smaller range is not divided again. */
const SMALLEST_RANGE = 500;

/** Endpoints limit the range, or the number of logs: by an error, or by a status. */
function isRefusal(error: unknown): boolean {
  const { cause } = error as { readonly cause?: unknown };
  return cause instanceof RpcAnswerError || (isTurnpikeError(cause) && /^http_4/.test(cause.reason ?? ""));
}

/** How fetch reports a kept connection that its server has closed. */
const CLOSED: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

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

export function createChainReader(url: string, chainId: number, effects: ReaderEffects): ChainReader {
  const { facilitatorTimeoutMs: timeoutMs } = effects.limits;
  const post = postByFetch(effects.fetch);
  const endpoint = new RpcEndpoint({ url, post, timeoutMs, signal: effects.closing });
  let isChecked = false;

  /** Reads change nothing, so one on a connection that the server has just closed is sent again. */
  async function request(method: string, params: readonly unknown[]): Promise<unknown> {
    try {
      return await endpoint.request(method, params);
    } catch (error) {
      if (!CLOSED.has(networkFault(error) ?? "")) throw error;
      return endpoint.request(method, params);
    }
  }

  async function send(method: string, params: readonly unknown[]): Promise<unknown> {
    let cause: unknown;
    try {
      const result = await request(method, params);
      if (result !== undefined && result !== null) return result;
    } catch (error) {
      const isAnswer = error instanceof RpcAnswerError || isTurnpikeError(error);
      const isLate = faultOf(error) === "timeout";
      const what = isLate ? `did not answer within ${timeoutMs} ms` : "cannot be reached";
      if (isLate || !isAnswer) throw new Unavailable(`The agent's RPC ${what}.`, { cause: error });
      cause = error;
    }
    throw new Unavailable(`The agent's RPC did not answer ${method}.`, { cause });
  }

  async function checked(method: string, params: readonly unknown[]): Promise<unknown> {
    if (!isChecked) {
      const reported = Number(await send("eth_chainId", []));
      if (reported !== chainId) throw new Unavailable(`The agent's RPC is of chain ${reported}, not ${chainId}.`);
      isChecked = true;
    }
    return send(method, params);
  }

  const call = (to: Address, selector: Uint8Array, ...words: Uint8Array[]): Promise<Uint8Array> =>
    callAt("latest", to, selector, ...words);
  async function callAt(block: string, to: Address, selector: Uint8Array, ...words: Uint8Array[]): Promise<Uint8Array> {
    const result = await checked("eth_call", [{ to, data: toHex(concatBytes(selector, ...words)) }, block]);
    if (typeof result !== "string" || !/^0x(?:[0-9a-fA-F]{64})+$/.test(result)) {
      throw new Unavailable("The agent's RPC gave no usable answer to a call.");
    }
    return hexToBytes(result as Hex);
  }
  const state = (turnpike: Address, idHash: Hex): Promise<Uint8Array> =>
    call(lensAddressOf(turnpike), SELECTORS.getStates, wordOfUint(32n), wordOfUint(1n), hexToBytes(idHash));
  const wordAt = (bytes: Uint8Array, index: number): bigint => {
    const word = bytes.slice(index * 32, index * 32 + 32);
    if (word.length < 32) throw new Unavailable("The agent's RPC gave no usable answer to a call.");
    return BigInt(toHex(word));
  };

  async function head(): Promise<{ readonly number: unknown; readonly timeSec: number }> {
    const block = (await checked("eth_getBlockByNumber", ["latest", false])) as Record<"number" | "timestamp", unknown>;
    const timeSec = Number(block.timestamp);
    if (!Number.isSafeInteger(timeSec)) throw new Unavailable("The agent's RPC gave a block without a time.");
    return { number: block.number, timeSec };
  }

  async function logs(filter: LogFilter): Promise<ChainLog[]> {
    const { fromBlock, toBlock, ...which } = filter;
    if (fromBlock > toBlock) return [];
    const hex = (number: number) => `0x${number.toString(16)}`;
    try {
      const found = await checked("eth_getLogs", [{ ...which, fromBlock: hex(fromBlock), toBlock: hex(toBlock) }]);
      return logsOf(found).sort((a, b) => a.block - b.block || a.index - b.index);
    } catch (error) {
      if (toBlock - fromBlock < SMALLEST_RANGE || !isRefusal(error)) throw error;
      const middle = Math.floor((fromBlock + toBlock) / 2);
      const first = await logs({ ...filter, toBlock: middle });
      return [...first, ...(await logs({ ...filter, fromBlock: middle + 1 }))];
    }
  }

  return {
    logs,
    async blockNumber() {
      const number = Number((await head()).number);
      if (Number.isSafeInteger(number)) return number;
      throw new Unavailable("The agent's RPC gave a block without a number.");
    },
    timeSec: async () => (await head()).timeSec,
    balance: async (token, owner) => wordAt(await call(token, SELECTORS.balanceOf, wordOfAddress(owner)), 0),
    approval: async (token, owner, spender) =>
      wordAt(await call(token, SELECTORS.allowance, wordOfAddress(owner), wordOfAddress(spender)), 0),
    permitNonce: async (token, owner) => wordAt(await call(token, SELECTORS.nonces, wordOfAddress(owner)), 0),
    isNonceUsed: async (token, payer, nonce) =>
      wordAt(await call(token, SELECTORS.authorizationState, wordOfAddress(payer), hexToBytes(nonce)), 0) !== 0n,
    async nonceAtHead({ token, payer, nonce, isPermit2 }) {
      const { number, timeSec } = await head();
      if (typeof number !== "string" || !/^0x[0-9a-fA-F]{1,16}$/.test(number)) {
        throw new Unavailable("The agent's RPC gave a block without a number.");
      }
      // Two reads of "latest" may come from different blocks: a transfer between them would be missed.
      if (isPermit2) {
        // Permit2 keeps 256 nonces in one word: the last byte is the bit's place in it.
        const place = [wordOfAddress(payer), wordOfUint(BigInt(nonce) >> 8n)];
        const bitmap = wordAt(await callAt(number, PERMIT2, SELECTORS.nonceBitmap, ...place), 0);
        return { timeSec, isUsed: ((bitmap >> (BigInt(nonce) & 255n)) & 1n) === 1n };
      }
      const words = [wordOfAddress(payer), hexToBytes(nonce)];
      const state = await callAt(number, token, SELECTORS.authorizationState, ...words);
      return { timeSec, isUsed: wordAt(state, 0) !== 0n };
    },
    hasTransferred: async (transaction, transfer) =>
      isInReceipt(await checked("eth_getTransactionReceipt", [transaction]), transfer),
    async uptoCharge(hash, payment) {
      const [transaction, receipt] = await Promise.all([
        checked("eth_getTransactionByHash", [hash]),
        checked("eth_getTransactionReceipt", [hash]),
      ]);
      return uptoChargeIn(transaction, receipt, payment);
    },
    domainSeparator: async (token) => toHex((await call(token, SELECTORS.domainSeparator)).slice(0, 32)),
    version: async (turnpike, idHash) => Number(wordAt(await state(turnpike, idHash), STATE_WORDS.version)),
    isSubscribed: async (turnpike, idHash) => wordAt(await state(turnpike, idHash), STATE_WORDS.subscriber) !== 0n,
    async subscription(turnpike, idHash) {
      const bytes = await state(turnpike, idHash);
      const field = (name: keyof typeof STATE_WORDS) => wordAt(bytes, STATE_WORDS[name]);
      const hashAt = (name: "planId" | "nextPlanId") =>
        toHex(bytes.slice(STATE_WORDS[name] * 32, STATE_WORDS[name] * 32 + 32));
      if (field("subscriber") === 0n) return undefined;
      const status = STATUSES[Number(field("status"))];
      if (!status) throw new Unavailable("The agent's RPC returned an unknown subscription status.");
      const [cap, spent, remaining] = [field("cap"), field("spent"), field("remaining")];
      const until = Number(field("until"));
      return {
        planId: hashAt("planId"),
        ...(until > 0 && { until }),
        ...(field("nextPlanId") !== 0n && { nextPlanId: hashAt("nextPlanId") }),
        status,
        paidThrough: Number(field("paidThrough")),
        version: Number(field("version")),
        ending: field("ending") !== 0n,
        allowance: { cap, spent, remaining, debits: Number(field("debits")) },
      };
    },
    async plan(turnpike, planId) {
      const bytes = await call(lensAddressOf(turnpike), SELECTORS.getPlan, hexToBytes(planId));
      const field = (name: keyof typeof PLAN_WORDS) => wordAt(bytes, PLAN_WORDS[name]);
      const addressAt = (name: keyof typeof PLAN_WORDS) => checksum(`0x${field(name).toString(16).padStart(40, "0")}`);
      if (field("planId") === 0n) return undefined;
      return {
        provider: addressAt("provider"),
        token: addressAt("token"),
        payTo: addressAt("payTo"),
        proposedPayTo:
          field("proposedPayTo") === 0n
            ? undefined
            : { payTo: addressAt("proposedPayTo"), effectiveAtSec: Number(field("effectiveAt")) },
      };
    },
  };
}
