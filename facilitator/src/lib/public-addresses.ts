/** Checks the URLs that providers name, and resolves their hosts. */
import { Resolver } from "node:dns/promises";
import { InvalidRequest } from "turnpike/protocol";
import { isClosedAddress, type Lookup } from "turnpike/public-lookup";

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
  const isLocalName = /(?:^|\.)(?:localhost|local|internal)\.?$/i.test(url.hostname);
  if (!allowPrivate && (isLocalName || isClosedAddress(url.hostname))) throw refused("must lead to a public address");
  return url.href;
}

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

const refused = (what: string) => new InvalidRequest(`url: ${what}`, { details: { field: "url", in: "body" } });
