/** Attaches to a response the receipt of its payment; the Response itself stays fetch's. */
import { type Address, findNetwork, type Hex, networkOfChain, type PaymentMethod } from "../../protocol";
import { originAndPath } from "../core/request";
import type { JudgedOffer, JudgedReceipt } from "../ledger/evidence";
import { movementOf, type PaymentEntry } from "../ledger/ledger-store";

/** What was paid for a response. */
export interface PaymentReceipt {
  readonly paymentId: Hex;
  readonly network: string;
  readonly chainId: number;
  readonly token: Address;
  readonly payer: Address;
  readonly payTo: Address;
  /** base units; with the method `upto` the most that may be charged */
  readonly amount: bigint;
  readonly method: PaymentMethod;
  /** of `upto`: what the agent's own RPC proves to have been charged; while undefined, `amount` counts */
  readonly charged: bigint | undefined;
  /** of `upto`: what the provider says it charged, unproven */
  readonly reported: bigint | undefined;
  readonly resource: string;
  readonly dialect: PaymentEntry["dialect"];
  /** of the transfer, where it is known */
  readonly transaction: Hex | undefined;
  /** block time, unix seconds */
  readonly settledAtSec: number | undefined;
  /** base URL of the Facilitator that settled it */
  readonly facilitator: string | undefined;
  /** whether an earlier call had signed this payment */
  readonly resumed: boolean;
  /** the terms as the provider has signed them; undefined where it signs none. Judge by `fault` and `trustedBy` */
  readonly signedOffer: JudgedOffer | undefined;
  /** the provider's receipt; undefined where it signs none. Judge by `fault` and `trustedBy` */
  readonly signedReceipt: JudgedReceipt | undefined;
}

/** `receipt` is undefined when nothing was paid for this response. */
export type PaidResponse = Response & { readonly receipt: PaymentReceipt | undefined };

const receipts = new WeakMap<object, PaymentReceipt>();

/**
 * Returns the receipt of a response of `agent.pay` or `agent.fetch`, or of the result of a tool call that was paid for;
 * undefined when nothing was paid for it.
 */
export function receiptOf(response: object): PaymentReceipt | undefined {
  return receipts.get(response);
}

/** Keeps the receipt of an answer, for `receiptOf`. */
export function recordReceipt(answer: object, receipt: PaymentReceipt): void {
  receipts.set(answer, receipt);
}

export function withReceipt(response: Response, receipt: PaymentReceipt | undefined): PaidResponse {
  if (receipt) recordReceipt(response, receipt);
  return Object.defineProperty(response, "receipt", { value: receipt, configurable: true }) as PaidResponse;
}

/** Returns a tool's resource without its server's query, which can hold a key. A request's URL is the caller's own. */
function shownResource({ method, resource }: PaymentEntry): string {
  const tool = method === "tools/call" && /^https?:/.test(resource) ? /#.*$/s.exec(resource)?.[0] : undefined;
  return tool === undefined ? resource : `${originAndPath(resource)}${tool}`;
}

export function receiptFor(entry: PaymentEntry, resumed: boolean): PaymentReceipt {
  return {
    paymentId: entry.id,
    network: (findNetwork(entry.network) ?? networkOfChain(entry.chainId)).name,
    chainId: entry.chainId,
    token: entry.token,
    payer: entry.payer,
    payTo: entry.payTo,
    amount: BigInt(entry.amount),
    method: movementOf(entry).method,
    charged: entry.charged === undefined ? undefined : BigInt(entry.charged),
    reported: entry.reported === undefined ? undefined : BigInt(entry.reported),
    resource: shownResource(entry),
    dialect: entry.dialect,
    transaction: entry.proof ? (entry.proof.transaction as Hex) : (entry.transaction as Hex | undefined),
    settledAtSec: entry.proof?.settledAt,
    facilitator: entry.facilitator,
    resumed,
    signedOffer: entry.signedOffer,
    signedReceipt: entry.signedReceipt,
  };
}
