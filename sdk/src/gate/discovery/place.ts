/**
 * Reads where a gate is mounted: the notation of `paymentMiddleware`'s patterns, how OpenAPI writes the same path, and
 * where a document says that its operations are.
 */
import { ConfigError } from "../../protocol";
import { aText } from "../../protocol/arguments";
import { OPERATIONS, serverUrlOf } from "../../protocol/priced-operations";
import type { Discovery } from "../core/offers";
import { requireKnown } from "../core/pricing";

/** Where a gate is mounted. */
export interface Place {
  /** upper case; "*" for all */
  readonly method: string;
  /** the characters, names and wildcards of which its path consists */
  readonly parts: readonly string[];
}

const VERBS = new Set(["*", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "TRACE", "CONNECT"]);

/** Literals, `:name`, `[name]`, `[...name]`, `[[...name]]`, `*` and `*name`. */
const PARTS = /\[\[\.\.\.[^\][/]+\]\]|\[\.\.\.[^\][/]+\]|\[[^\][/]+\]|:[A-Za-z_]\w*|\*\w*|[^\][:*]/g;

/** @throws ConfigError naming a pattern that would protect less than it says */
export function placeOf(pattern: string): Place {
  const refused = (why: string) => new ConfigError(`paymentMiddleware: the route "${pattern}" ${why}`);
  const words = pattern.trim().split(/\s+/);
  const [verb = "*", path = ""] = words.length === 1 ? ["*", words[0]] : words;
  if (words.length > 2 || !VERBS.has(verb.toUpperCase())) throw refused('is no "METHOD /path"');
  return { method: verb.toUpperCase(), parts: partsOf(path, refused) };
}

