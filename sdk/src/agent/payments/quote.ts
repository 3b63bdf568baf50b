/**
 * Parses a 402: which of its entries could be paid, and what each would buy. Entries that are false, contradictory or
 * malformed are left out, each with the reason. Knows no budget and no key.
 */
import {
  type AcceptEntry,
  type Address,
  acceptEntrySchema,
  findNetwork,
  type Hex,
  isEip3009,
  isPlanEntry,
  type JsonObject,
  type Network,
  PAYMENT_METHODS,
  type PaymentMethod,
  type PlanTerms,
  parseMemo,
  planTermsSchema,
  sameAddress,
  shortResourceOf,
} from "../../protocol";
import { memberOf } from "../../protocol/headers";
import type { Challenge } from "../../protocol/payment-auth";
import { originAndPath } from "../core/request";
import type { JudgedOffer } from "../ledger/evidence";
import { DIALECTS } from "../ledger/ledger-store";

interface OptionBase {
  readonly network: string;
  readonly chainId: number;
  readonly token: Address;
  /** base units; with the method `upto` the most that may be charged */
  readonly amount: bigint;
  readonly payTo: Address;
  readonly method: PaymentMethod;
  /** of `upto`: the account that may settle it, as the server says */
  readonly facilitatorAddress?: Address;
  readonly resource: string;
  /** of the token's EIP-712 domain, as the server says; a false one only yields invalid signatures */
  readonly tokenDomain: { readonly name: string; readonly version: string } | undefined;
}

export interface NativeOption extends OptionBase {
  readonly dialect: "turnpike";
  readonly method: "eip3009";
  readonly memo: string;
  readonly ref: string;
  readonly memoExpiresAtSec: number;
  /** base URL that the server names */
  readonly facilitator: string | undefined;
}

export interface StandardOption extends OptionBase {
  readonly dialect: Exclude<(typeof DIALECTS)[number], "turnpike">;
  readonly maxTimeoutSec: number;
  /** of MPP: the challenge as it came, which the credential has to repeat */
  readonly challenge?: Challenge;
  /** of terms that name the nonce of their payment, and their end */
  readonly nonce?: Hex;
  readonly expiresAtSec?: number;
  /** of version 2: the entry as it came, which the payload has to echo */
  readonly accepted?: Readonly<Record<string, unknown>>;
  /** what bears the payload, where that is not the header of its version */
  readonly carrier?: string;
  /** the extension object by which the server pays for the approval of what moves the payment */
  readonly sponsoring?: Readonly<Record<string, unknown>>;
}

export type PaymentOption = NativeOption | StandardOption;

export interface PlanOffer {
  readonly planId: Hex;
  readonly facilitator: string | undefined;
}

export interface ParsedQuote {
  /** one-time options, cheapest first, ties broken the same way every time */
  readonly options: readonly PaymentOption[];
  readonly offers: readonly PlanOffer[];
  readonly plans: readonly PlanTerms[];
  /** what entries of plans cost, which nobody pays by a plain transfer */
  readonly forPlans?: readonly PaymentOption[];
  /** why entries were left out */
  readonly refusals: readonly string[];
  /** stable code of a refused credential, e.g. "InvalidPaymentProof" */
  readonly error: string | undefined;
  readonly reason: string | undefined;
  /** as the provider has signed what it offers; judged by their signatures alone */
  readonly signedOffers?: readonly JudgedOffer[];
  /** origin and path that the provider sells in place of what was requested */
  readonly elsewhere?: string | undefined;
}

const MAX_ENTRIES = 64;

export interface Requested {
  readonly resource: string;
  /** other names that a stock server's quote may have for it */
  readonly aliases: readonly string[];
}

/** Stock servers leave the query out, and headers what is too long; a stock payment's signature does not cover the resource anyway. */
export const requestedUrl = (url: string): Requested => ({
  resource: url,
  aliases: [originAndPath(url), shortResourceOf(url)],
});

export const isRequested = (named: unknown, { resource, aliases }: Requested): boolean =>
  named === resource || aliases.some((alias) => named === alias);

/** Returns origin and path of the first URL in a 402 that was not requested; undefined where there is none. */
export function elsewhereIn(
  body: JsonObject | undefined,
  header: JsonObject | undefined,
  requested: Requested,
): string | undefined {
  const entries = Array.isArray(body?.accepts) ? body.accepts.slice(0, MAX_ENTRIES) : [];
  const named = [...entries.map((entry) => memberOf(entry, "resource")), memberOf(header?.resource, "url")];
  const other = named.find((url) => typeof url === "string" && URL.canParse(url) && !isRequested(url, requested));
  return typeof other === "string" ? originAndPath(other).slice(0, 256) : undefined;
}

