/**
 * Keeps this service's connections for a provider to public addresses. A host name is checked when the socket connects.
 */
import type { LookupAddress, LookupOptions } from "node:dns";
import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import { InvalidRequest, isPublicAddress } from "turnpike/protocol";

export interface AddressPolicy {
  /** for local development: any address, and plain http */
  readonly allowPrivate: boolean;
}

/**
 * Checks what can be known of a URL before a connection.
 * @throws InvalidRequest
 */
export function checkPublicUrl(text: string, { allowPrivate }: AddressPolicy): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url) throw refused("must be a URL");
  if (url.protocol !== "https:" && !(allowPrivate && url.protocol === "http:"))
    throw refused("must begin with https://");
  if (url.username || url.password) throw refused("must not hold credentials");
  if (url.hash) throw refused("must not have a fragment");
  const host = bareHost(url.hostname);
  if (!allowPrivate && isIP(host) && !isPublicAddress(host)) throw refused("must lead to a public address");
  if (!allowPrivate && /(?:^|\.)(?:localhost|local|internal)\.?$/i.test(host)) {
    throw refused("must lead to a public address");
  }
  return url.href;
}

/** IPv6 addresses have brackets in URLs only. */
export const bareHost = (hostname: string): string => hostname.replace(/^\[|\]$/g, "");

/** The name currently resolves to an address that is not allowed. */
export class RefusedAddress extends Error {
  readonly code = "TURNPIKE_REFUSED_ADDRESS";
  constructor() {
    super("the name does not lead to a public address");
  }
}

export type Lookup = (
  hostname: string,
  options: LookupOptions,
  callback: (error: Error | null, address: string | LookupAddress[], family?: number) => void,
) => void;

/** For the first question; the second waits twice as long. */
const DNS_TIMEOUT_MS = 2_000;

/**
 * Resolves names by DNS alone. The system's own look-ups take threads that files and hashes need too, and names of
 * strangers can have all of them wait.
 */
export function dnsLookup(resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: 2 })): Lookup {
  return (hostname, { family }, callback) => {
    const of = async (version: 4 | 6) => {
      const found = await (version === 4 ? resolver.resolve4(hostname) : resolver.resolve6(hostname));
      return found.map((address) => ({ address, family: version }));
    };
    const versions = ([4, 6] as const).filter((version) => family !== (version === 4 ? 6 : 4));
    void Promise.allSettled(versions.map(of)).then((answers) => {
      const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
      const failed = answers.find((answer) => answer.status === "rejected");
      if (found.length === 0 && failed) callback(failed.reason, []);
      else callback(null, found);
    });
  };
}

/**
 * Creates a socket resolver that returns only public addresses. The socket connects to the returned address, so a DNS
 * change between check and connection has no effect.
 */
export function publicLookup(resolve = dnsLookup()): Lookup {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, []);
      const all = Array.isArray(found) ? found : [{ address: found, family: isIP(found) }];
      const open = all.filter(({ address }) => isPublicAddress(address));
      const [first] = open;
      if (!first) return callback(new RefusedAddress(), []);
      if (options.all) return callback(null, open);
      return callback(null, first.address, first.family);
    });
  };
}

const refused = (what: string) => new InvalidRequest(`url: ${what}`, { details: { field: "url", in: "body" } });
