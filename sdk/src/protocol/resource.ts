/**
 * Serialises the `resource`, what a payment buys, as one string that gate, agent and Facilitator compare byte by byte.
 */
import { aText, wrongKind } from "./arguments";
import { utf8ToBytes } from "./hex";

/** The longest URL that can be paid for. */
export const MAX_RESOURCE_BYTES = 2_048;

/** The longest URL that PAYMENT-REQUIRED names whole: it is not all that the header has to hold. */
const MAX_WHOLE_CHARS = 1_024;

/**
 * Returns a resource as PAYMENT-REQUIRED names it: a long one without its query, or as its origin where the path is long
 * too. The memo covers all of it.
 */
export function shortResourceOf(resource: string): string {
  aText(resource, "resource");
  if (resource.length <= MAX_WHOLE_CHARS) return resource;
  const { origin, pathname } = new URL(resource);
  const path = `${origin}${pathname}`;
  return path.length <= MAX_WHOLE_CHARS ? path : `${origin}/`;
}

/** Serialised, these are what they were: nothing to escape, nothing to resolve (a dot segment begins with "/."). */
const PLAIN = /^[A-Za-z0-9/_~.-]*(?:\?[A-Za-z0-9/_~.=&-]*)?$/;

let lastBase: { readonly publicUrl: string; readonly base: URL; readonly prefix: string } | undefined;

function baseOf(publicUrl: string): { readonly base: URL; readonly prefix: string } {
  if (lastBase?.publicUrl !== publicUrl) {
    const base = new URL(publicUrl);
    lastBase = { publicUrl, base, prefix: base.pathname.replace(/\/+$/, "") };
  }
  return lastBase;
}

/**
 * `publicUrl` joined with the request target as it came (path and query, before any mounting took a prefix off).
 * WHATWG-serialised, query order kept, fragment dropped.
 * @returns undefined when the target is not origin-form, leaves the public origin or passes 2,048 bytes
 */
export function resourceOf(publicUrl: string, target: string): string | undefined {
  aText(publicUrl, "publicUrl");
  aText(target, "target");
  if (!target.startsWith("/") || target.includes("\\")) return undefined;
  const { base, prefix } = baseOf(publicUrl);
  if (PLAIN.test(target) && !target.includes("/.")) {
    const href = `${base.origin}${prefix}${target}`;
    return href.length <= MAX_RESOURCE_BYTES ? href : undefined;
  }
  let url: URL;
  try {
    // Concatenated, not resolved: resolving "//evil.example/x" against a base would change the origin.
    url = new URL(`${base.origin}${prefix}${target}`);
  } catch {
    return undefined;
  }
  if (url.origin !== base.origin) return undefined;
  url.hash = "";
  return utf8ToBytes(url.href).length <= MAX_RESOURCE_BYTES ? url.href : undefined;
}

/**
 * The same serialisation on the client's side, of the URL it is about to request. An empty query is dropped: Node's fetch
 * does not send its question mark, so the gate does not see one.
 */
export function resourceOfUrl(url: string | URL): string | undefined {
  try {
    const parsed = new URL(url);
    parsed.hash = "";
    parsed.username = "";
    parsed.password = "";
    if (parsed.search === "") parsed.search = "";
    return utf8ToBytes(parsed.href).length <= MAX_RESOURCE_BYTES ? parsed.href : undefined;
  } catch {
    return undefined;
  }
}

/** What the Facilitator may keep and show of a resource: origin and path, never the query. */
export function resourceWithoutQuery(resource: string): string {
  aText(resource, "resource");
  if (!URL.canParse(resource)) throw wrongKind(resource, "resource", "an absolute URL");
  const { protocol, host, pathname } = new URL(resource);
  // Not `origin`: of any scheme but the web's that is "null".
  return `${protocol}//${host}${pathname}`;
}
