/** Checks a whole 402 of a server: the body of version 1, the header of version 2, and that the two agree. */
import { decodeJsonHeader, HEADER, parseStrictBody } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { checkResource, type Price } from "./entries";
import { type Part, type Problem, Problems } from "./problem";
import { type CheckResource, checkTermsV1, checkTermsV2 } from "./terms";

/** What a server answered. */
export interface Answered {
  readonly requested: string;
  readonly status: number;
  readonly headers: Headers;
  /** undefined: longer than is read */
  readonly body: string | undefined;
}

/** Whether a version's terms are there and well-formed. */
export type VersionState = "valid" | "invalid" | "absent";

/** What `validate` finds. */
export interface Report {
  readonly status: number;
  readonly versions: Readonly<Record<"v1" | "v2", VersionState>>;
  readonly problems: readonly Problem[];
  /** what the entries of both versions ask for, as far as they are well-formed */
  readonly prices: readonly Price[];
}

const MAX_HEADER_BYTES = 8_192;

/** Checks a server's answer. @param required the versions that must be there */
export function checkAnswer(answered: Answered, required: readonly ("v1" | "v2")[]): Report {
  const { status, headers } = answered;
  const problems = new Problems();
  if (status >= 300 && status < 400) problems.add("http", "redirect");
  else if (status !== 402) problems.add("http", "status");
  if (status !== 402) return { status, versions: { v1: "absent", v2: "absent" }, problems: problems.found, prices: [] };

  const hasHeader = headers.has(HEADER.paymentRequiredV2);
  const header = checkHeader(problems, answered);
  const body = checkBody(problems, answered, hasHeader);
  if (header && body) comparePrices(problems, body, header);
  const stateOf = (part: Part, isThere: boolean): VersionState => {
    if (!isThere) return "absent";
    return problems.found.some((each) => each.part === part && each.level === "error") ? "invalid" : "valid";
  };
  const versions = { v1: stateOf("v1", body !== undefined), v2: stateOf("v2", hasHeader) };
  if (body === undefined && !hasHeader && !problems.found.some(({ part }) => part === "v1"))
    problems.add("http", "no_terms");
  for (const version of required) if (versions[version] === "absent") problems.add("http", "version_required", version);
  if (!/\b(?:no-store|private)\b/i.test(headers.get("cache-control") ?? "")) problems.add("http", "cacheable");
  return { status, versions, problems: problems.found, prices: [...(header ?? []), ...(body ?? [])] };
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
function checkBody(problems: Problems, { body, requested }: Answered, hasHeader: boolean): Price[] | undefined {
  if (body === undefined) {
    // A server of version 2 may send a page of any size beside its header.
    if (!hasHeader) problems.add("v1", "too_large");
    return undefined;
  }
  const terms = parseStrictBody(body);
  if (!isObject(terms)) {
    if (!hasHeader && body.trim() !== "") problems.add("v1", isJson(body) ? "ambiguous_json" : "not_json");
    return undefined;
  }
  // Servers of version 2 repeat their terms in the body, or send an empty object.
  if (terms.accepts === undefined && terms.x402Version !== 1) return undefined;
  if (hasHeader && terms.x402Version === 2) return undefined;
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

/** The versions may offer different entries, but not one entry at two prices. */
function comparePrices(problems: Problems, inBody: readonly Price[], inHeader: readonly Price[]): void {
  const nameOf = ({ chainId, asset, payTo, scheme, method }: Price) =>
    [chainId, asset, payTo, scheme, method].join(" ");
  const amountsOf = (prices: readonly Price[], name: string) =>
    new Set(prices.filter((price) => nameOf(price) === name).map(({ amount }) => amount));
  for (const name of new Set(inBody.map(nameOf))) {
    const [left, right] = [amountsOf(inBody, name), amountsOf(inHeader, name)];
    if (right.size > 0 && ![...left].some((amount) => right.has(amount))) problems.add("http", "versions_disagree");
  }
}
