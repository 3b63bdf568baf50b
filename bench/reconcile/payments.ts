/** A chain of payments that is computed from their numbers: by the database's rows and by the node, without a common file. */
import { createHash } from "node:crypto";
import { type Address, addressOfKey, type Hex, keccakText, paymentIdOf } from "turnpike/protocol";

export const CHAIN_ID = 31_337;
export const TOKEN: Address = addressOfKey(keccakText("token of the bench"));
export const TURNPIKE: Address = addressOfKey(keccakText("contract of the bench"));
export const AMOUNT = 250_000n;
/** A block every two seconds for a day of a million payments. */
export const PAYMENTS_IN_A_BLOCK = 23;
export const BLOCK_SEC = 2;
export const START_SEC = 1_750_000_000;

const PAYERS = 5_000;
const PAYEES = 50;

const accounts = (name: string, count: number): readonly Address[] =>
  Array.from({ length: count }, (_, index) => addressOfKey(keccakText(`${name} ${index}`)));

const payers = accounts("payer", PAYERS);
const payees = accounts("payee", PAYEES);

const hash = (text: string): Hex => `0x${createHash("sha256").update(text).digest("hex")}`;

export const blockHash = (block: number): Hex => hash(`block ${block}`);

/** One batch in each block. */
export const transactionOf = (block: number): Hex => hash(`transaction ${block}`);

export interface BenchPayment {
  readonly payer: Address;
  readonly payTo: Address;
  readonly nonce: Hex;
  /** of the token's transfer; the one before is of the used authorization */
  readonly logIndex: number;
}

/** @param index from 0, within the block */
export function paymentOf(block: number, index: number): BenchPayment {
  const number = block * PAYMENTS_IN_A_BLOCK + index;
  return {
    payer: payers[number % PAYERS] as Address,
    payTo: payees[number % PAYEES] as Address,
    nonce: hash(`nonce ${number}`),
    logIndex: 2 * index + 1,
  };
}

export const idOf = ({ payer, nonce }: BenchPayment): Hex =>
  paymentIdOf({ chainId: CHAIN_ID, token: TOKEN, payer, nonce });
