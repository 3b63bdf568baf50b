/** The same gated routes behind every framework there is an adapter for, each with its most lenient router. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import decoder from "node:querystring";
import { Readable } from "node:stream";
import express, { type Request as ExpressRequest, type Response as ExpressResponse } from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { type GateOptions, gated, type Payment, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { type FetchGate, fetchGate } from "turnpike/gate/fetch";
import { honoGate, type PaidVariables } from "turnpike/gate/hono";
import { nextGate } from "turnpike/gate/next";
import { closeServer, fetchServer, listen } from "../../../support/gate";

export interface Handled {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<string>;
}

export interface Asked {
  readonly payment: Payment;
  /** of the request as its handler sees it; `name` in lower case */
  header(name: string): string | undefined;
  body(): Promise<Uint8Array>;
}

export interface RouteSpec {
  /** below `/api`, where the framework mounts it */
  readonly path: string;
  readonly gate: GateOptions<never>;
  readonly handle: (asked: Asked) => Handled | Promise<Handled>;
}

export interface AdapterServer {
  readonly url: string;
  /** how many clients hold one open */
  connections(): Promise<number>;
  stop(): Promise<void>;
}

export const PREFIX = "/api";

type Start = (provider: Provider, routes: readonly RouteSpec[]) => Promise<AdapterServer>;

/** Not typed: an alias of another version of Express. */
export const express4 = createRequire(__filename)("express4") as typeof express;

export const ADAPTERS: Readonly<Record<string, Start>> = {
  "Express 5": (provider, routes) => startExpress(express, provider, routes),
  "Express 4": (provider, routes) => startExpress(express4, provider, routes),
  Hono: startHono,
  Fastify: startFastify,
  "node:http": startNode,
  fetch: (provider, routes) => startFetch((options) => fetchGate(provider.gate(options)), routes),
  "a Next.js route handler": (provider, routes) =>
    startFetch((options) => nextGate(provider.gate(options)) as FetchGate, routes),
};

async function startExpress(make: typeof express, provider: Provider, routes: readonly RouteSpec[]) {
  const app = make();
  const api = make.Router();
  for (const { path, gate, handle } of routes) {
    const run = async (request: ExpressRequest, response: ExpressResponse) => {
      const payment = request.payment as Payment;
      await writeTo(response, await handle({ ...nodeAsked(request), payment }));
    };
    // Express 4 knows nothing of promises: as its users do, errors are handed to `next`.
    api.all(
      path,
      expressGate(provider.gate(gate)),
      (request, response, next) => void run(request, response).catch(next),
    );
  }
  app.use(PREFIX, api);
  return serving(createServer(app));
}

async function startHono(provider: Provider, routes: readonly RouteSpec[]): Promise<AdapterServer> {
  const api = new Hono<{ Variables: PaidVariables }>({ strict: false });
  for (const { path, gate, handle } of routes) {
    api.all(path, honoGate(provider.gate(gate)), async (c) => {
      const payment: Payment = c.get("payment");
      const header = (named: string) => c.req.header(named);
      return responseOf(await handle({ payment, header, body: async () => new Uint8Array(await c.req.arrayBuffer()) }));
    });
  }
  const app = new Hono({ strict: false }).route(PREFIX, api as never);
  return servingFetch((request, env) => app.fetch(request, env));
}

async function startFastify(provider: Provider, routes: readonly RouteSpec[]): Promise<AdapterServer> {
  const routerOptions = { ignoreTrailingSlash: true, ignoreDuplicateSlashes: true, caseSensitive: false };
  const app = fastify({ bodyLimit: 8_000_000, routerOptions });
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  await app.register(
    async (api) => {
      for (const { path, gate, handle } of routes) {
        api.route({
          method: ["GET", "HEAD", "POST", "OPTIONS"],
          url: path,
          preHandler: fastifyGate(provider.gate(gate)),
          handler: async (request, reply) => {
            const payment = request.payment as Payment;
            const { body: bytes } = request;
            const asked = { ...nodeAsked(request), body: async () => (bytes ?? new Uint8Array()) as Uint8Array };
            const made = await handle({ ...asked, payment });
            const { status = 200, headers = {}, body = grantOf(payment) } = made;
            const isWhole = typeof body === "string" || body instanceof Uint8Array;
            return reply
              .code(status)
              .headers(headers)
              .send(isWhole ? body : Readable.from(body));
          },
        });
      }
    },
    { prefix: PREFIX },
  );
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  return {
    url,
    connections: () => connectionsOf(app.server),
    async stop() {
      app.server.closeAllConnections();
      await app.close();
    },
  };
}

