/** Checks the entries of `accepts`: the fields that both versions share, each by its own problem. */
import {
  type Address,
  checksumFault,
  findNetwork,
  isAddress,
  isPlanEntry,
  type JsonObject,
  parseAmount,
  resourceOfUrl,
  shortResourceOf,
} from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { memberOf } from "../../protocol/headers";
import { TRANSFER_METHODS } from "../../protocol/transfer-methods";
import type { Dialect, Problems } from "./problem";

/** What one entry asks for, as far as it is well-formed: to compare the dialects. */
export interface Price {
  readonly chainId: number;
  readonly asset: string;
  readonly payTo: string;
  readonly scheme: string;
  readonly method: unknown;
  readonly amount: bigint;
}

/** How a version writes its entries. */
export interface EntryRules {
  readonly part: "v1" | "v2";
  readonly amountField: "maxAmountRequired" | "amount";
  readonly schemes: readonly string[];
}

const MAX_ENTRIES = 64;

const SIGNED_BY_DOMAIN = new Set(["exact"]);

/** Checks `accepts`. @param checkEntry what the version requires beside the shared fields */
export function checkAccepts(
  problems: Problems,
  accepts: unknown,
  rules: EntryRules,
  checkEntry: (entry: JsonObject, where: string) => void,
): Price[] {
  const { part } = rules;
  if (!Array.isArray(accepts) || accepts.length === 0 || accepts.length > MAX_ENTRIES) {
    problems.add(part, "accepts", "accepts");
    return [];
  }
  return accepts.flatMap((entry: unknown, index) => {
    const where = `accepts[${index}]`;
    if (!isObject(entry)) {
      problems.add(part, "entry", where);
      return [];
    }
    const price = checkShared(problems, entry, rules, where);
    checkEntry(entry, where);
    return price ? [price] : [];
  });
}

function checkShared(problems: Problems, entry: JsonObject, rules: EntryRules, where: string): Price | undefined {
  const { part, amountField, schemes } = rules;
  const { scheme, network, asset, payTo, extra } = entry;
  const isPlan = typeof scheme === "string" && isPlanEntry({ scheme, extra: isObject(extra) ? extra : undefined });
  if (typeof scheme !== "string" || scheme === "") problems.add(part, "scheme", `${where}.scheme`);
  else if (!schemes.includes(scheme) && !isPlan) problems.add(part, "unknown_scheme", `${where}.scheme`);
  const known = typeof network === "string" ? findNetwork(network) : undefined;
  const amount = parseAmount(entry[amountField]);
  if (amount === undefined) problems.add(part, "amount", `${where}.${amountField}`);
  else if (amount === 0n) problems.add(part, "zero_amount", `${where}.${amountField}`);
  // Addresses of other kinds of chains have their own forms.
  const isEvm = known !== undefined || typeof network !== "string" || network.startsWith("eip155:");
  checkAddress(problems, { part, value: asset, code: "asset", where: `${where}.asset`, isEvm });
  checkAddress(problems, { part, value: payTo, code: "pay_to", where: `${where}.payTo`, isEvm });
  const seconds = entry.maxTimeoutSeconds;
  if (!Number.isSafeInteger(seconds) || (seconds as number) <= 0) {
    problems.add(part, "timeout", `${where}.maxTimeoutSeconds`);
  }
  if (isEvm && !isPlan) checkExtra(problems, part, { scheme, extra, where });
  if (!known || amount === undefined || !isAddress(asset) || !isAddress(payTo) || typeof scheme !== "string")
    return undefined;
  const method = memberOf(extra, "assetTransferMethod") ?? "eip3009";
  const lower = { asset: asset.toLowerCase(), payTo: payTo.toLowerCase() };
  return { chainId: known.chainId, ...lower, scheme: isPlan ? "plan" : scheme, method, amount };
}

interface AddressToCheck {
  readonly part: Dialect;
  readonly value: unknown;
  readonly code: "asset" | "pay_to";
  readonly where: string;
  readonly isEvm: boolean;
}

/** Checks an address of a token or a payee. */
export function checkAddress(problems: Problems, { part, value, code, where, isEvm }: AddressToCheck): void {
  const isFine = isEvm ? isAddress(value) : typeof value === "string" && value !== "";
  if (!isFine) problems.add(part, code, where);
  else if (isEvm && checksumFault(value as Address)) problems.add(part, "checksum", where);
}

interface ExtraToCheck {
  readonly scheme: unknown;
  readonly extra: unknown;
  readonly where: string;
}

function checkExtra(problems: Problems, part: "v1" | "v2", { scheme, extra, where }: ExtraToCheck): void {
  const method = Object.values(TRANSFER_METHODS).find(({ isNamedIn }) =>
    isNamedIn(isObject(extra) ? extra : undefined),
  );
  if (!method) problems.add(part, "transfer_method", `${where}.extra.assetTransferMethod`);
  const isText = (field: string) => typeof memberOf(extra, field) === "string" && memberOf(extra, field) !== "";
  if (SIGNED_BY_DOMAIN.has(String(scheme)) && !method?.approved && !(isText("name") && isText("version"))) {
    problems.add(part, "token_domain", `${where}.extra`);
  }
  if (scheme === "upto" && !isAddress(memberOf(extra, "facilitatorAddress"))) {
    problems.add(part, "facilitator_address", `${where}.extra.facilitatorAddress`);
  }
}

/** Checks the URL of a resource; stock servers leave the query out. */
export function checkResource(
  problems: Problems,
  { part, value, where, requested }: { part: "v1" | "v2"; value: unknown; where: string; requested: string },
): void {
  const url = typeof value === "string" ? resourceOfUrl(value) : undefined;
  if (url === undefined || !/^https?:\/\//.test(url)) {
    problems.add(part, "resource", where);
    return;
  }
  const { origin, pathname } = new URL(requested);
  const names = [requested, `${origin}${pathname}`, shortResourceOf(requested)];
  if (!names.includes(url)) problems.add(part, "resource_mismatch", where);
}
