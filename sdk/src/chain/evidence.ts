/**
 * Decides what a mined transaction proves about one payment, from the transaction and its receipt as JSON-RPC returns
 * them. Asks nothing itself. Without a chain library: agents in browsers judge so too.
 */
import { type Address, type Hex, keccakText, sameAddress, toHex, wordOfAddress, wordOfUint } from "../protocol";

/** A transfer and the nonce of its authorization; `amount` in base units. */
export interface AuthorizedTransfer {
  readonly token: Address;
  readonly from: Address;
  readonly to: Address;
  readonly amount: bigint;
  readonly nonce: Hex;
}

/** A settlement as the calldata of a proxy's call names it. */
export interface ProxyCall {
  readonly token: Address;
  readonly payer: Address;
  readonly payTo: Address;
  /** base units that the call moves */
  readonly amount: bigint;
  readonly nonce: Hex;
}

/** What a transaction calls. */
export interface CalledContract {
  readonly to: Address;
  readonly data: Hex;
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

/** Returns what a transaction calls, as JSON-RPC returns it; undefined where it calls nothing. */
export function calledIn(transaction: unknown): CalledContract | undefined {
  const { to, input } = (transaction ?? {}) as Readonly<Record<string, unknown>>;
  return typeof to === "string" && typeof input === "string" ? { to: to as Hex, data: input as Hex } : undefined;
}

/**
 * Returns what a transaction moved of a payment: a direct call of a proxy with the payment's own nonce, which succeeded,
 * and the token's transfer of the same amount. A call through another contract names no nonce, and proves nothing.
 */
export function movedBy(
  call: ProxyCall | undefined,
  receipt: unknown,
  { token, payer, payTo, nonce }: Omit<ProxyCall, "amount">,
): bigint | undefined {
  const isNamed =
    call !== undefined &&
    sameAddress(call.token, token) &&
    sameAddress(call.payer, payer) &&
    sameAddress(call.payTo, payTo) &&
    call.nonce === nonce.toLowerCase();
  if (!isNamed) return undefined;
  const { amount } = call;
  return logsOf(receipt).some((log) => isTransfer(log, { token, from: payer, to: payTo, amount })) ? amount : undefined;
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
