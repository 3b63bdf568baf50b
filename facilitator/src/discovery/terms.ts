/**
 * Reads what a 402 of either version of x402 offers. Only prices that this Facilitator settles are kept, in its own
 * words for chain and token; text is bounded.
 */
import { LISTING_METHODS } from "turnpike/facilitator";
import {
  type Address,
  addressSchema,
  caip2Of,
  findNetwork,
  type JsonObject,
  type Network,
  parseAmount,
  parseStrictJson,
} from "turnpike/protocol";
import { z } from "zod";
import type { ListingPrice, ListingTerms } from "../db/tables/discovery";

/** `payees`: of every entry on this network, also of those that are not kept. */
export type TermsRead =
  | { readonly kind: "read"; readonly terms: ListingTerms; readonly payees: readonly Address[] }
  | { readonly kind: "refused"; readonly problem: "malformed" | "no_price" };

export interface OwnChain {
  readonly network: Network;
  readonly tokens: readonly { readonly address: Address; readonly name: string; readonly version: string }[];
}

/** Plans have entries that stock clients parse and do not pay. */
const SCHEMES = { 1: ["exact"], 2: ["exact", "upto", "subscription"] } as const;

const MAX_ENTRIES = 32;

const MAX_KEPT = 8;

const MAX_DEPTH = 24;

const MAX_DESCRIPTION = 512;

const MAX_EXTENSION = 8_192;

const YEAR_SEC = 31_536_000;

const entrySchema = z.object({
  scheme: z.string(),
  network: z.string().max(64),
  asset: addressSchema,
  payTo: addressSchema,
  maxTimeoutSeconds: z.number().int().min(1).max(YEAR_SEC),
  amount: z.string().optional(),
  maxAmountRequired: z.string().optional(),
  description: z.string().optional(),
  mimeType: z.string().optional(),
  extra: z
    .object({
      paymentFlow: z.enum(["authorization", "upfront", "escrow"]).optional().catch(undefined),
      assetTransferMethod: z.enum(["eip3009", "permit2"]).optional().catch(undefined),
      facilitatorAddress: addressSchema.optional().catch(undefined),
    })
    .optional()
    .catch(undefined),
});

type Entry = z.output<typeof entrySchema>;

/**
 * @param required the header PAYMENT-REQUIRED of version 2
 * @param body of version 1
 */
export function readTerms(
  { required, body }: { readonly required: string | undefined; readonly body: string },
  method: (typeof LISTING_METHODS)[number],
  own: OwnChain,
): TermsRead {
  const v2 = required === undefined ? undefined : parseStrictJson(textOfHeader(required), MAX_DEPTH);
  const v1 = parseStrictJson(body, MAX_DEPTH);
  const second = v2?.x402Version === 2 ? entriesOf(v2, 2, own) : [];
  const first = v1?.x402Version === 1 ? entriesOf(v1, 1, own) : [];
  if (v2?.x402Version !== 2 && v1?.x402Version !== 1) return { kind: "refused", problem: "malformed" };
  const prices = { ...pricesOf(first, 1, own), ...pricesOf(second, 2, own) };
  const payees = [...new Set([...first, ...second].map(({ payTo }) => payTo))];
  if (prices[1] === undefined && prices[2] === undefined) return { kind: "refused", problem: "no_price" };
  const about = (v2?.resource ?? first[0] ?? {}) as Readonly<Record<string, unknown>>;
  const bazaar = bazaarOf(v2, method);
  return {
    kind: "read",
    payees,
    terms: {
      prices,
      ...textField("description", about.description, MAX_DESCRIPTION),
      ...textField("mimeType", about.mimeType, 128),
      ...(isName(about.serviceName) && { serviceName: about.serviceName }),
      ...tagsOf(about.tags),
      ...(bazaar && { bazaar }),
    },
  };
}

/** Entries on this chain, whatever their token and scheme: somebody else's payee in any of them counts. */
function entriesOf({ accepts }: JsonObject, version: 1 | 2, { network }: OwnChain): Entry[] {
  if (!Array.isArray(accepts)) return [];
  return accepts.slice(0, MAX_ENTRIES).flatMap((given) => {
    const { success, data } = entrySchema.safeParse(given);
    if (!success) return [];
    const isOwn =
      version === 2
        ? data.network === caip2Of(network.chainId)
        : findNetwork(data.network, [network])?.chainId === network.chainId;
    return isOwn ? [data] : [];
  });
}

function pricesOf(entries: readonly Entry[], version: 1 | 2, { tokens }: OwnChain): ListingTerms["prices"] {
  const prices = entries.flatMap(({ scheme, asset, payTo, maxTimeoutSeconds, extra, ...amounts }): ListingPrice[] => {
    const amount = parseAmount(version === 2 ? amounts.amount : amounts.maxAmountRequired);
    const token = tokens.find(({ address }) => address === asset);
    if (amount === undefined || !token || !(SCHEMES[version] as readonly string[]).includes(scheme)) return [];
    const own = { name: token.name, version: token.version };
    const stated = Object.entries(extra ?? {}).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]));
    const all = { ...own, ...Object.fromEntries(stated) };
    return [{ scheme, amount: amount.toString(), asset, payTo, maxTimeoutSeconds, extra: all }];
  });
  return prices.length === 0 ? {} : { [version]: prices.slice(0, MAX_KEPT) };
}

/** @returns "" for text that is not canonical base64 of UTF-8, which is no JSON */
function textOfHeader(header: string): string {
  const bytes = Buffer.from(header, "base64");
  if (bytes.toString("base64").replace(/=+$/, "") !== header.replace(/=+$/, "")) return "";
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return "";
  }
}

/** Control and direction characters could make one text look like another. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/** @returns one line without unseen characters, whole code points, at most `max` characters */
function textField<K extends string>(name: K, given: unknown, max: number): { [P in K]?: string } {
  if (typeof given !== "string") return {};
  const text = given
    .slice(0, 2 * max)
    .replace(UNSEEN, " ")
    .trim()
    .slice(0, max)
    .replace(/\p{Cs}/gu, "");
  return (text === "" ? {} : { [name]: text }) as { [P in K]?: string };
}

/** As stock catalogues accept names and tags. */
const isName = (given: unknown): given is string => typeof given === "string" && /^[ -~]{1,32}$/.test(given);

function tagsOf(given: unknown): Pick<ListingTerms, "tags"> {
  const tags = Array.isArray(given) ? [...new Set(given.slice(0, MAX_ENTRIES).filter(isName))].slice(0, 5) : [];
  return tags.length === 0 ? {} : { tags };
}

const bazaarSchema = z.object({
  info: z.looseObject({ input: z.looseObject({ type: z.literal("http"), method: z.enum(LISTING_METHODS) }) }),
  schema: z.looseObject({}),
});

/** An escaped half of a surrogate pair: the database stores no such text. */
const LONE_SURROGATE = /\\ud[89a-f]/i;

function bazaarOf(required: JsonObject | undefined, method: string): JsonObject | undefined {
  const extensions = required?.extensions as { bazaar?: unknown } | undefined;
  const { success, data } = bazaarSchema.safeParse(extensions?.bazaar);
  if (!success || data.info.input.method !== method) return undefined;
  const text = JSON.stringify(data);
  return text.length > MAX_EXTENSION || LONE_SURROGATE.test(text) ? undefined : data;
}
