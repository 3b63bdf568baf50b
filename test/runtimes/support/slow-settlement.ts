/** An upstream whose bodies are sold, and a Facilitator that settles each payment only once its body has stalled. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { closeServer, listen } from "../../support/gate";
import { until } from "../../support/until";

/** How long a settlement takes besides. */
const SETTLES_MS = 2_000;

const PART = 16_384;

interface Body {
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** No two lines alike, so that nothing can be lost, doubled or out of order. */
const lines = (count: number): string => Array.from({ length: count }, (_, n) => `data: line ${n}\n\n`).join("");

const [SHORT, LONG] = [lines(5_000), lines(250_000)];

const PLAIN = { "content-type": "text/plain" };

/** By path: what is withheld whole, what is too long for that, and what streams from its first byte. */
const BODIES: Readonly<Record<string, Body>> = {
  "/relay/short": { text: SHORT, headers: PLAIN },
  "/relay/long": { text: LONG, headers: PLAIN },
  "/relay/declared": { text: LONG, headers: { ...PLAIN, "content-length": String(LONG.length) } },
  "/relay/events": { text: SHORT, headers: { "content-type": "text/event-stream" } },
};

export interface Upstream {
  readonly url: string;
  readonly bodies: typeof BODIES;
  /** whether a body was sent to its end, or is sent no further */
  hasStalled(path: string): boolean;
  stop(): Promise<void>;
}

export async function startUpstream(): Promise<Upstream> {
  const last = new Map<string, ServerResponse>();
  const server = createServer((request, response) => {
    const { url = "" } = request;
    const { text: body = "", headers = {} } = BODIES[url] ?? {};
    last.set(url, response);
    response.writeHead(200, { ...headers, connection: "close" });
    let at = 0;
    const write = (): void => {
      while (at < body.length) {
        at += PART;
        if (!response.write(body.slice(at - PART, at))) return void response.once("drain", write);
      }
      response.end();
    };
    write();
  });
  return {
    url: await listen(server),
    bodies: BODIES,
    hasStalled: (path) => last.get(path)?.writableFinished === true || last.get(path)?.writableNeedDrain === true,
    stop: () => closeServer(server),
  };
}

/** Passes everything on, and settlements late. */
export async function startSlowSettlement(facilitatorUrl: string, upstream: Upstream) {
  const settled: string[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    if (request.url === "/settle") {
      const { pathname } = new URL((JSON.parse(body) as { grant: { resource: string } }).grant.resource);
      settled.push(pathname);
      await until(async () => upstream.hasStalled(pathname), `${pathname} is sent or stalls`);
      await new Promise((resolve) => setTimeout(resolve, SETTLES_MS));
    }
    await passOn(facilitatorUrl, { request, body, response });
  });
  return { url: await listen(server), settled, stop: () => closeServer(server) };
}

/** A server that accepts requests and answers none, until it is woken and passes on those to come. */
export async function startSilent(url: string) {
  let isAwake = false;
  const server = createServer(async (request, response) => {
    const body = await text(request);
    if (isAwake) await passOn(url, { request, body, response });
  });
  return {
    url: await listen(server),
    wake: () => {
      isAwake = true;
    },
    stop: () => closeServer(server),
  };
}

interface Passed {
  readonly request: IncomingMessage;
  readonly body: string;
  readonly response: ServerResponse;
}

async function passOn(url: string, { request, body, response }: Passed): Promise<void> {
  const { method = "GET", headers } = request;
  const { authorization } = headers;
  const answer = await fetch(`${url}${request.url}`, {
    method,
    ...(body && { body }),
    headers: { "content-type": "application/json", ...(authorization && { authorization }) },
  });
  response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
  response.end(await answer.text());
}
