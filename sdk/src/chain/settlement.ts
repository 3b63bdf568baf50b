/**
 * Finds the evidence of a one-time payment on chain: the token's `Transfer` right after the matching
 * `AuthorizationUsed`.
 */
import { type Address, type Hex, Unavailable } from "../protocol";
import { fieldsOf } from "../protocol/arguments";
import type { RawLog } from "./events";
import { isInReceipt } from "./evidence";
import { requireRpc } from "./require-rpc";
import type { Rpc } from "./rpc";

/** The transfer that a payment claims to have been. */
export interface ExpectedSettlement {
  readonly token: Address;
  readonly payer: Address;
  readonly payTo: Address;
  /** base units */
  readonly amount: bigint;
  readonly nonce: Hex;
  readonly transaction: Hex;
  /** blocks, the transaction's own included; default 1 */
  readonly confirmations?: number;
  /** unix seconds: a payment in a block of this time or later does not count */
  readonly before?: number | undefined;
}

/** The part of a receipt that shows a payment. */
export interface Receipt {
  readonly status?: string;
  readonly blockNumber?: string;
  readonly blockHash?: string;
  readonly logs?: readonly RawLog[];
}

/**
 * @returns "absent" when the transaction is not there (yet, or any more) or paid something else; "late" when its block
 * is not before the time asked for; "shallow" when it is there, but not deep enough yet. @throws Unavailable
 */
export async function findSettlement(
  rpc: Rpc,
  expected: ExpectedSettlement,
): Promise<"settled" | "shallow" | "late" | "absent"> {
  requireRpc(rpc);
  fieldsOf(expected, "expected");
  const receipt = await rpc.send<Receipt | null>("eth_getTransactionReceipt", [expected.transaction]);
  const { token, payer: from, payTo: to, amount, nonce } = expected;
  if (!isInReceipt(receipt, { token, from, to, amount, nonce })) return "absent";
  if (expected.before !== undefined && (await timeOf(rpc, receipt)) >= expected.before) return "late";
  return depthOf(rpc, receipt, expected.confirmations);
}

/** Returns whether a transaction's block is deep enough. @param confirmations default 1. @throws Unavailable */
export async function depthOf(rpc: Rpc, receipt: Receipt | null, confirmations = 1): Promise<"settled" | "shallow"> {
  if (confirmations <= 1) return "settled";
  const head = Number(await rpc.send<string>("eth_blockNumber", []));
  return head - Number(receipt?.blockNumber) + 1 >= confirmations ? "settled" : "shallow";
}

async function timeOf(rpc: Rpc, receipt: Receipt | null): Promise<number> {
  const block = await rpc.send<{ timestamp?: string; hash?: string } | null>("eth_getBlockByNumber", [
    receipt?.blockNumber,
    false,
  ]);
  const time = Number(block?.timestamp);
  // Reorganised in between, or a node that contradicts itself: asked again, it may know.
  if (block?.hash !== receipt?.blockHash || !Number.isSafeInteger(time))
    throw new Unavailable("The block of the payment could not be read.", { retryAfterSec: 2 });
  return time;
}
