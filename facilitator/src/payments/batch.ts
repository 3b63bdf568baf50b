/** Plans which queued payments go into the next transaction, and its gas limit. Pure. */
import type { Address, Hex } from "turnpike/protocol";
import { intrinsicGas } from "../chain/gas";
import type { PaymentRow } from "../db/tables/payments";
import { type SignedTransfer, settleCalldata, transferCalldata } from "./calldata";
import { proxyCallOf, transferOfRow } from "./transfer";

export interface BatchLimits {
  readonly batchItems: number;
  readonly batchGas: number;
  readonly batchBytes: number;
  readonly gasPerItem: number;
}

export const QUEUED_COLUMNS = [
  "payment_id",
  "token",
  "payer",
  "pay_to",
  "amount",
  "nonce",
  "valid_after",
  "valid_before",
  "signature",
  "has_code",
  "attempts",
  "method",
  "permitted",
  "sender",
  "token_permit",
] as const satisfies readonly (keyof PaymentRow)[];

export type QueuedPayment = Pick<PaymentRow, (typeof QUEUED_COLUMNS)[number]>;

export interface PlannedTransaction {
  readonly to: Address;
  readonly data: Hex;
  readonly gasLimit: bigint;
  readonly paymentIds: readonly string[];
  /** the only key that may send it; absent: any */
  readonly sender?: Address;
}

/** Gas for a contract wallet's signature check, added to an ordinary item. */
export const WALLET_EXTRA_GAS = 300_000;

const WALLET_BATCH = 10;

/** Gas that the settler uses around each token call, including calldata and the share that the 63/64 rule withholds. */
const ITEM_OVERHEAD_GAS = 12_000;

const TRANSACTION_OVERHEAD_GAS = 30_000;

/** gas of a non-zero calldata byte, by the more expensive rule */
const DEAREST_BYTE_GAS = 40;

/** calldata words of one item without its signature: offset, eight tuple fields, length */
const ITEM_WORDS = 10;

/**
 * Plans one transaction from the head of the queue. A single payment calls its token directly. A payment that did not
 * move before is sent alone, so that it cannot spoil others, and so is each payment over Permit2: the proxies have no
 * batch call. Contract wallets share separate, smaller batches.
 */
export function planTransaction(
  queue: readonly QueuedPayment[],
  batchSettler: Address,
  limits: BatchLimits,
): PlannedTransaction | undefined {
  const first = queue[0];
  if (!first) return undefined;
  if (isAlone(first)) return single(first, limits);
  const gasPerItem = limits.gasPerItem + (first.has_code ? WALLET_EXTRA_GAS : 0);
  const maxItems = first.has_code ? Math.min(WALLET_BATCH, limits.batchItems) : limits.batchItems;
  const taken: QueuedPayment[] = [];
  let bytes = 0;
  let gas = baseGas(gasPerItem);
  for (const row of queue) {
    if (isAlone(row) || row.has_code !== first.has_code) continue;
    const itemBytes = bytesOf(row.signature.length / 2 - 1);
    const itemGas = gasOf(gasPerItem, itemBytes);
    if (taken.length >= maxItems || bytes + itemBytes > limits.batchBytes || gas + itemGas > limits.batchGas) break;
    taken.push(row);
    bytes += itemBytes;
    gas += itemGas;
  }
  if (taken.length <= 1) return single(first, limits);
  const data = settleCalldata(taken.map(transferOf), gasPerItem);
  const items = BigInt(taken.length * (gasPerItem + ITEM_OVERHEAD_GAS) + gasPerItem + TRANSACTION_OVERHEAD_GAS);
  return {
    to: batchSettler,
    data,
    gasLimit: intrinsicGas(data) + items,
    paymentIds: taken.map((row) => row.payment_id),
  };
}

/**
 * Plans one transaction, and more only while the rest fills one; a partial rest waits for more payments. Payments over
 * Permit2 never wait.
 * @returns the plans, and the rest of the queue
 */
export function planTransactions<T extends QueuedPayment>(
  queue: readonly T[],
  batchSettler: Address,
  limits: BatchLimits,
  atMost: number,
): { readonly plans: readonly PlannedTransaction[]; readonly rest: readonly T[] } {
  const plans: PlannedTransaction[] = [];
  let rest = queue;
  while (plans.length < atMost) {
    const isFull = plans.length === 0 || rest.length >= itemsPerBatch(limits);
    const plan = planTransaction(isFull ? rest : rest.filter(isUnbatched), batchSettler, limits);
    if (!plan) break;
    plans.push(plan);
    const taken = new Set(plan.paymentIds);
    rest = rest.filter((row) => !taken.has(row.payment_id));
  }
  return { plans, rest };
}

/** Nothing is gained by waiting for others: the payment never shares a transaction. */
const isUnbatched = ({ method }: QueuedPayment): boolean => method !== "eip3009";

const isAlone = (row: QueuedPayment): boolean => row.attempts > 0 || isUnbatched(row);

/** @param id id of the transaction, also used in its idempotency key */
export const settleRequest = ({ to, data, gasLimit, sender }: PlannedTransaction, id: string) => ({
  id,
  purpose: "settle",
  idempotencyKey: `settle/${id}`,
  to,
  data,
  gasLimit,
  ...(sender && { sender }),
});

/** Returns how many ordinary payments fit into a transaction. */
export function itemsPerBatch({ batchItems, batchGas, batchBytes, gasPerItem }: BatchLimits): number {
  const itemBytes = bytesOf(65);
  const byGas = (batchGas - baseGas(gasPerItem)) / gasOf(gasPerItem, itemBytes);
  return Math.max(1, Math.floor(Math.min(batchItems, batchBytes / itemBytes, byGas)));
}

const baseGas = (gasPerItem: number): number => TRANSACTION_OVERHEAD_GAS + 21_000 + gasPerItem;

const bytesOf = (signatureBytes: number): number => ITEM_WORDS * 32 + Math.ceil(signatureBytes / 32) * 32;

const gasOf = (gasPerItem: number, itemBytes: number): number =>
  gasPerItem + ITEM_OVERHEAD_GAS + itemBytes * DEAREST_BYTE_GAS;

function single(row: QueuedPayment, limits: BatchLimits): PlannedTransaction {
  const { to, data, extraGas } = callOf(row);
  const gas = limits.gasPerItem + TRANSACTION_OVERHEAD_GAS + extraGas;
  const walletGas = row.has_code || row.attempts > 0 ? WALLET_EXTRA_GAS : 0;
  return {
    to,
    data,
    gasLimit: intrinsicGas(data) + BigInt(gas + walletGas),
    paymentIds: [row.payment_id],
    ...(row.sender !== null && { sender: row.sender as Address }),
  };
}

/** The call that moves one payment by itself. */
export function callOf(row: QueuedPayment): ReturnType<typeof proxyCallOf> {
  const transfer = transferOfRow(row);
  const { token, signature, ...authorization } = transferOf(row);
  if (transfer.method === "eip3009")
    return { to: token, data: transferCalldata({ token, signature, ...authorization }), extraGas: 0 };
  return proxyCallOf({ token, signature, authorization, transfer });
}

function transferOf(row: QueuedPayment): SignedTransfer {
  return {
    token: row.token as Address,
    from: row.payer as Address,
    to: row.pay_to as Address,
    value: BigInt(row.amount),
    validAfter: BigInt(row.valid_after),
    validBefore: BigInt(row.valid_before),
    nonce: row.nonce as Hex,
    signature: row.signature as Hex,
  };
}
