/**
 * Decides what a mined transaction proves about one payment, from the transaction and its receipt as JSON-RPC returns
 * them. Asks nothing itself. Without a chain library: agents in browsers judge so too.
 */
import {
  type Address,
  type Hex,
  keccakText,
  sameAddress,
  toHex,
  UPTO_PERMIT2_PROXY,
  wordOfAddress,
  wordOfUint,
} from "../protocol";

/** A transfer and the nonce of its authorization; `amount` in base units. */
export interface AuthorizedTransfer {
  readonly token: Address;
  readonly from: Address;
  readonly to: Address;
  readonly amount: bigint;
  readonly nonce: Hex;
}

/** An `upto` payment as it was signed; `max` in base units. */
export interface UptoPayment {
  readonly token: Address;
  readonly payer: Address;
  readonly payTo: Address;
  readonly max: bigint;
  readonly nonce: Hex;
}

const USED_TOPIC = keccakText("AuthorizationUsed(address,bytes32)");

const TRANSFER_TOPIC = keccakText("Transfer(address,address,uint256)");

/** Returns whether a successful receipt has the token's Transfer right after the AuthorizationUsed of this nonce. */
export function isInReceipt(receipt: unknown, transfer: AuthorizedTransfer): boolean {
  const { token, from, nonce } = transfer;
  const used = [USED_TOPIC, toHex(wordOfAddress(from)), nonce.toLowerCase()];
  const logs = logsOf(receipt);
  return logs.some((log, index) => isLog(log, token, used) && isTransfer(logs[index + 1], transfer));
}

const UPTO_TERMS = "((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes";

/** Where the terms begin in the proxy's calldata, in words after the selector, by selector. */
const TERMS_AT: Readonly<Record<string, number>> = {
  [keccakText(`settle(${UPTO_TERMS})`).slice(0, 10)]: 0,
  // After the five words of the permit that approves Permit2.
  [keccakText(`settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),${UPTO_TERMS})`).slice(0, 10)]: 5,
};

/** Positions among the terms: token, max, nonce, deadline, amount, owner. */
const TERM = { token: 0, nonce: 2, amount: 4, owner: 5 };

/**
 * Returns what a transaction charged of this payment: a successful direct call of the proxy with the payment's own nonce,
 * and the token's transfer of the same amount. A call through another contract names no nonce, and proves nothing.
 */
export function uptoChargeIn(transaction: unknown, receipt: unknown, payment: UptoPayment): bigint | undefined {
  const { to, input } = (transaction ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof to !== "string" || !sameAddress(to, UPTO_PERMIT2_PROXY)) return undefined;
  if (typeof input !== "string" || !/^0x[0-9a-fA-F]+$/.test(input)) return undefined;
  const start = TERMS_AT[input.slice(0, 10).toLowerCase()];
  if (start === undefined || input.length < 10 + (start + TERM.owner + 1) * 64) return undefined;
  const word = (index: number) =>
    `0x${input.slice(10 + (start + index) * 64, 74 + (start + index) * 64)}`.toLowerCase();
  const isOfPayment =
    word(TERM.nonce) === payment.nonce.toLowerCase() &&
    word(TERM.owner) === toHex(wordOfAddress(payment.payer)) &&
    word(TERM.token) === toHex(wordOfAddress(payment.token));
  if (!isOfPayment) return undefined;
  const amount = BigInt(word(TERM.amount));
  const { token, payer: from, payTo } = payment;
  const isMoved = logsOf(receipt).some((log) => isTransfer(log, { token, from, to: payTo, amount }));
  return isMoved && amount <= payment.max ? amount : undefined;
}

/** Returns the logs of a successful receipt; none of any other. */
function logsOf(receipt: unknown): readonly unknown[] {
  const { status, logs } = (receipt ?? {}) as Readonly<Record<string, unknown>>;
  return status === "0x1" && Array.isArray(logs) ? logs : [];
}

/** Returns whether a log is the token's transfer of a payment. */
export function isTransfer(log: unknown, { token, from, to, amount }: Omit<AuthorizedTransfer, "nonce">): boolean {
  const topics = [TRANSFER_TOPIC, toHex(wordOfAddress(from)), toHex(wordOfAddress(to))];
  return isLog(log, token, topics, toHex(wordOfUint(amount)));
}

function isLog(log: unknown, token: Address, topics: readonly string[], data?: string): boolean {
  const { address, topics: theirs, data: theirData } = (log ?? {}) as Readonly<Record<string, unknown>>;
  const isOfToken = typeof address === "string" && sameAddress(address, token);
  const isSame = Array.isArray(theirs) && theirs.join(",").toLowerCase() === topics.join(",");
  return isOfToken && isSame && (data === undefined || theirData === data);
}
