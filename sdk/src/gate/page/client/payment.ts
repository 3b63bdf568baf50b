/** Reads the current price of this page, and signs one payment of it. Sends no payment. */
import type { AcceptEntryWire } from "../../../protocol/schemas";
import { labelOf, type PageOption, type PageTerms } from "../terms";
import { pageUrl } from "./present";
import type { StoredPayment } from "./storage";
import { Problem, signTypedData, type Wallet } from "./wallet";

/** A quote that was read longer ago is read again before it is signed. */
const FRESH_MS = 60_000;

/** Seconds after its end, for clocks and blocks that differ, until a payment counts as ended. */
const END_SLACK_SEC = 60;

/** The entries of one quote, and when this browser received them. */
export interface PageQuote {
  readonly options: readonly PageOption[];
  readonly receivedMs: number;
}

/** Returns the quote itself while it is fresh, otherwise the current one. @throws Problem */
export async function freshQuote(quote: PageQuote): Promise<PageQuote> {
  const ageMs = Date.now() - quote.receivedMs;
  if (ageMs >= 0 && ageMs < FRESH_MS) return quote;
  const outage = new Problem("The price could not be read. Nothing was charged: try again.");
  const response = await fetch(pageUrl(), { headers: { Accept: "application/json" }, cache: "no-store" }).catch(() => {
    throw outage;
  });
  if (response.ok) location.reload();
  const body = (await response.json().catch(() => undefined)) as { accepts?: readonly AcceptEntryWire[] } | undefined;
  if (response.status !== 402 || !Array.isArray(body?.accepts)) throw outage;
  const options = quote.options.flatMap((option) => {
    const entry = body.accepts?.find((each) => isSameOption(each, option.entry));
    return entry ? [{ ...option, entry }] : [];
  });
  if (options.length === 0) throw new Problem("This price is no longer offered. Nothing was charged: reload the page.");
  return { options, receivedMs: Date.now() };
}

export const isSameOption = (a: AcceptEntryWire, b: AcceptEntryWire): boolean =>
  a.scheme === b.scheme && a.network === b.network && a.asset === b.asset && a.payTo === b.payTo;

const struct = (declaration: string) =>
  declaration.split(",").map((field) => {
    const [type, name] = field.split(" ");
    return { type, name };
  });

const types = {
  EIP712Domain: struct("string name,string version,uint256 chainId,address verifyingContract"),
  // EIP-3009
  TransferWithAuthorization: struct(
    "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce",
  ),
};

export interface Purchase {
  readonly wallet: Wallet;
  readonly account: string;
  readonly option: PageOption;
  readonly terms: PageTerms;
  /** when the option's quote was received */
  readonly receivedMs: number;
}

/** Has the wallet sign one transfer of exactly the quoted amount. @throws Problem */
export async function signPayment({ wallet, account, option, terms, receivedMs }: Purchase): Promise<StoredPayment> {
  const { chainId, entry } = option;
  const { memo = "", maxTimeoutSeconds = 60, asset = "", payTo, maxAmountRequired: amount = "0", extra } = entry;
  const expirySec = Number(memo.split(".")[2]);
  // The gate's clock, which is the chain's: this browser's may be wrong.
  const nowSec = expirySec - terms.quoteLifeSec + Math.floor((Date.now() - receivedMs) / 1_000);
  const validBeforeSec = Math.min(nowSec + maxTimeoutSeconds, expirySec);
  if (!Number.isSafeInteger(validBeforeSec)) throw new Problem("This price cannot be paid here. Reload the page.");
  const authorization = {
    from: account,
    to: payTo,
    value: amount,
    validAfter: "0",
    validBefore: String(validBeforeSec),
    nonce: randomHex(32),
  };
  const endsAtMs = Date.now() + (validBeforeSec - nowSec + END_SLACK_SEC) * 1_000;
  const signature = await signTypedData(wallet, account, {
    types,
    primaryType: "TransferWithAuthorization",
    domain: { name: extra?.name, version: extra?.version, chainId, verifyingContract: asset },
    message: authorization,
  });
  const header = base64Of({
    x402Version: 2,
    accepted: {
      scheme: "exact",
      network: `eip155:${chainId}`,
      amount,
      asset,
      payTo,
      maxTimeoutSeconds,
      extra: { ...extra, memo },
    },
    payload: { signature, authorization },
    // With it the gate sends the same answer again to this tab, and to nobody else.
    extensions: { "payment-identifier": { info: { required: false, id: randomHex(16).slice(2) } } },
  });
  return { header, nonce: authorization.nonce, label: labelOf(option), endsAtMs };
}

function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return `0x${Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Token names are not always ASCII. */
const base64Of = (value: object): string =>
  btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(value))));
