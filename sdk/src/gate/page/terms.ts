/** Defines what a payment page hands to its script: the options that a browser wallet can pay. */
import { decimalText } from "../../protocol/decimal-text";
import type { AcceptEntryWire } from "../../protocol/schemas";

/** One price in one token on one network. */
export interface PageOption {
  readonly chainId: number;
  /** as people read it: "Base" */
  readonly network: string;
  /** of the token: "USDC" */
  readonly symbol: string;
  readonly decimals: number;
  /** as in the JSON answer of the same request, its memo included */
  readonly entry: AcceptEntryWire;
}

export interface PageTerms {
  /** seconds for which a memo holds */
  readonly quoteLifeSec: number;
  /** at least one, the cheapest first */
  readonly options: readonly PageOption[];
}

/** Embeddings, overrides and isolates: they would turn the text beside them, such as the host in the title. */
const TURNING = /[\u202A-\u202E\u2066-\u2069]/gu;

/** Returns a text without the characters that turn what is beside it. */
export const withoutTurning = (text: string): string => text.replace(TURNING, "");

/** An option's price for people: "0.50 USDC". */
export const labelOf = ({ entry, decimals, symbol }: PageOption): string =>
  `${decimalText(BigInt(entry.maxAmountRequired ?? "0"), decimals)} ${symbol}`;
