/** What a client of the toy dialect signs and sends. */
import { fromBase64Url, type Hex, toBase64Url, utf8ToBytes } from "turnpike/protocol";
import type { Answer } from "../../../../support/gate";
import { exactPayload, type SignedOn } from "../../support/standard";

export interface ToyQuote {
  readonly network: string;
  readonly token: Hex;
  readonly payTo: Hex;
  readonly amount: string;
  readonly memo: string;
}

const decoded = <T>(header: unknown): T => JSON.parse(new TextDecoder().decode(fromBase64Url(String(header)))) as T;

export function toyQuotes({ headers, text }: Answer): readonly ToyQuote[] {
  if (headers["toy-quote"] === undefined) throw new TypeError(`no Toy-Quote: ${text}`);
  return decoded(headers["toy-quote"]);
}

export const toyReceipt = ({ headers }: Answer): { paymentId: Hex; transaction: Hex; amount: string } | undefined =>
  headers["toy-receipt"] === undefined ? undefined : decoded(headers["toy-receipt"]);

export const toyHeaders = (presented: object) => ({
  "Toy-Payment": toBase64Url(utf8ToBytes(JSON.stringify(presented))),
});

/** Signs one entry of what the 402 asks for. @param signed what is signed instead */
export async function toyPresented(
  quoted: Answer,
  { entry = 0, ...signed }: { readonly entry?: number; readonly to?: Hex; readonly value?: bigint } = {},
  on: SignedOn = {},
) {
  const quote = toyQuotes(quoted)[entry];
  if (!quote) throw new TypeError(`the 402 does not sell that: ${quoted.text}`);
  const { payTo: to, amount, memo } = quote;
  return { ...(await exactPayload({ to, value: BigInt(amount), ...signed }, on)), memo };
}

export const toyPaid = async (quoted: Answer, on: SignedOn = {}) => toyHeaders(await toyPresented(quoted, {}, on));