function partsOf(path: string, refused: (why: string) => ConfigError): readonly string[] {
  if (path !== "*" && !path.startsWith("/")) throw refused('must have a path that begins with "/"');
  if (/[%?#;\\(){}+^$|]|\/\/|\/\.{1,2}(\/|$)/.test(path)) {
    throw refused("has what is no plain path: write it decoded, with :name, [name] or * where it varies");
  }
  const parts = path.match(PARTS) ?? [];
  if (parts.join("") !== path) throw refused("has a bracket or a colon that names nothing: use :name, [name] or *");
  return parts;
}

export const isOperation = (method: string): boolean =>
  (OPERATIONS as readonly string[]).includes(method.toLowerCase());

const DISCOVERY_FIELDS = ["path", "method", "queryParams", "body", "bodyType", "output"];

/**
 * Returns where `discovery` says that a gate is mounted; undefined where it does not.
 * @throws ConfigError that names the field
 */
export function placeIn(discovery: Discovery | undefined): Place | undefined {
  if (discovery === undefined) return undefined;
  requireKnown(discovery, DISCOVERY_FIELDS, "discovery");
  const { path, method = "*" } = discovery;
  aText(method, "discovery.method");
  if (path === undefined) {
    if (method === "*") return undefined;
    throw new ConfigError('discovery.method is set without discovery.path: name the path too, such as "/users/:id"');
  }
  aText(path, "discovery.path");
  if (method !== "*" && !isOperation(method)) {
    throw new ConfigError(
      `discovery.method is "${method}", of which OpenAPI has no operations: use ${OPERATIONS.join(", ").toUpperCase()}`,
    );
  }
  const parts = partsOf(path, (why) => new ConfigError(`discovery.path "${path}" ${why}`));
  return { method: method.toUpperCase(), parts };
}

/** Whether a part is a name or a wildcard, and not a character of the path. */
const isVaried = (part: string): boolean => part.length > 1 || part === "*";

/** A path as OpenAPI writes it, and the parameters in it. */
export interface PathTemplate {
  readonly template: string;
  readonly parameters: readonly { readonly name: string; readonly isWildcard: boolean }[];
}

/** Returns the path of a place: `/users/:id` is `/users/{id}`, and a wildcard is a parameter that may hold slashes. */
export function templateOf({ parts }: Place): PathTemplate {
  const parameters: PathTemplate["parameters"][number][] = [];
  const texts = parts.map((part) => {
    if (!isVaried(part)) return part;
    const isWildcard = part.startsWith("*") || part.includes("...");
    const given = part.replace(/[^\w-]/g, "") || "path";
    let name = given;
    for (let n = 2; parameters.some((each) => each.name === name); n++) name = `${given}${n}`;
    parameters.push({ name, isWildcard });
    return `{${name}}`;
  });
  const text = texts.join("");
  const path = text.startsWith("/") ? text : `/${text}`;
  return { template: path.replace(/(.)\/$/, "$1"), parameters };
}

/** In place of what varies in a path: a character for private use, which no literal part is likely to be. */
const SAMPLE = "\uE000";

/** Returns one of the paths that a place takes. */
export const samplePathOf = ({ parts }: Place): string =>
  parts.map((part) => (isVaried(part) ? SAMPLE : part)).join("");

/** Returns one of the paths that OpenAPI writes so. */
export const sampleOf = (template: string): string => template.replace(/\{[^{}]*\}/g, SAMPLE);

/** Returns what equal paths have in common, whatever their parameters are called. */
export const shapeOf = (template: string): string => template.replace(/\{[^{}]*\}/g, "{}").replace(/(.)\/+$/, "$1");

/** Where the gates are, beside where an OpenAPI document says that its operations are. */
export class Origin {
  /** that the gates' paths begin with */
  readonly gates: string;
  /** of the document's first server, that its paths begin with */
  readonly server: string;
  /** of the gates; any, where nothing but relative URLs names them */
  readonly #url: string;
  /** whether the gates are on the document's first server */
  readonly #isServer: boolean;

  constructor(servers: unknown, publicUrl: string | undefined) {
    const server = serverUrlOf({ servers });
    this.gates = publicUrl === undefined ? "" : urlPathOf(publicUrl);
    this.server = server === undefined ? this.gates : urlPathOf(server);
    this.#url = [publicUrl, server].find((url) => url !== undefined && URL.canParse(url)) ?? "http://relative.invalid";
    this.#isServer = server === undefined || this.#isOwn(server);
  }

  /** Returns what the path of an operation begins with; undefined where the gates do not serve it. */
  baseOf(operation: unknown, item: unknown): string | undefined {
    const url = serverUrlOf(operation, item);
    if (url === undefined) return this.#isServer ? this.server : undefined;
    return this.#isOwn(url) ? urlPathOf(url) : undefined;
  }

  #isOwn(url: string): boolean {
    return URL.canParse(url, this.#url) && new URL(url, this.#url).origin === new URL(this.#url).origin;
  }

  /** Returns a route's path in the document. @throws ConfigError where the document's server is not above the route */
  below(path: PathTemplate): PathTemplate {
    const { server, gates } = this;
    const whole = `${gates}${path.template}`;
    if (!this.#isServer) {
      throw new ConfigError(
        `document.servers[0].url has another origin than the gates' publicUrl, where the route ${whole} is: put the gates' server first`,
      );
    }
    if (server === "" || whole === server || whole.startsWith(`${server}/`)) {
      return { ...path, template: whole.slice(server.length) || "/" };
    }
    throw new ConfigError(
      `document.servers[0].url begins with the path ${server}, and the route ${whole} is not below it: set discovery.path of the route to its whole path, or correct the server`,
    );
  }
}

/** Returns the path of a URL, also of a relative one, without a slash at its end. */
function urlPathOf(url: string): string {
  const [, path = ""] = /^(?:[a-z][a-z0-9+.-]*:)?(?:\/\/[^/?#]*)?([^?#]*)/i.exec(url) ?? [];
  return path.startsWith("/") ? path.replace(/\/+$/, "") : "";
}
