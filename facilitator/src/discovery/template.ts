/** Reads the URL of a listing: an origin and a path whose segments may be `{name}`. */
import { InvalidRequest } from "turnpike/protocol";
import { type AddressPolicy, checkPublicUrl } from "../lib/public-addresses";

export interface RouteTemplate {
  /** normalised; shown to everybody */
  readonly url: string;
  readonly host: string;
}

const FORM = /^(https?:\/\/[^/?#]+)(\/[^?#]*)$/i;

const SEGMENT = /^(?:\{[A-Za-z][A-Za-z0-9_]{0,31}\}|[A-Za-z0-9._~!$&'()*+,;=:@-]*)$/;

const NAME = /\{(\w+)\}/g;

const MAX_PATH = 512;

/**
 * Checks a template and its sample. Only characters that no client decodes are accepted, so that what is shown is what
 * is asked.
 * @throws InvalidRequest
 */
export function checkTemplate(
  { url, sample }: { readonly url: string; readonly sample: Readonly<Record<string, string>> },
  policy: AddressPolicy,
): RouteTemplate {
  if (/[?#]/.test(url)) throw refused("must not have a query or fragment: list the route, not one request");
  const [, origin, path] = FORM.exec(url) ?? [];
  if (!origin || !path) throw refused("must be an address with a path, as https://host/path");
  const segments = path.slice(1).split("/");
  if (path.length > MAX_PATH || !segments.every((segment) => SEGMENT.test(segment) && !/^\.{1,2}$/.test(segment))) {
    throw refused(`must have a path of plain segments and {name}, at most ${MAX_PATH} characters`);
  }
  const names = [...path.matchAll(NAME)].map(([, name]) => String(name));
  if (new Set(names).size !== names.length) throw refused("must not have one {name} twice");
  const unmatched = names.find((name) => !Object.hasOwn(sample, name));
  if (unmatched !== undefined) throw refusedSample(`must have a value for {${unmatched}}`);
  const unknown = Object.keys(sample).find((name) => !names.includes(name));
  if (unknown !== undefined) throw refusedSample(`has ${unknown}, which the url does not have`);
  const concrete = new URL(checkPublicUrl(`${origin}${fill(path, sample)}`, policy));
  if (concrete.pathname !== fill(path, sample)) throw refused("must have a path in its normal form");
  return { url: `${concrete.origin}${path}`, host: concrete.host };
}

/** Returns the URL that is asked: the template with the sample's values. */
export function fill(template: string, sample: Readonly<Record<string, string>>): string {
  return template.replaceAll(NAME, (_, name: string) => sample[name] ?? "");
}

/** Returns the path in the form of stock catalogues, as `/weather/:city`; undefined for a route without names. */
export function stockTemplateOf(url: string): string | undefined {
  const path = url.replace(/^https?:\/\/[^/]+/, "");
  return path.includes("{") ? path.replaceAll(NAME, ":$1") : undefined;
}

const refused = (what: string) => new InvalidRequest(`url: ${what}`, { details: { field: "url", in: "body" } });

const refusedSample = (what: string) =>
  new InvalidRequest(`sample: ${what}`, { details: { field: "sample", in: "body" } });