async function startNode(provider: Provider, routes: readonly RouteSpec[]): Promise<AdapterServer> {
  const listeners = routes.map(({ path, gate, handle }) => ({
    path,
    listener: gated(provider.paymentGate(gate), async (request, response) => {
      const payment = request.payment as Payment;
      await writeTo(response, await handle({ ...nodeAsked(request), payment }));
    }),
  }));
  return serving(
    createServer((request, response) => {
      const found = routed(listeners, request.url ?? "/");
      if (found) found.listener(request, response);
      else response.writeHead(404).end();
    }),
  );
}

async function startFetch(
  gateOf: (options: GateOptions<never>) => FetchGate,
  routes: readonly RouteSpec[],
): Promise<AdapterServer> {
  const handlers = routes.map(({ path, gate, handle }) => ({
    path,
    handler: gateOf(gate)(async (request, _context: { params: Promise<object> }) => {
      const { payment } = request;
      const header = (named: string) => request.headers.get(named) ?? undefined;
      const made = await handle({ payment, header, body: async () => new Uint8Array(await request.arrayBuffer()) });
      return responseOf({ ...made, body: made.body ?? grantOf(payment) });
    }),
  }));
  return servingFetch(async (request, env) => {
    const target = request.url.slice(request.url.indexOf("/", 8));
    const found = routed(handlers, target);
    return found
      ? found.handler(request, { ...env, params: Promise.resolve({}) })
      : new Response(null, { status: 404 });
  });
}

/** "/:any" takes whatever is below the prefix and nothing else's. */
function routed<T extends { readonly path: string }>(routes: readonly T[], target: string): T | undefined {
  const found = lenient(target);
  const exact = routes.find(({ path }) => `${PREFIX}${path}` === found || `${PREFIX}${path}` === target.split("?")[0]);
  return exact ?? routes.find(({ path }) => path === "/:any" && found?.startsWith(`${PREFIX}/`));
}

/** The worst router an application could write: decodes, resolves, folds slashes and case. */
function lenient(target: string): string {
  const { pathname } = new URL(target.replaceAll("\\", "/").replace(/^\/+/, "/"), "http://router");
  const decoded = decoder.unescape(pathname);
  return new URL(decoded.replace(/\/+/g, "/"), "http://router").pathname.replace(/(.)\/$/, "$1").toLowerCase();
}

// ------------------------------------------------------------------ answers

export const grantOf = (payment: Payment): string =>
  JSON.stringify({ kind: payment.kind, ...(payment.kind === "one-time" ? { payer: payment.payer } : {}) });

const nodeAsked = (request: Pick<IncomingMessage, "headers">) => ({
  header: (name: string) => request.headers[name] as string | undefined,
  body: () => bytesOf(request as IncomingMessage),
});

async function writeTo(response: ServerResponse, made: Handled): Promise<void> {
  const { status = 200, headers = {}, body } = made;
  const paid = (response as ServerResponse & { req: { payment: Payment } }).req.payment;
  response.writeHead(status, headers);
  if (body === undefined) response.end(grantOf(paid));
  else if (typeof body === "string" || body instanceof Uint8Array) response.end(body);
  else {
    for await (const part of body) if (!response.write(part)) await drained(response);
    response.end();
  }
}

async function drained(response: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    response.once("drain", resolve);
    response.once("close", resolve);
  });
}

function responseOf({ status = 200, headers = {}, body = "" }: Handled): Response {
  if ([204, 304].includes(status)) return new Response(null, { status, headers });
  if (typeof body === "string" || body instanceof Uint8Array)
    return new Response(body as BodyInit, { status, headers });
  return new Response(Readable.toWeb(Readable.from(encoded(body))) as ReadableStream, { status, headers });
}

async function* encoded(parts: AsyncIterable<string>): AsyncIterable<Uint8Array> {
  for await (const part of parts) yield Buffer.from(part);
}

async function bytesOf(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

// ------------------------------------------------------------------ servers

async function serving(server: Server): Promise<AdapterServer> {
  return { url: await listen(server), connections: () => connectionsOf(server), stop: () => closeServer(server) };
}

async function servingFetch(
  fetch: (request: Request, env: object) => Response | Promise<Response>,
): Promise<AdapterServer> {
  return serving(fetchServer(fetch));
}

const connectionsOf = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
