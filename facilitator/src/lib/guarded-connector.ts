/** Connects to hosts that a provider named: only to public addresses, within a bounded time. */
import type { DELIVERY_ERRORS } from "turnpike/facilitator";
import { isClosedAddress, type Lookup, publicLookup, RefusedAddress } from "turnpike/public-lookup";
import { buildConnector } from "undici";
import { dnsLookup } from "./public-addresses";

export interface ConnectorOptions {
  /** for local development: any address */
  readonly allowPrivate: boolean;
  readonly timeoutMs: number;
  /** resolver of host names; default: DNS, or the system's where any address is allowed */
  readonly lookup?: Lookup;
}

/** Checks IP addresses in the URL itself: the lookup hook is not called for those. */
export function guardedConnector({ allowPrivate, timeoutMs, lookup }: ConnectorOptions): buildConnector.connector {
  const timeout = timeoutMs;
  if (allowPrivate) return buildConnector({ timeout, ...(lookup && { lookup }) } as buildConnector.BuildOptions);
  const connect = buildConnector({
    timeout,
    lookup: publicLookup(lookup ?? dnsLookup()),
  } as buildConnector.BuildOptions);
  return (options, callback) => {
    if (isClosedAddress(options.hostname)) return callback(new RefusedAddress(), null);
    return connect(options, callback);
  };
}

/** Returns why a connection or a response failed. */
export function connectionFault(error: unknown): (typeof DELIVERY_ERRORS)[number] {
  const { code: given = "", syscall } = error as { code?: unknown; syscall?: unknown };
  const code = String(given);
  if (error instanceof RefusedAddress) return "address";
  if (/^query/.test(String(syscall))) return "dns";
  if (/TIMEOUT|UND_ERR_ABORTED/.test(code)) return "timeout";
  if (/^(ENOTFOUND|EAI_|ENODATA)/.test(code)) return "dns";
  if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/.test(code)) return "tls";
  if (/^(HPE_|UND_ERR_RESPONSE|UND_ERR_HEADERS_OVERFLOW|UND_ERR_INVALID)/.test(code)) return "protocol";
  return "connection";
}
