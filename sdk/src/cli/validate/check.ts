/** Checks a whole 402 of a server: the body of version 1, the header of version 2, MPP's challenges, and that they agree. */
import { decodeJsonHeader, HEADER, parseStrictBody, systemClock } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { checkChallenges } from "./challenges";
import { checkResource, type Price } from "./entries";
import { type Dialect, type Problem, Problems } from "./problem";
import { type CheckResource, checkTermsV1, checkTermsV2 } from "./terms";

/** What a server answered. */
export interface Answered {
  readonly requested: string;
  readonly status: number;
  readonly headers: Headers;
  /** undefined: longer than is read */
  readonly body: string | undefined;
}

/** Whether a dialect's terms are there and well-formed. */
export type VersionState = "valid" | "invalid" | "absent";

/** What `validate` finds. */
export interface Report {
  readonly status: number;
  readonly versions: Readonly<Record<Dialect, VersionState>>;
  readonly problems: readonly Problem[];
  /** what the entries of all dialects ask for, as far as they are well-formed */
  readonly prices: readonly Price[];
}

const MAX_HEADER_BYTES = 8_192;

const NO_TERMS: Report["versions"] = { v1: "absent", v2: "absent", mpp: "absent" };

/** Checks a server's answer. @param required the dialects that must be there */
export function checkAnswer(answered: Answered, required: readonly Dialect[]): Report {
  const { status, headers } = answered;
  const problems = new Problems();
  if (status >= 300 && status < 400) problems.add("http", "redirect");
  else if (status !== 402) problems.add("http", "status");
  if (status !== 402) return { status, versions: NO_TERMS, problems: problems.found, prices: [] };

  const hasHeader = headers.has(HEADER.paymentRequiredV2);
  const header = checkHeader(problems, answered);
  const charges = checkChallenges(problems, headers, systemClock.nowSec());
  const body = checkBody(problems, answered, hasHeader || charges !== undefined);
  comparePrices(problems, [body ?? [], header ?? [], charges ?? []]);
  const stateOf = (part: Dialect, isThere: boolean): VersionState => {
    if (!isThere) return "absent";
    return problems.found.some((each) => each.part === part && each.level === "error") ? "invalid" : "valid";
  };
  const versions = {
    v1: stateOf("v1", body !== undefined),
    v2: stateOf("v2", hasHeader),
    mpp: stateOf("mpp", charges !== undefined),
  };
  const isAbsent = Object.values(versions).every((state) => state === "absent");
  if (isAbsent && problems.found.length === 0) problems.add("http", "no_terms");
  for (const version of required) if (versions[version] === "absent") problems.add("http", "version_required", version);
  if (!/\b(?:no-store|private)\b/i.test(headers.get("cache-control") ?? "")) problems.add("http", "cacheable");
  return {
    status,
    versions,
    problems: problems.found,
    prices: [...(header ?? []), ...(body ?? []), ...(charges ?? [])],
  };
}

/** @returns the prices of version 2; undefined when its header is absent or unreadable */
function checkHeader(problems: Problems, { headers, requested }: Answered): Price[] | undefined {
  const value = headers.get(HEADER.paymentRequiredV2);
  if (value === null) return undefined;
  if (value.length > MAX_HEADER_BYTES) {
    problems.add("v2", "too_large");
    return undefined;
  }
  const terms = decodeJsonHeader(value, MAX_HEADER_BYTES);
  if (!terms) {
    problems.add("v2", "not_base64");
    return undefined;
  }
  return checkTermsV2(problems, terms, urlChecker(problems, requested));
}

/** @returns the prices of version 1; undefined when the body holds no terms of version 1 */
function checkBody(problems: Problems, { body, headers, requested }: Answered, hasOther: boolean): Price[] | undefined {
  if (body === undefined) {
    // A server of another dialect may send a page of any size beside its header.
    if (!hasOther) problems.add("v1", "too_large");
    return undefined;
  }
  const terms = parseStrictBody(body);
  if (!isObject(terms)) {
    if (!hasOther && body.trim() !== "") problems.add("v1", isJson(body) ? "ambiguous_json" : "not_json");
    return undefined;
  }
  // Servers of version 2 repeat their terms in the body, or send an empty object.
  if (terms.accepts === undefined && terms.x402Version !== 1) return undefined;
  if (headers.has(HEADER.paymentRequiredV2) && terms.x402Version === 2) return undefined;
  return checkTermsV1(problems, terms, urlChecker(problems, requested));
}

const urlChecker =
  (problems: Problems, requested: string): CheckResource =>
  (part, value, where) =>
    checkResource(problems, { part, value, where, requested });

function isJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value);
  } catch {
    return false;
  }
}

/** The dialects may offer different entries, but not one entry at two prices. */
function comparePrices(problems: Problems, dialects: readonly (readonly Price[])[]): void {
  const nameOf = ({ chainId, asset, payTo, scheme, method }: Price) =>
    [chainId, asset, payTo, scheme, method].join(" ");
  const amountsOf = (prices: readonly Price[], name: string) =>
    new Set(prices.filter((price) => nameOf(price) === name).map(({ amount }) => amount));
  for (const name of new Set(dialects.flat().map(nameOf))) {
    const sets = dialects.map((prices) => amountsOf(prices, name)).filter(({ size }) => size > 0);
    const doAgree = sets.every((left) => sets.every((right) => [...left].some((amount) => right.has(amount))));
    if (!doAgree) problems.add("http", "versions_disagree");
  }
}
