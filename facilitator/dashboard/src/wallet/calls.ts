/** Encodes calls of contracts as wallets send them. test/facilitator/http/wallet-calls.ts compares each with the ABI. */

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

const encode = (selector: string, ...values: readonly (string | bigint | number | boolean)[]): string =>
  `${selector}${values.map(word).join("")}`;

/** ERC-20's `approve(spender, 0)`: withdraws an approval. */
export const withdrawApproval = (token: string, spender: string): Call => ({
  to: token,
  data: encode("0x095ea7b3", spender, 0),
});

/** ERC-20's `allowance(owner, spender)`. */
export const readApproval = (token: string, owner: string, spender: string): Call => ({
  to: token,
  data: encode("0xdd62ed3e", owner, spender),
});
