/**
 * Makes one quote of those that one answer holds: a 402's body and its header, or two places of a tool's result. One server
 * wrote them, so where they differ a cache, a proxy or somebody who can write a header has changed one. Of two prices the
 * lower is paid: the server refuses it if it is none. Of two payees one would be paid for nothing.
 */
import { compareOptions, type ParsedQuote, type PaymentOption } from "./quote";

/** Returns both without the options that the other contradicts: the same token of the same network, for other payees. */
export function agreed(one: ParsedQuote, other: ParsedQuote): readonly [ParsedQuote, ParsedQuote] {
  return [confirmedBy(other, one), confirmedBy(one, other)];
}

/** Returns each offer of both once, in the first one's form where it has it. */
export function combined(one: ParsedQuote | undefined, other: ParsedQuote | undefined): ParsedQuote | undefined {
  if (!one || !other) return one ?? other;
  const [first, second] = agreed(one, other);
  const known = [...first.options, ...(first.forPlans ?? [])];
  const more = second.options.filter((option) => !known.some((each) => isSameOffer(each, option)));
  const refusals =
    first.refusals.length > 0 ? first.refusals : second.refusals.filter((each) => each === CONTRADICTORY);
  return { ...first, options: [...first.options, ...more].sort(compareOptions), refusals };
}

const CONTRADICTORY = "contradictory";

function confirmedBy(other: ParsedQuote, quote: ParsedQuote): ParsedQuote {
  const options = quote.options.filter((option) => {
    const rivals = other.options.filter((each) => isSameToken(each, option));
    return rivals.length === 0 || rivals.some((each) => isSamePayee(each, option));
  });
  if (options.length === quote.options.length) return quote;
  return { ...quote, options, refusals: [CONTRADICTORY, ...quote.refusals] };
}

const isSameToken = (a: PaymentOption, b: PaymentOption): boolean =>
  a.chainId === b.chainId && a.token.toLowerCase() === b.token.toLowerCase();

const isSamePayee = (a: PaymentOption, b: PaymentOption): boolean => a.payTo.toLowerCase() === b.payTo.toLowerCase();

const isSameOffer = (a: PaymentOption, b: PaymentOption): boolean =>
  a.amount === b.amount && a.method === b.method && isSameToken(a, b) && isSamePayee(a, b);
