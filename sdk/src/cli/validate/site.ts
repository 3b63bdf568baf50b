/** Checks a site's OpenAPI document: its priced operations, and that the 402 of each asks for what the document states. */
import { type Address, findNetwork, knownToken, networkOfChain } from "../../protocol";
import { memberOf } from "../../protocol/headers";
import {
  documentUrlOf,
  MAX_DOCUMENT_BYTES,
  type PricedOperation,
  pricedOperationsIn,
  type StatedWay,
} from "../../protocol/priced-operations";
import { checkAnswer, type Report } from "./check";
import type { Price } from "./entries";
import { type Dialect, type Problem, Problems } from "./problem";
import { sampleOf } from "./sample";

/** Sends one request, and returns its answer with its body up to a limit. */
export type Ask = (url: string, init: RequestInit, maxBytes: number) => Promise<Asked>;

/** What came back. */
export interface Asked {
  readonly response: Response;
  /** undefined: longer than is read */
  readonly body: string | undefined;
}

/** What is listed of an operation. */
export interface SiteOperation {
  readonly method: string;
  readonly path: string;
  readonly price: NonNullable<PricedOperation["stated"]["price"]> | undefined;
  readonly protocols: readonly string[];
  /** of the answer to a call without a payment; both undefined: it was not called */
  readonly status: number | undefined;
  readonly versions: Report["versions"] | undefined;
}

/** What `validate --openapi` finds. */
export interface SiteReport {
  readonly document: string;
  readonly operations: readonly SiteOperation[];
  readonly problems: readonly Problem[];
}

const MAX_CALLED = 50;

const MAX_ANSWER_BYTES = 65_536;

/** Methods that are called without a payment: anything else might change something where it is not sold. */
const CALLED = new Set(["GET", "HEAD", "POST"]);

/** Checks a site. @param required the dialects that each 402 must have */
export async function checkSite(site: string, ask: Ask, required: readonly Dialect[]): Promise<SiteReport> {
  const document = documentUrlOf(site);
  const whole = new Problems();
  const { response, body } = await ask(document, { headers: { accept: "application/json" } }, MAX_DOCUMENT_BYTES);
  const priced = response.status === 200 && body !== undefined ? pricedOperationsIn(body, document) : undefined;
  if (!priced) whole.add("openapi", "no_document");
  if (priced?.length === 0) whole.add("openapi", "no_price");
  if (priced && priced.length > MAX_CALLED) whole.add("openapi", "too_many");
  const operations: SiteOperation[] = [];
  const problems: Problem[] = [];
  for (const [index, each] of (priced ?? []).entries()) {
    const { method, path, stated } = each;
    const own = new Problems(`${method} ${path}`);
    for (const field of each.faults) own.add("openapi", "payment_info", field);
    if (memberOf(each.operation.responses, "402") === undefined) own.add("openapi", "no_402");
    const isCalled = isCallable(own, each) && index < MAX_CALLED;
    const { status, versions } = isCalled ? await checkCall(own, each, ask, required) : {};
    operations.push({ method, path, price: stated.price, protocols: stated.protocols, status, versions });
    problems.push(...own.found);
  }
  return { document, operations, problems: [...whole.found, ...problems] };
}

function isCallable(problems: Problems, { method, resource }: PricedOperation): boolean {
  if (resource === undefined) problems.add("openapi", "other_origin");
  else if (!CALLED.has(method)) problems.add("openapi", "method_not_called");
  return resource !== undefined && CALLED.has(method);
}

async function checkCall(
  problems: Problems,
  operation: PricedOperation,
  ask: Ask,
  required: readonly Dialect[],
): Promise<Pick<Report, "status" | "versions">> {
  const { url, init } = callOf(operation);
  const { response, body } = await ask(url, init, MAX_ANSWER_BYTES);
  const { status, headers } = response;
  // The answer to HEAD has no body, in which version 1 has its terms.
  const answer = checkAnswer({ requested: url, status, headers, body }, required);
  for (const { part, code, where } of answer.problems) problems.add(part, code, where);
  comparePrices(problems, operation, answer.prices);
  return answer;
}

