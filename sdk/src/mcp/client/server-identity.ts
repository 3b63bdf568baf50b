/** Identifies the server of a client: by its URL, or by the name that the user gives to one without a URL. */
import { isPrivateChannel, originAndPath } from "../../agent/core/request";
import { ConfigError } from "../../protocol";

/** What the ledger, subscriptions and limits know a server by. */
export interface ServerIdentity {
  /** the URL without its fragment, or `stdio:<name>` */
  readonly id: string;
  /** the part of `id` that may be shown */
  readonly place: string;
  /** where a subscription has to be recorded to be used here: the URL's origin, or `stdio:<name>` */
  readonly origin: string;
  /** whether nothing on the way can read or change what is sent: stdio, https, or this machine */
  readonly isPrivate: boolean;
  /** whether a subscription's secret id may be sent there: stdio or https */
  readonly isConfidential: boolean;
  readonly url: URL | undefined;
}

const NAME = /^[\w.-]{1,64}$/;

/** @throws ConfigError for what is neither an http(s) URL nor a name */
export function serverIdentity(server: string | URL): ServerIdentity {
  const text = typeof server === "string" || server instanceof URL ? String(server) : "";
  if (NAME.test(text)) {
    const id = `stdio:${text}`;
    return { id, place: id, origin: id, isPrivate: true, isConfidential: true, url: undefined };
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError(
      "server must be the server's http(s) URL, or for stdio a name of 1 to 64 letters, digits and _ . -",
    );
  }
  url.hash = "";
  return {
    id: url.href,
    place: originAndPath(url.href),
    origin: url.origin,
    url,
    isPrivate: isPrivateChannel(url.href),
    isConfidential: url.protocol === "https:",
  };
}

/**
 * Checks the transport that a client has connected with: an id for stdio never leaves over HTTP, and a URL's id goes
 * there alone.
 * @throws ConfigError
 */
export function requireServer({ url, place }: ServerIdentity, transport: unknown): void {
  // The HTTP transports of the MCP SDK keep their URL here; the interface of a transport has no field for it.
  const { _url: connected } = (transport ?? {}) as { readonly _url?: unknown };
  if (!(connected instanceof URL)) return;
  const found = originAndPath(connected.href);
  if (url === undefined) {
    throw new ConfigError(`server is ${place}, and the client is connected to ${found}: give that URL as \`server\``);
  }
  if (found !== place) {
    throw new ConfigError(`server is ${place}, and the client is connected to another URL, ${found}`);
  }
  // A query can hold a key: it is not shown.
  if (connected.search !== url.search) {
    throw new ConfigError(
      `server is ${place}, and the client is connected to it with another query: give the transport's URL as \`server\``,
    );
  }
}
