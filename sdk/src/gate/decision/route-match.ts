/**
 * Matches requests with the patterns of `paymentMiddleware`: "GET /reports/:id". A router behind it may read a path
 * differently from the next one: it decodes it or not, ignores case, slashes or parameters. So a pattern matches when it
 * fits any reading of the path. A path whose readings fit different patterns has no clear price and is refused.
 */
import { ConfigError, InvalidRequest } from "../../protocol";
import { type Answer, preflightFor } from "../core/answer";
import { placeOf } from "../discovery/place";
import type { Gate } from "./gate";

export interface RouteMatcher<T> {
  /**
   * Returns what the request's route is mapped to; undefined when no pattern fits.
   * @param paths in order of precedence: the first that any pattern fits decides
   * @throws InvalidRequest when the readings of a path fit different patterns
   */
  match(method: string, paths: readonly string[]): T | undefined;
  /** Returns what the first pattern that fits a plain path is mapped to; undefined when none does. */
  first(method: string, path: string): T | undefined;
  /** Returns whether any pattern fits one of the paths, whatever its method. */
  fits(paths: readonly string[]): boolean;
}

/** The routes of one `paymentMiddleware`, and the gate behind each. */
export interface RouteGates<T> extends RouteMatcher<T> {
  readonly gates: ReadonlyMap<T, Gate>;
}

/** Returns the answer to a preflight that asks for a method which is sold at these paths; undefined for any other. */
export function preflightAt<T>(
  { match, gates }: Pick<RouteGates<T>, "match" | "gates">,
  asked: string,
  paths: readonly string[],
): Answer | undefined {
  return preflightFor(asked, (method) => {
    const sold = match(method, paths);
    return sold !== undefined && gates.get(sold)?.cors !== false;
  });
}

interface Rule<T> {
  /** upper case; "*" for all */
  readonly verb: string;
  readonly fits: (path: string) => boolean;
  readonly value: T;
}

/** @throws ConfigError naming a pattern that would protect less than it says */
export function createRouteMatcher<T>(routes: Readonly<Record<string, T>>): RouteMatcher<T> {
  const patterns = Object.entries(routes);
  if (patterns.length === 0) throw new ConfigError('paymentMiddleware has no routes: write { "GET /report": { ... } }');
  const rules = patterns.map(([pattern, value]): Rule<T> => ({ ...compile(pattern), value }));

  const ruleOf = (method: string, path: string): Rule<T> | undefined =>
    rules.find(({ verb, fits }) => isVerb(verb, method) && fits(path));

  return {
    match(method, paths) {
      for (const path of paths) {
        const found = new Set(readingsOf(path).flatMap((reading) => ruleOf(method.toUpperCase(), reading) ?? []));
        const [rule, other] = found;
        if (other)
          throw new InvalidRequest("The path fits several routes, depending on how it is decoded: write it plainly.");
        if (rule) return rule.value;
      }
      return undefined;
    },
    first: (method, path) => ruleOf(method, path)?.value,
    fits: (paths) => paths.some((path) => readingsOf(path).some((each) => rules.some((rule) => rule.fits(each)))),
  };
}

/** Routers answer HEAD with the handler of GET. */
const isVerb = (verb: string, method: string): boolean =>
  verb === "*" || verb === method || (verb === "GET" && method === "HEAD");

function compile(pattern: string): Pick<Rule<unknown>, "verb" | "fits"> {
  const { method, parts } = placeOf(pattern);
  return { verb: method, fits: testOf(parts.map(partOf)) };
}

function testOf(parts: readonly PatternPart[]): (path: string) => boolean {
  // "/x/*" is also "/x", as in the stock middleware.
  if (parts.at(-1)?.kind === "any" && isSlash(parts.at(-2))) {
    const [folder, below] = [pathTest(parts.slice(0, -2)), pathTest(parts)];
    return (path) => folder(path) || below(path);
  }
  const end = parts.findLastIndex((part) => !isSlash(part));
  return pathTest(end < 0 ? [SLASH] : parts.slice(0, end + 1));
}

const SLASH: PatternPart = { kind: "literal", text: "/" };

const isSlash = (part: PatternPart | undefined): boolean => part?.kind === "literal" && part.text === "/";

function partOf(part: string): PatternPart {
  if (part.startsWith("*") || part.startsWith("[[...")) return { kind: "any" };
  if (part.startsWith("[...")) return { kind: "some" };
  return part.length > 1 ? { kind: "segment" } : { kind: "literal", text: part };
}

/** Nothing in it can be read in two ways. */
const PLAIN = /^\/$|^(?:\/[A-Za-z0-9_~-][A-Za-z0-9_~.-]*)+$/;

