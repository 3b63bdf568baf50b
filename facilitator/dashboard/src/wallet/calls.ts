/** Encodes calls of contracts as wallets send them. test/agreement/wallet-calls.ts compares each with the ABI. */

/**
 * Permit2, at the same address on every chain: x402 payments may be made over it. Imported, it would bring a curve library
 * into the page; test/agreement compares the two.
 */
export const PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";

/** A call to sign as a transaction: here, or in a multisignature wallet. */
export interface Call {
  readonly to: string;
  readonly data: string;
}

/** Encodes one word: an address, a hash, or a whole number. */
const word = (value: string | bigint | number | boolean): string =>
  typeof value === "string" && value.length === 66
    ? value.slice(2).toLowerCase()
    : BigInt(value).toString(16).padStart(64, "0");

type Value = Parameters<typeof word>[0];

export const encode = (selector: string, ...values: readonly Value[]): string =>
  `${selector}${values.map(word).join("")}`;

/** ERC-20's `approve(spender, 0)`: withdraws an approval. */
export const withdrawApproval = (token: string, spender: string): Call => ({
  to: token,
  data: encode("0x095ea7b3", spender, 0),
});

/** A plan's terms as they are written on the chain. */
export interface NewTerms {
  readonly token: string;
  /** base units */
  readonly amount: string;
  /** of months, or of seconds */
  readonly interval: number;
  readonly months: boolean;
  readonly graceSec: number;
  readonly payTo: string;
}

const NO_ID = `0x${"0".repeat(64)}`;

/** Encodes bytes after their length, padded to whole words. */
export function encodeBytes(bytes: Uint8Array): string {
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return word(bytes.length) + hex.padEnd(Math.ceil(hex.length / 64) * 64, "0");
}

/** Calls of Turnpike by a provider's wallet. @param turnpike the contract */
export const providerCalls = (turnpike: string) => {
  const call = (selector: string, ...values: readonly Value[]): Call => ({
    to: turnpike,
    data: encode(selector, ...values),
  });
  return {
    createPlan({ token, amount, interval, months, graceSec, payTo }: NewTerms, salt: string, metadata: string): Call {
      const terms = [token, BigInt(amount), interval, months, graceSec, payTo] as const;
      // The text follows the eight words before it.
      const { data } = call("0xa451a431", ...terms, salt, 8 * 32);
      return { to: turnpike, data: data + encodeBytes(new TextEncoder().encode(metadata)) };
    },
    deprecatePlan: (planId: string, successor = NO_ID) => call("0x4f57840f", planId, successor),
    stopPlan: (planId: string) => call("0x4827ad83", planId),
    setOperator: (planId: string, account: string, rights: number) => call("0xf2ff578d", planId, account, rights),
    proposePayTo: (planId: string, payTo: string) => call("0x7bac7ec1", planId, payTo),
    withdrawPayTo: (planId: string) => call("0x40679e50", planId),
    applyPayTo: (planId: string) => call("0x0ddef8a2", planId),
    /** The provider's own call has no signature: version, deadline and bytes are zero. */
    cancelAtPeriodEnd: (idHash: string) => call("0x9a37bf95", idHash, true, 3 * 32, 0, 0, 3 * 32, 0),
  };
};
