/**
 * Sends requests that a model or a provider named: to public addresses only, and to the origins that the file allows.
 * A name is resolved once for each connection, and the connection goes to the address that was checked.
 */
import { lookup } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { pipeline, type Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { FetchFunction } from "../../agent/core/effects";
import { PolicyRefused } from "../../protocol";
import { isClosedAddress, type Lookup, publicLookup, RefusedAddress } from "../../public-lookup";
import type { Reach } from "./config";

/** Returns every address of a host name. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

const systemResolve: Resolve = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address);

/**
 * Creates a fetch that follows no redirect: each target is a request of its own, and is checked as such.
 * Its promise rejects with PolicyRefused for what the wallet may not reach; nothing is sent then.
 */
export function guardedFetch(
  reach: Pick<Reach, "allowHttp" | "origins" | "privateOrigins">,
  resolve: Resolve = systemResolve,
): FetchFunction {
  return async (input, init) => {
    const url = new URL(input);
    if (init.redirect !== "manual") throw new TypeError("the guarded fetch follows no redirects");
    requireAllowed(url, reach);
    const isPrivate = reach.privateOrigins.has(url.origin);
    if (!isPrivate && isClosedAddress(url.hostname)) throw notPublic(url);
    try {
      return await send(url, init, isPrivate ? undefined : publicLookup(lookupBy(resolve)));
    } catch (error) {
      init.signal?.throwIfAborted();
      if (error instanceof RefusedAddress) throw notPublic(url);
      // As fetch reports what it cannot reach: the agent reads the code of the cause.
      throw new TypeError("fetch failed", { cause: error });
    }
  };
}

/** @throws PolicyRefused for a URL that the file does not allow, whatever it resolves to */
export function requireAllowed(
  { origin, protocol, username, password }: URL,
  { allowHttp, origins, privateOrigins }: Pick<Reach, "allowHttp" | "origins" | "privateOrigins">,
): void {
  const isPrivate = privateOrigins.has(origin);
  if (username || password) throw unreachable("The URL holds credentials: send them in a header instead.");
  const isOutside = origins !== undefined && !origins.has(origin) && !isPrivate;
  if (protocol !== "https:" && !(protocol === "http:" && (allowHttp || isPrivate))) {
    const also = isOutside ? " It is not in `origins` either." : "";
    throw unreachable(
      `The wallet requests https only, and ${origin} is not: policy.allowHttp in its file allows http, and \`privateOrigins\` a server of your own machine or network.${also}`,
    );
  }
  if (isOutside) throw unreachable(`${origin} is not in \`origins\` of the wallet's file.`, "origin");
}

const unreachable = (message: string, reason = "address") => new PolicyRefused(message, { reason });

const notPublic = ({ origin }: URL) =>
  unreachable(`${origin} leads to no public address, and is not in \`privateOrigins\` of the wallet's file.`);

const lookupBy =
  (resolve: Resolve): Lookup =>
  (hostname, _options, callback) => {
    resolve(hostname).then(
      (found) =>
        callback(
          null,
          found.map((address) => ({ address, family: isIP(address) })),
        ),
      (error: Error) => callback(error, []),
    );
  };

function send(url: URL, init: RequestInit, lookup: Lookup | undefined): Promise<Response> {
  const request = url.protocol === "https:" ? requestHttps : requestHttp;
  const headers = Object.fromEntries(new Headers(init.headers));
  return new Promise((resolve, reject) => {
    const outgoing = request(url, {
      method: init.method ?? "GET",
      headers: { "accept-encoding": "gzip, deflate, br", accept: "*/*", "user-agent": "turnpike-wallet", ...headers },
      // A connection of its own: a kept one would not be checked again.
      agent: false,
      ...(init.signal && { signal: init.signal }),
      ...(lookup && { lookup: lookup as LookupFunction }),
    });
    outgoing.on("error", reject);
    outgoing.on("response", (incoming) => {
      try {
        resolve(responseOf(incoming));
      } catch (error) {
        incoming.destroy();
        reject(error);
      }
    });
    outgoing.end(init.body as Uint8Array | undefined);
  });
}

const DECODERS: Readonly<Record<string, () => NodeJS.ReadWriteStream>> = {
  gzip: createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/** Statuses whose responses have no body. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

function responseOf(incoming: IncomingMessage): Response {
  const { statusCode: status = 0, statusMessage: statusText = "", rawHeaders } = incoming;
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  if (BODILESS.has(status)) {
    incoming.resume();
    return new Response(null, { status, statusText, headers });
  }
  const decoder = DECODERS[headers.get("content-encoding")?.toLowerCase() ?? ""]?.();
  if (decoder) for (const name of ["content-encoding", "content-length"]) headers.delete(name);
  const body = decoder ? pipeline(incoming, decoder, () => undefined) : incoming;
  return new Response(webStream(incoming, body as Readable), { status, statusText, headers });
}

/**
 * Returns a body that is read on demand alone. `Readable.toWeb` pushes instead, and ends the process when a decoder has
 * more to push after the reader has cancelled.
 */
function webStream(incoming: IncomingMessage, body: Readable): ReadableStream<Uint8Array> {
  // A stream that fails before it is read, or after it was cancelled, has nobody to report to.
  for (const stream of [incoming, body]) stream.on("error", () => undefined);
  const chunks = body[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      // The reader gets the error of a body that breaks off.
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel() {
        body.destroy();
        incoming.destroy();
      },
    },
    { highWaterMark: 0 },
  );
}
