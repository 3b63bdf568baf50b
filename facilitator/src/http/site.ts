/** Which site a client means to speak to, and from which page it speaks: told by itself, so believed on loopback alone. */
import type { Context } from "hono";

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
