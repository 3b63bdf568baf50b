/** Attaches to a response the receipt of its payment; the Response itself stays fetch's. */
import { type Address, findNetwork, type Hex, networkOfChain, type PaymentMethod } from "../../protocol";
import type { PaymentEntry } from "../ledger/ledger-store";
import type { JudgedOffer, JudgedReceipt } from "../ledger/signed-statements";

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

const receipts = new WeakMap<Response, PaymentReceipt>();

/** Returns the receipt of a response of `agent.pay` or `agent.fetch`; undefined when nothing was paid for it. */
export function receiptOf(response: Response): PaymentReceipt | undefined {
  return receipts.get(response);
}

export function withReceipt(response: Response, receipt: PaymentReceipt | undefined): PaidResponse {
  if (receipt) receipts.set(response, receipt);
  return Object.defineProperty(response, "receipt", { value: receipt, configurable: true }) as PaidResponse;
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
    method: entry.permit2?.method ?? "eip3009",
    charged: entry.charged === undefined ? undefined : BigInt(entry.charged),
    reported: entry.reported === undefined ? undefined : BigInt(entry.reported),
    resource: entry.resource,
    dialect: entry.dialect,
    transaction: entry.proof ? (entry.proof.transaction as Hex) : (entry.transaction as Hex | undefined),
    settledAtSec: entry.proof?.settledAt,
    facilitator: entry.facilitator,
    resumed,
    signedOffer: entry.signedOffer,
    signedReceipt: entry.signedReceipt,
  };
}