/** Returns a call that the document describes, with samples where it takes values. */
function callOf({ method, resource = "", parameters, operation }: PricedOperation): { url: string; init: RequestInit } {
  const sampleFor = (parameter: unknown): string => {
    const value = memberOf(parameter, "example") ?? sampleOf(memberOf(parameter, "schema"));
    return typeof value === "object" ? "x" : String(value);
  };
  const named = (place: string, name: string) =>
    parameters.find((each) => memberOf(each, "in") === place && memberOf(each, "name") === name);
  const filled = resource.replace(/\{([^{}]*)\}/g, (_, name: string) =>
    encodeURIComponent(sampleFor(named("path", name)) || "x"),
  );
  const url = new URL(filled);
  for (const each of parameters) {
    if (memberOf(each, "in") !== "query" || memberOf(each, "required") !== true) continue;
    url.searchParams.set(String(memberOf(each, "name")), sampleFor(each));
  }
  const content = memberOf(memberOf(operation.requestBody, "content"), "application/json");
  if (method !== "POST" || content === undefined) return { url: url.href, init: { method } };
  const body = JSON.stringify(memberOf(content, "example") ?? sampleOf(memberOf(content, "schema")));
  return { url: url.href, init: { method, body, headers: { "content-type": "application/json" } } };
}

/** Compares what the document states with what the 402 asks for, as far as both can be read. */
function comparePrices(problems: Problems, { stated }: PricedOperation, asked: readonly Price[]): void {
  if (asked.length === 0) return;
  const disagrees = (way: StatedWay, others: readonly Price[], mayBeAbsent: boolean): boolean => {
    if (way.amount === undefined) return false;
    if (others.length === 0) return !mayBeAbsent;
    return others.every(({ amount }) => amount !== BigInt(way.amount ?? 0));
  };
  stated.accepts.forEach((way, index) => {
    const same = asked.filter((price) => isSame(way, price));
    if (disagrees(way, same, false)) problems.add("openapi", "price_disagrees", `x402.accepts[${index}]`);
  });
  stated.offers.forEach((way, index) => {
    // An offer may have a challenge alone, in another token or by another method.
    const same = asked.filter((price) => price.asset === way.asset.toLowerCase());
    if (disagrees(way, same, true)) problems.add("openapi", "price_disagrees", `offers[${index}]`);
  });
  const { currency = "USD", min, max } = stated.price ?? {};
  if (currency !== "USD" || (min ?? max) === undefined) return;
  const [least, most] = [min, max].map((each) => (each === undefined ? undefined : scaled(each)));
  const inDollars = asked.flatMap((price) => dollarsOf(price) ?? []);
  const isBelow = (dollars: bigint) => least !== undefined && dollars < least;
  const isAbove = (dollars: bigint) => most !== undefined && dollars > most;
  if (inDollars.some((dollars) => isBelow(dollars) || isAbove(dollars)))
    problems.add("openapi", "price_disagrees", "price");
}

function isSame({ scheme, network, asset, payTo }: StatedWay, price: Price): boolean {
  if (price.asset !== asset.toLowerCase() || (scheme !== undefined && scheme !== price.scheme)) return false;
  if (payTo !== undefined && payTo.toLowerCase() !== price.payTo) return false;
  return network === undefined || findNetwork(network)?.chainId === price.chainId;
}

const SCALE = 80;

/** Returns a decimal in its smallest unit. */
function scaled(decimal: string): bigint {
  const [whole = "", fraction = ""] = decimal.split(".");
  return BigInt(`${whole}${fraction.padEnd(SCALE, "0")}`);
}

/** Returns a price in dollars, where its token is known to be worth one; undefined for a plan or any other. */
function dollarsOf({ chainId, asset, scheme, amount }: Price): bigint | undefined {
  const token = knownToken(networkOfChain(chainId), asset as Address);
  if (scheme === "plan" || token?.currency !== "USD") return undefined;
  return amount * 10n ** BigInt(SCALE - token.decimals);
}
