/**
 * Determines which site a client addresses and from which page it calls. Both are the client's own claim, so they are
 * trusted on loopback only.
 */
import type { Context } from "hono";
import { findNetwork, type Hex, InvalidRequest, type Network, type TurnpikeError } from "turnpike/protocol";
import type { RequestTrace } from "../telemetry/tracing";

/** The client's address as this process sees it: behind a proxy, the proxy's. */
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

/** @throws InvalidRequest for a name that no network has */
export function networkAsked({ network: name }: { readonly network?: string | undefined }): Network | undefined {
  if (name === undefined) return undefined;
  const network = findNetwork(name);
  if (network) return network;
  throw new InvalidRequest("network: must be a network's name, such as base-mainnet", {
    details: { field: "network", in: "query" },
  });
}

/** Waits for a response's contents. @throws Unavailable when the service stops first */
export type UntilEnd = <T extends object>(work: Promise<T>) => Promise<T>;

/** The context that every request carries through the handlers. */
export interface RequestScope {
  Variables: {
    requestId: string;
    /** the path's pattern, for logs and metrics: never the path itself, which contains client data */
    route: string;
    failure: TurnpikeError | undefined;
    paymentId: Hex | undefined;
    trace: RequestTrace | undefined;
    /** logs that a response broke off while it was sent */
    brokeOff: ((error: unknown) => void) | undefined;
    untilEnd: UntilEnd | undefined;
  };
}

export interface Site {
  readonly host: string | undefined;
  /** the header Origin, which a page cannot choose */
  readonly page: string | undefined;
}

const LOOPBACK = /^(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?$/i;

export function siteOf(context: Context): Site {
  return { host: context.req.header("host"), page: context.req.header("origin") };
}

/** @returns undefined when no public origin is configured and the client is not on this machine */
export function ownOriginOf(publicUrl: string | undefined, { host }: Site): string | undefined {
  if (publicUrl !== undefined) return publicUrl;
  return host !== undefined && LOOPBACK.test(host) ? `http://${host.toLowerCase()}` : undefined;
}

/**
 * Returns whether this service itself served the page on this machine. Other sites do not match, also not one whose
 * name resolves to this machine.
 */
export function isOwnLocalPage(site: Site): boolean {
  const own = ownOriginOf(undefined, site);
  return own !== undefined && site.page === own;
}
