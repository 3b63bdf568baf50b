/**
 * Keeps tool calls within the origin of their server. The MCP SDK's own policy on redirects depends on its release and
 * on the transport's options, so each call is sent by a fetch of this package.
 */
import { isRedirect, redirectTarget } from "../../agent/core/request";
import { ConfigError, PolicyRefused } from "../../protocol";

type Send = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** The HTTP transports of the MCP SDK keep these; the interface of a transport has no fields for them. */
interface HttpTransport {
  readonly _url?: unknown;
  _fetch?: Send | undefined;
}

const MAX_HOPS = 5;

const watched = new WeakSet<Send>();

/**
 * Makes a transport with a URL follow a tool call's redirects only within its origin. Other requests stay as they are.
 * @throws ConfigError for a transport whose requests are not sent by a fetch that can be replaced
 */
export function keepWithinOrigin(transport: unknown): void {
  const http = (transport ?? {}) as HttpTransport;
  if (!(http._url instanceof URL)) return;
  if (!("_fetch" in http)) {
    throw new ConfigError(
      "the client's transport cannot be kept within its origin: use StreamableHTTPClientTransport or SSEClientTransport of @modelcontextprotocol/sdk",
    );
  }
  const { _fetch: own, _url: home } = http;
  if (own && watched.has(own)) return;
  const send: Send = own ?? ((url, init) => fetch(url, init));
  const guarded: Send = (url, init) => (isToolCall(init) ? callWithin(home.origin, send, url, init) : send(url, init));
  watched.add(guarded);
  http._fetch = guarded;
}

/** The transports write a message as JSON without white space; what is sent to sign in is none of these. */
const isToolCall = (init: RequestInit | undefined): init is RequestInit =>
  typeof init?.body === "string" && init.body.includes('"method":"tools/call"');

/** @throws PolicyRefused for a redirect that leaves the origin, or that would change the call */
async function callWithin(origin: string, send: Send, url: string | URL, init: RequestInit): Promise<Response> {
  let target = new URL(url);
  for (let hop = 0; target.origin === origin && hop <= MAX_HOPS; hop++) {
    const response = await send(target, { ...init, redirect: "manual" });
    if (!isRedirect(response)) return response;
    await response.body?.cancel();
    const keepsBody = response.status === 307 || response.status === 308;
    const next = keepsBody ? redirectTarget(response, target.href) : undefined;
    if (!next) break;
    target = next;
  }
  const where = target.origin === origin ? "in a way that would change it, or too often" : "to another origin";
  throw new PolicyRefused(`The server redirects the call ${where}; the agent sends no call there.`, {
    reason: "redirect",
  });
}
