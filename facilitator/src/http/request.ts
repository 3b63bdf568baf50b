/** Which site a client means to speak to, and from which page it speaks: told by itself, so believed on loopback alone. */
import type { Context } from "hono";
import { findNetwork, InvalidRequest, type Network, type TurnpikeError } from "turnpike/protocol";

/** The client's, as this process sees it: behind a proxy the proxy's. */
export function addressOf(context: Context): string {
  const incoming = (context.env as { incoming?: { socket?: { remoteAddress?: string } } } | undefined)?.incoming;
  return incoming?.socket?.remoteAddress ?? "unknown";
}

/** @throws InvalidRequest */
export function requireOwnNetwork(name: string | undefined, own: Network): void {
  if (name === undefined || findNetwork(name, [own])?.chainId === own.chainId) return;
  throw new InvalidRequest(`network: this Facilitator serves ${own.name}`, {
    details: { field: "network", in: "body", network: own.name },
  });
}

/** Waits for an answer's contents. @throws Unavailable when the service stops before they are there */
export type UntilEnd = <T extends object>(work: Promise<T>) => Promise<T>;

/** What every request carries with it through the handlers. */
export interface RequestScope {
  Variables: {
    requestId: string;
    /** the path's pattern, for logs and metrics: never the path itself with what a client put there */
    route: string;
    failure: TurnpikeError | undefined;
    /** logs that an answer broke off that was being sent */
    brokeOff: ((error: unknown) => void) | undefined;
    /** of the services */
    untilEnd: UntilEnd | undefined;
  };
}

export interface Site {
  /** the header Host */
  readonly host: string | undefined;
  /** the header Origin, which a page cannot choose */
  readonly page: string | undefined;
}

const LOOPBACK = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?$/i;

export function siteOf(context: Context): Site {
  return { host: context.req.header("host"), page: context.req.header("origin") };
}

/** @returns undefined where nobody told this service how browsers reach it, and the client is not on this machine */
export function ownOriginOf(publicUrl: string | undefined, { host }: Site): string | undefined {
  if (publicUrl !== undefined) return publicUrl;
  return host !== undefined && LOOPBACK.test(host) ? `http://${host.toLowerCase()}` : undefined;
}

/** A page that this service itself served on this machine: no other site's, also not one whose name leads here. */
export function isOwnLocalPage(site: Site): boolean {
  const own = ownOriginOf(undefined, site);
  return own !== undefined && site.page === own;
}