/** Escapes of escapes that are decoded; a router decodes once, a proxy before it once more. */
const MAX_DECODINGS = 4;

/** Returns every way in which a router may read a request's path. */
function readingsOf(target: string): readonly string[] {
  let path = target.split(/[?#]/)[0] ?? "";
  if (PLAIN.test(path)) return [path];
  const readings = new Set<string>();
  // The absolute form of a request target has scheme and host before the path.
  path = path.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, "");
  for (let i = 0; i <= MAX_DECODINGS; i++) {
    for (const each of [path, path.split(/[?#]/)[0] ?? "", ...withoutHost(path)]) addForms(readings, each);
    const decoded = decodeLeniently(path);
    if (decoded === path) break;
    path = decoded;
  }
  return [...readings];
}

function addForms(readings: Set<string>, path: string): void {
  for (const each of [path, path.replace(/;[^/]*/g, ""), withoutControls(path)]) {
    const slashed = each.replace(/\\/g, "/");
    for (const form of [each, slashed, withoutDots(slashed)]) readings.add(withoutSurplusSlashes(form));
  }
}

/** A URL parser takes what follows two slashes for a host. */
const withoutHost = (path: string): string[] => (/^[/\\]{2}/.test(path) ? [path.replace(/^[/\\]+[^/\\]*/, "")] : []);

const withoutSurplusSlashes = (path: string): string => `/${path}`.replace(/\/+/g, "/").replace(/(.)\/$/, "$1");

/** URL parsers drop control characters, and spaces at the ends. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that are dropped
const withoutControls = (path: string): string => path.replace(/[\u0000-\u001f\u007f]/g, "").trim();

function withoutDots(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
  }
  return kept.join("/");
}

/** Decodes what can be decoded, and leaves malformed escapes. */
const decodeLeniently = (path: string): string =>
  path.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes.replace(/%[0-7][0-9a-f]/gi, (ascii) => String.fromCharCode(Number.parseInt(ascii.slice(1), 16)));
    }
  });

/** `segment`: one character or more without a slash; `some`: one or more; `any`: none or more. */
export type PatternPart =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "segment" | "some" | "any" };

/** What a part takes: which characters, and how often. */
interface Step {
  readonly takes: (character: string) => boolean;
  readonly repeats: boolean;
  readonly isOptional: boolean;
}

/**
 * Returns a test of whole paths, which ignores case. A regular expression with two wildcards in one segment would try
 * every split of a long path: this follows all of them at once, in time that grows with the path's length alone.
 */
export function pathTest(parts: readonly PatternPart[]): (path: string) => boolean {
  const firstWildcard = parts.findIndex(({ kind }) => kind !== "literal");
  const literals = firstWildcard < 0 ? parts : parts.slice(0, firstWildcard);
  const start = new RegExp(`^${literals.map((part) => ("text" in part ? escaped(part.text) : "")).join("")}`, "iu");
  const steps = parts.slice(literals.length).flatMap(stepsOf);
  return (path) => {
    const begun = start.exec(path)?.[0];
    return begun !== undefined && isTaken(steps, path.slice(begun.length));
  };
}

function isTaken(steps: readonly Step[], text: string): boolean {
  let open = opened(steps, [0]);
  for (const character of text) {
    const next: number[] = [];
    for (const at of open) {
      const step = steps[at];
      if (!step?.takes(character)) continue;
      if (step.repeats) next.push(at);
      next.push(at + 1);
    }
    if (next.length === 0) return false;
    open = opened(steps, next);
  }
  return open.has(steps.length);
}

/** Returns these places and those behind what may be left out. */
function opened(steps: readonly Step[], places: readonly number[]): ReadonlySet<number> {
  const open = new Set<number>();
  for (const place of places) {
    for (let at = place; !open.has(at); at++) {
      open.add(at);
      if (!steps[at]?.isOptional) break;
    }
  }
  return open;
}

function stepsOf(part: PatternPart): readonly Step[] {
  if (part.kind === "literal") return [...part.text].map(literalStep);
  const takes = part.kind === "segment" ? (character: string) => character !== "/" : () => true;
  return [{ takes, repeats: true, isOptional: part.kind === "any" }];
}

function literalStep(literal: string): Step {
  // A router may take a character of another case that a plain comparison of lower case does not find.
  const pattern = new RegExp(`^${escaped(literal)}$`, "iu");
  const takes = (character: string): boolean => character === literal || pattern.test(character);
  return { takes, repeats: false, isOptional: false };
}

/** Patterns contain no other character that means something in a regular expression. */
const escaped = (text: string): string => text.replaceAll(".", "\\.");
