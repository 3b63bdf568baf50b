/** Derives from a request the `resource` that it asks for. */
import { ConfigError, InvalidRequest, resourceOf } from "../../protocol";
import type { GateRequest } from "./request";

export interface Origin {
  /** the provider's public base address */
  readonly publicUrl: string | undefined;
  /** trust X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-Prefix */
  readonly trustProxy: boolean;
}

/** Characters that no target contains, and that serialising strips. */
const NOT_IN_A_TARGET = /[\0-\x20#\x7f]/;

/**
 * Returns what this request asks for, as one string.
 * @throws InvalidRequest for a target with two readings; ConfigError when the public address is not known
 */
export function resourceOfRequest(request: GateRequest, origin: Origin): string {
  const { target } = request;
  if (request.resource !== undefined) return request.resource;
  const resource = NOT_IN_A_TARGET.test(target)
    ? undefined
    : plainResource(publicUrlOfRequest(request, origin), target);
  if (resource !== undefined && isSentPlainly(request)) return resource;
  throw new InvalidRequest(
    "The request target is too long, or its path is not as URLs are written: dot segments, a backslash, a fragment, or characters to be percent-encoded.",
  );
}

/**
 * A router sees the path as it came. Where serialising changes it (dot segments, a raw quotation mark), one resource would
 * name two paths, and the cheaper one's payment would buy the other.
 * @returns undefined then
 */
function plainResource(publicUrl: string, target: string): string | undefined {
  const resource = resourceOf(publicUrl, target);
  return resource !== undefined && pathOf(resource).endsWith(pathOf(target)) ? resource : undefined;
}

function isSentPlainly({ target, sentTarget: sent }: GateRequest): boolean {
  if (sent === undefined || sent === target || !sent.startsWith("/")) return true;
  return !NOT_IN_A_TARGET.test(sent) && plainResource("http://localhost", sent) !== undefined;
}

const pathOf = (target: string): string => target.split("?", 1)[0] ?? "";

/** A host as in URLs, without anything that could become a path, a query or credentials. */
const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?$/i;

function publicUrlOfRequest(request: GateRequest, { publicUrl, trustProxy }: Origin): string {
  if (publicUrl !== undefined) return publicUrl;
  if (trustProxy) {
    const host = firstOf(request.header("x-forwarded-host")) ?? request.host;
    const protocol = firstOf(request.header("x-forwarded-proto")) ?? (request.secure ? "https" : "http");
    if (host && HOST.test(host) && /^https?$/i.test(protocol) && URL.canParse(`${protocol}://${host}`)) {
      return `${protocol}://${host}${forwardedPrefix(request)}`;
    }
    throw new InvalidRequest(
      "X-Forwarded-Host (or Host) is no host name, or X-Forwarded-Proto neither http nor https.",
    );
  }
  if (request.host && isLoopback(request.host) && isLocalSocket(request.remoteAddress)) {
    return `${request.secure ? "https" : "http"}://${request.host}`;
  }
  throw new ConfigError("publicUrl is not set: a gate that is not on loopback must know its own public address");
}

/** Nothing in it is read in two ways: no dot segments, escapes or double slashes. */
const PREFIX = /^(?:\/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+$/;

const MAX_PREFIX_LENGTH = 256;

/** Returns the path that a proxy has stripped; "" for none. */
function forwardedPrefix(request: Pick<GateRequest, "header">): string {
  const prefix = request.header("x-forwarded-prefix")?.trim().replace(/\/$/, "") ?? "";
  if (prefix === "" || (prefix.length <= MAX_PREFIX_LENGTH && PREFIX.test(prefix))) return prefix;
  throw new InvalidRequest(
    `X-Forwarded-Prefix is no path, or is sent more than once: write it plainly, with at most ${MAX_PREFIX_LENGTH} characters.`,
  );
}

/**
 * Returns the method as quotes bind it: with the prefix that a proxy has stripped. A client whose proxy passes the header
 * on could name a dear resource on a cheap route, and would take the quote there.
 */
export function quotedMethod(
  request: Pick<GateRequest, "method" | "header" | "resource">,
  { publicUrl, trustProxy }: Origin,
): string {
  const isStripped = publicUrl === undefined && trustProxy && request.resource === undefined;
  const prefix = isStripped ? forwardedPrefix(request) : "";
  return prefix === "" ? request.method : `${request.method} ${prefix}`;
}

const firstOf = (header: string | undefined): string | undefined => header?.split(",", 1)[0]?.trim() || undefined;

export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?$/i.test(host);
}

function isLocalSocket(address: string | undefined): boolean {
  return address === undefined || address === "::1" || /^(?:::ffff:)?127\./.test(address);
}
