/**
 * Speaks to standard x402 servers, versions 1 and 2: reads their quotes, builds the payload that pays them, and reads
 * what they report about the settlement. Knows no budget and no key.
 */
import {
  type Address,
  acceptEntrySchema,
  addressSchema,
  amountSchema,
  decodeJsonHeader,
  EXTENSION,
  encodeJsonHeader,
  findNetwork,
  HEADER,
  type Hex,
  isObject,
  isPlanEntry,
  type JsonObject,
  type Network,
} from "../../protocol";
import { memberOf } from "../../protocol/headers";
import { paymentMethodOf, transferMethodOf } from "../../protocol/transfer-methods";
import { compareOptions, isRequested, type ParsedQuote, type Requested, readPlans, type StandardOption } from "./quote";

export interface ExactPayload {
  readonly signature: Hex;
  readonly authorization: Readonly<Record<"from" | "to" | "value" | "validAfter" | "validBefore" | "nonce", string>>;
}

/** Builds the header that pays a standard server, or what bears the payload instead of one. @param extensions of version 2, by name */
export function payloadHeader(
  option: StandardOption,
  payload: object,
  extensions?: Readonly<Record<string, unknown>>,
): { name: string; value: string } {
  if (option.dialect === "x402-v1") {
    const body = { x402Version: 1, scheme: "exact", network: option.network, payload };
    return { name: option.carrier ?? HEADER.payment, value: encodeJsonHeader(body) };
  }
  const { accepted, resource } = option;
  const body = { x402Version: 2, resource: { url: resource }, accepted, payload, ...(extensions && { extensions }) };
  return { name: option.carrier ?? HEADER.paymentSignatureV2, value: encodeJsonHeader(body) };
}

/** Reads the nonce from the header that pays, in every dialect; undefined when the header is damaged. */
export function nonceInHeader(value: string): Hex | undefined {
  const payload = memberOf(decodeJsonHeader(value.replace(/^Payment /, "")), "payload");
  const nonce = memberOf(memberOf(payload, "authorization") ?? payload, "nonce");
  return typeof nonce === "string" && /^0x[0-9a-fA-F]{64}$/.test(nonce) ? (nonce as Hex) : undefined;
}

/** Reads the quote of a version 2 server. @returns undefined when `body` is no PaymentRequired object of version 2 */
export function readQuoteV2(
  body: JsonObject | undefined,
  requested: Requested,
  networks: readonly Network[],
): ParsedQuote | undefined {
  if (body?.x402Version !== 2 || !Array.isArray(body.accepts) || body.accepts.length > 64) return undefined;
  const named = (body.resource as { url?: unknown } | undefined)?.url;
  const refusals: string[] = [];
  const { plans, offers } = plansIn(body.extensions);
  const options = body.accepts.flatMap((raw: unknown) => {
    const entry = acceptEntrySchema.safeParse(raw);
    if (entry.success && isPlanEntry(entry.data)) return [];
    const option =
      named === undefined || isRequested(named, requested) ? optionOf(raw, requested, networks) : "resource";
    if (typeof option !== "string") return [{ ...option, ...sponsoringIn(body.extensions, option) }];
    refusals.push(option);
    return [];
  });
  return {
    options: options.sort(compareOptions),
    offers,
    plans,
    refusals,
    error: undefined,
    reason: undefined,
  };
}

/** The plans of this project's gates, in the extension object that they send where no body arrives, as after `HEAD`. */
function plansIn(extensions: unknown): Pick<ParsedQuote, "plans" | "offers"> {
  const extension = memberOf(extensions, EXTENSION.service);
  const info = memberOf(extension, "info");
  const plans = readPlans(memberOf(info, "plans"));
  const reported = memberOf(info, "facilitator");
  const facilitator = typeof reported === "string" && reported !== "" ? reported : undefined;
  return { plans, offers: plans.map(({ planId }) => ({ planId, facilitator })) };
}

/** The extension by which the server pays for the approval of what moves the payment, where it has one. */
function sponsoringIn(extensions: unknown, { method }: StandardOption): Pick<StandardOption, "sponsoring"> {
  const { approved } = transferMethodOf(method);
  const sponsoring = approved && memberOf(extensions, approved.sponsoring);
  return isObject(sponsoring) ? { sponsoring } : {};
}

function optionOf(raw: unknown, { resource }: Requested, networks: readonly Network[]): StandardOption | string {
  const parsed = acceptEntrySchema.safeParse(raw);
  if (!parsed.success) return "malformed";
  const { scheme, network: name, asset, amount, payTo, extra, maxTimeoutSeconds } = parsed.data;
  if (scheme !== "exact" && scheme !== "upto") return "scheme";
  const network = findNetwork(name, networks);
  if (!network || !name.startsWith("eip155:")) return "network";
  if (asset === undefined || amount === undefined) return "malformed";
  if (extra?.decimals !== undefined && extra.decimals !== 6) return "decimals";
  const method = paymentMethodOf(scheme, extra);
  if (method === undefined) return "transfer_method";
  const facilitatorAddress = method === "upto" ? settlerOf(extra) : undefined;
  if (method === "upto" && facilitatorAddress === undefined) return "facilitator_address";
  return {
    dialect: "x402-v2",
    method,
    ...(facilitatorAddress && { facilitatorAddress }),
    network: name,
    chainId: network.chainId,
    token: asset,
    amount,
    payTo,
    resource,
    tokenDomain: extra?.name && extra.version ? { name: extra.name, version: extra.version } : undefined,
    maxTimeoutSec: maxTimeoutSeconds ?? 60,
    accepted: raw as Readonly<Record<string, unknown>>,
  };
}

function settlerOf(extra: unknown): Address | undefined {
  return addressSchema.safeParse(memberOf(extra, "facilitatorAddress")).data;
}

/** What a standard server says about a settlement, without any proof. */
export interface SettlementReport {
  readonly transaction: Hex | undefined;
  /** what it charged, base units */
  readonly amount: bigint | undefined;
  readonly payer: string | undefined;
  readonly network: string | undefined;
}

/** Reads what a standard server reports of the settlement; fields that are absent or malformed are undefined. */
export function readReport(report: Readonly<Record<string, unknown>> | undefined): SettlementReport {
  const { transaction, amount, payer, network } = report ?? {};
  const isHash = typeof transaction === "string" && /^0x[0-9a-fA-F]{64}$/.test(transaction);
  return {
    transaction: isHash ? (transaction as Hex) : undefined,
    amount: amountSchema.safeParse(amount).data,
    payer: typeof payer === "string" ? payer : undefined,
    network: typeof network === "string" ? network : undefined,
  };
}
