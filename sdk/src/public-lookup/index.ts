/**
 * Keeps connections on behalf of somebody who is not trusted to public addresses: the guard of the Facilitator's webhooks
 * and listings, and of the wallet for assistants. A host name is checked when the socket connects.
 */
import type { LookupAddress, LookupOptions } from "node:dns";
import { isIP } from "node:net";
import { isPublicAddress } from "../protocol";

/** The name currently resolves to an address that is not allowed. */
export class RefusedAddress extends Error {
  readonly code = "ERR_REFUSED_ADDRESS";
  constructor() {
    super("the name does not lead to a public address");
  }
}

/** Resolves a host name, as sockets ask for it. */
export type Lookup = (
  hostname: string,
  options: LookupOptions,
  callback: (error: Error | null, address: string | LookupAddress[], family?: number) => void,
) => void;

/**
 * Returns whether a URL's host is an IP address that is not public. Sockets resolve no such host, so that the lookup does
 * not see it.
 */
export function isClosedAddress(hostname: string): boolean {
  // IPv6 addresses have brackets in URLs only.
  const host = hostname.replace(/^\[|\]$/g, "");
  return isIP(host) !== 0 && !isPublicAddress(host);
}

/**
 * Creates a socket resolver that returns only public addresses. The socket connects to the returned address, so a DNS
 * change between check and connection has no effect.
 */
export function publicLookup(resolve: Lookup): Lookup {
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
