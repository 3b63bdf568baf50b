/** Reads what a tool's result asks to be paid, in the forms that servers send. Knows no budget and no key. */
import type { AgentContext } from "../../agent/core/context";
import { agreed, combined } from "../../agent/payments/combined-quote";
import { readChallenges } from "../../agent/payments/mpp";
import { type ParsedQuote, type Requested, readQuote } from "../../agent/payments/quote";
import { signedOffersIn } from "../../agent/payments/signed-statements";
import { readQuoteV2 } from "../../agent/payments/standard";
import { type JsonObject, MAX_ANSWER_DEPTH, memberOf, type Network } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { type Challenge, challengeSchema, isCharge } from "../../protocol/payment-auth";
import { type Ask, askIn, type CallResult, encodedJson, MCP_META } from "../wire";
import { CARRIER } from "./carrier";

/** The errors by which servers of MPP ask for payment, and say that one was refused. */
const PAYMENT_ERRORS: readonly unknown[] = [-32_042, -32_043];

/**
 * Returns what a server has thrown to ask for payment, as a result that asks; undefined for any other error, and where the
 * agent could pay nothing of it.
 */
export function askThrown(error: unknown): CallResult | undefined {
  const data = memberOf(error, "data");
  const challenges = memberOf(data, "challenges");
  if (!PAYMENT_ERRORS.includes(memberOf(error, "code")) || !Array.isArray(challenges)) return undefined;
  if (!isBounded({ challenges }) || !challenges.some((each) => isCharge(challengeOf(each)))) return undefined;
  return { isError: true, content: [], _meta: { [MCP_META.challenges]: data } };
}

/**
 * Returns what a result asks to be paid. Text is not read: a tool's error may repeat what a stranger wrote.
 * @returns undefined for a result that asks for nothing
 */
export function readAsk({ isError, structuredContent, _meta }: CallResult): Ask | undefined {
  return askIn({ isError, structuredContent, _meta });
}

/**
 * Returns what may be paid for a call of `tool`; undefined where the terms cannot be understood.
 * @param isKeyed whether the agent has to choose the nonce, so that the token refuses a second payment
 */
export async function quoteOf(
  result: CallResult,
  ask: Ask,
  {
    tool,
    networks,
    tokens,
    isKeyed,
  }: Pick<AgentContext, "networks" | "tokens"> & { readonly tool: string; readonly isKeyed: boolean },
): Promise<ParsedQuote | undefined> {
  const { required, other, quote } = ask;
  const { challenges } = ask;
  if (![required, other, quote, { challenges }].every(isBounded)) return undefined;
  if (challenges) {
    const reader = { resource: namesOfTool(tool)[0], bodyHash: undefined, isAuthorized: false, networks, tokens };
    return readChallenges(challenges.map(challengeOf), { ...reader, carrier: CARRIER.mpp });
  }
  const own = quote && readQuote(quote, requestedTool(tool, quote), networks);
  const standard = combined(
    standardOf(required, carrierOf(result, ask), { tool, networks }),
    other && standardOf(other, CARRIER.object, { tool, networks }),
  );
  const all = isKeyed && own && standard ? keyed(own, standard) : combined(own, standard);
  return all && { ...all, signedOffers: await signedOffersIn(required) };
}

/** In results the request is JSON as it is; the challenge of a header has it encoded. */
function challengeOf(given: unknown): Challenge | undefined {
  const request = memberOf(given, "request");
  const text = isObject(request) ? encodedJson(request) : undefined;
  return isObject(given) ? challengeSchema.safeParse({ ...given, request: text }).data : undefined;
}

/** Returns what the agent can pay by a nonce of its own, where there is any. */
function keyed(own: ParsedQuote, standard: ParsedQuote): ParsedQuote {
  const [ours, theirs] = agreed(own, standard);
  return theirs.options.length > 0 ? { ...ours, options: theirs.options } : ours;
}

function standardOf(
  required: JsonObject,
  carrier: string,
  { tool, networks }: { readonly tool: string; readonly networks: readonly Network[] },
): ParsedQuote | undefined {
  const requested = requestedTool(tool, required);
  const isFirst = required.x402Version === 1;
  const read = isFirst ? readQuote(required, requested, networks) : readQuoteV2(named(required), requested, networks);
  return read && carriedBy(isFirst ? CARRIER.v1 : carrier, read);
}

/** Over HTTP the URL says what is bought, and terms without a name count. A tool's terms have to name it. */
const named = (required: JsonObject): JsonObject => ({
  ...required,
  resource: { url: memberOf(required.resource, "url") ?? null },
});

/** Terms are echoed and stored: the most characters in one ask, and how deep its objects may be. */
const MAX_CHARS = 65_536;

function isBounded(terms: JsonObject | undefined): boolean {
  let rest = MAX_CHARS;
  const fits = (value: unknown, depth: number): boolean => {
    if (typeof value === "string") rest -= value.length;
    rest -= 1;
    if (rest < 0 || depth > MAX_ANSWER_DEPTH) return false;
    if (typeof value !== "object" || value === null) return true;
    return Object.entries(value).every(([name, member]) => {
      rest -= name.length;
      return fits(member, depth + 1);
    });
  };
  return fits(terms, 0);
}

/** A server that asks in `_meta` alone reads base64 alone. */
function carrierOf({ structuredContent, _meta }: CallResult, { quote }: Ask): string {
  const isInMeta = structuredContent === undefined && quote === undefined && _meta?.[MCP_META.error] !== undefined;
  return isInMeta ? CARRIER.base64 : CARRIER.object;
}

function carriedBy(carrier: string, quote: ParsedQuote): ParsedQuote {
  const options = quote.options.map((option) => (option.dialect === "turnpike" ? option : { ...option, carrier }));
  return { ...quote, options };
}

/** The names of one tool: the specification's, with or without escapes, and `x402://<name>`. */
export const namesOfTool = (tool: string) =>
  [`mcp://tool/${encodeURIComponent(tool)}`, `mcp://tool/${tool}`, `x402://${tool}`] as const;

function requestedTool(tool: string, { resource }: JsonObject): Requested {
  const names = namesOfTool(tool);
  const { url } = (typeof resource === "object" && resource !== null ? resource : {}) as { readonly url?: unknown };
  // A payload repeats the name that the server has given.
  return { resource: names.find((name) => name === url) ?? names[0], aliases: names };
}