/** @returns undefined when `body` is no payment-required object of a known version */
export function readQuote(
  body: JsonObject | undefined,
  requested: Requested,
  networks: readonly Network[],
): ParsedQuote | undefined {
  if (!body || !Array.isArray(body.accepts) || body.accepts.length > MAX_ENTRIES) return undefined;
  if (body.version !== "1" && !(body.version === undefined && body.x402Version === 1)) return undefined;

  const plans = readPlans(body.plans);
  const options: PaymentOption[] = [];
  const offers: PlanOffer[] = [];
  const forPlans: PaymentOption[] = [];
  const refusals: string[] = [];
  for (const raw of body.accepts) {
    const parsed = acceptEntrySchema.safeParse(raw);
    if (!parsed.success) {
      refusals.push("malformed");
      continue;
    }
    const entry = parsed.data;
    if (entry.hoodlayer?.planId) {
      offers.push({ planId: entry.hoodlayer.planId, facilitator: entry.hoodlayer.facilitator });
    }
    const option = optionOf(entry, requested, networks);
    if (isForPlan(entry, plans)) {
      if (typeof option !== "string") forPlans.push(option);
    } else if (typeof option === "string") refusals.push(option);
    else options.push(option);
  }
  return {
    options: options.sort(compareOptions),
    offers,
    plans,
    forPlans,
    refusals,
    error: codeIn(body.error),
    reason: codeIn(body.reason),
  };
}

/** Returns a stable code; undefined for anything else, such as prose. */
export const codeIn = (value: unknown): string | undefined =>
  typeof value === "string" && /^[\w.-]{1,64}$/.test(value) ? value : undefined;

/** Parses a list of plans; malformed ones are left out. */
export function readPlans(list: unknown): PlanTerms[] {
  return (Array.isArray(list) ? list.slice(0, MAX_ENTRIES) : []).flatMap((raw) => {
    const plan = planTermsSchema.safeParse(raw);
    return plan.success ? [plan.data] : [];
  });
}

/**
 * Returns whether an entry is a plan's: it can only be subscribed to, never paid by a plain transfer. An `exact` entry
 * may name a plan; it is a price of its own only when `plans` shows that the plan's price differs.
 */
function isForPlan(entry: AcceptEntry, plans: readonly PlanTerms[]): boolean {
  if (isPlanEntry(entry)) return true;
  const { planId, subscriptionScheme } = entry.hoodlayer ?? {};
  if (planId === undefined) return subscriptionScheme === true;
  if (subscriptionScheme === false) return false;
  const terms = plans.find((plan) => plan.planId === planId);
  return terms === undefined || terms.amount === (entry.amount ?? entry.maxAmountRequired);
}

/** @returns the option, or why it is none */
function optionOf(entry: AcceptEntry, requested: Requested, networks: readonly Network[]): PaymentOption | string {
  if (entry.scheme !== "exact") return "scheme";
  const network = findNetwork(entry.network, networks);
  if (!network) return "network";
  const token = entry.token ?? entry.asset;
  const amount = entry.amount ?? entry.maxAmountRequired;
  if (token === undefined || amount === undefined) return "malformed";
  if (entry.token && entry.asset && !sameAddress(entry.token, entry.asset)) return "token";
  if (entry.amount !== undefined && entry.maxAmountRequired !== undefined && entry.amount !== entry.maxAmountRequired) {
    return "amount";
  }
  const decimals = entry.extra?.decimals;
  if (decimals !== undefined && decimals !== 6) return "decimals";
  if (!isEip3009(entry.extra)) return "transfer_method";
  const { name, version } = entry.extra ?? {};
  const base = {
    network: entry.network,
    chainId: network.chainId,
    token,
    amount,
    payTo: entry.payTo,
    method: "eip3009" as const,
    resource: requested.resource,
    tokenDomain: name !== undefined && version !== undefined ? { name, version } : undefined,
  };
  if (entry.memo !== undefined) {
    if (entry.resource !== undefined && entry.resource !== requested.resource) return "resource";
    const memo = parseMemo(entry.memo);
    if (!memo) return "memo";
    const facilitator = entry.hoodlayer?.facilitator;
    return {
      ...base,
      dialect: "turnpike",
      memo: entry.memo,
      ref: memo.ref,
      memoExpiresAtSec: memo.expiresAtSec,
      facilitator,
    };
  }
  if (!isRequested(entry.resource, requested)) return "resource";
  return { ...base, dialect: "x402-v1", maxTimeoutSec: entry.maxTimeoutSeconds ?? 60 };
}

/**
 * Orders options totally: the same purchase chooses the same option again, also after the agent has lost its ledger.
 */
export function compareOptions(a: PaymentOption, b: PaymentOption): number {
  if (a.amount !== b.amount) return a.amount < b.amount ? -1 : 1;
  const byDialect = DIALECTS.indexOf(a.dialect) - DIALECTS.indexOf(b.dialect);
  if (byDialect !== 0) return byDialect;
  if (a.chainId !== b.chainId) return a.chainId - b.chainId;
  const byMethod = PAYMENT_METHODS.indexOf(a.method) - PAYMENT_METHODS.indexOf(b.method);
  if (byMethod !== 0) return byMethod;
  const byToken = a.token.toLowerCase().localeCompare(b.token.toLowerCase(), "en");
  return byToken !== 0 ? byToken : a.payTo.toLowerCase().localeCompare(b.payTo.toLowerCase(), "en");
}
