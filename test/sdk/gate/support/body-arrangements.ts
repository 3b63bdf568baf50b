/** Where a gate with `bind: "body"` may be mounted, and the ways in which prices and handlers read the body there. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { text } from "node:stream/consumers";
import { getRequestListener } from "@hono/node-server";
import express, { type Request as ExpressRequest } from "express";
import fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import { Hono } from "hono";
import type { Gate } from "turnpike/gate";
import { gated } from "turnpike/gate";
import { expressGate, keepBody } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import { nextGate } from "turnpike/gate/next";
import { nodeGate } from "../../../../sdk/src/gate/adapters/node-gate";
import { listen } from "../../../support/gate";
import { express4 } from "./frameworks";

type Read = (raw: never) => string | Promise<string>;

export interface Arrangement {
  /** Serves `POST /x` behind the gates; answers `{ body }` with the text that the handler read. */
  start(gates: readonly Gate[]): Promise<Started>;
  /** how a price function gets the body's text, by name */
  readonly reads: Readonly<Record<string, Read>>;
}

export interface Started {
  readonly url: string;
  stop(): Promise<void>;
}

const parsed: Read = ({ body }: { body: unknown }) => JSON.stringify(body);
const kept: Read = ({ rawBody }: { rawBody: Uint8Array }) => Buffer.from(rawBody).toString();
const stream: Read = (request: IncomingMessage) => text(request);
const events: Read = (request: IncomingMessage) =>
  new Promise((resolve) => {
    let read = "";
    request.on("data", (chunk: Buffer) => (read += chunk.toString())).on("end", () => resolve(read));
  });
const partly: Read = async (request: IncomingMessage) => {
  const [first] = await request.take(1).toArray();
  return String(first);
};
const NODE_READS = { "req.body": parsed, "req.rawBody": kept, "the stream": stream, events, "take(1)": partly };

const FETCH_READS: Record<string, Read> = {
  "request.json()": async (request: Request) => JSON.stringify(await request.json()),
  "request.clone().text()": (request: Request) => request.clone().text(),
  "request.body": async ({ body }: Request) => text(body as never),
  "request.arrayBuffer()": async (request: Request) => Buffer.from(await request.arrayBuffer()).toString(),
};
type HonoRequest = { req: { raw: Request; json(): Promise<unknown>; text(): Promise<string> } };
const HONO_READS: Record<string, Read> = {
  "c.req.json()": async ({ req }: HonoRequest) => JSON.stringify(await req.json()),
  "c.req.text()": ({ req }: HonoRequest) => req.text(),
  "c.req.raw.text()": ({ req }: HonoRequest) => req.raw.text(),
  "c.req.raw.clone()": ({ req }: HonoRequest) => req.raw.clone().text(),
};

export async function serving(server: ReturnType<typeof createServer>): Promise<Started> {
  const url = await listen(server);
  const stop = (): Promise<void> => {
    server.closeAllConnections?.();
    return new Promise((resolve) => server.close(() => resolve()));
  };
  return { url, stop };
}

// biome-ignore lint/suspicious/noExplicitAny: Express 4 and 5 have one shape here
type ExpressKind = any;

/** @param order of "parser" and "gate", as they are mounted */
function withExpress(make: ExpressKind, order: string, parser?: ExpressKind) {
  return (gates: readonly Gate[]): Promise<Started> => {
    const app = make();
    // Express logs what its own parser meets, such as a client that leaves.
    app.set("env", "test");
    const middlewares = order
      .split(" ")
      .flatMap((part) => (part === "gate" ? gates.map((gate) => expressGate(gate)) : [parser]));
    app.post("/x", ...middlewares, async (request: ExpressRequest, response: ServerResponse) => {
      const { body } = request;
      const read =
        parser === undefined
          ? await text(request)
          : typeof body === "string" || Buffer.isBuffer(body)
            ? String(body)
            : JSON.stringify(body);
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify({ body: read }));
    });
    return serving(createServer(app));
  };
}

type Mounting = (app: FastifyInstance, gates: ReturnType<typeof fastifyGate>[]) => object;

function withFastify(mount: Mounting) {
  return async (gates: readonly Gate[]): Promise<Started> => {
    const app = fastify();
    const options = mount(
      app,
      gates.map((gate) => fastifyGate(gate)),
    );
    app.post("/x", options, async ({ body }: FastifyRequest) => ({
      body: Buffer.isBuffer(body) ? body.toString() : JSON.stringify(body),
    }));
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return { url, stop: () => app.close() };
  };
}

const nested = (gates: readonly Gate[], wrap: typeof fetchGate) => {
  const handler = async (request: Request) => Response.json({ body: await request.text() });
  return gates.reduceRight<(request: Request) => Promise<Response>>((inner, gate) => wrap(gate)(inner), handler);
};

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

async function startNode(gates: readonly Gate[]): Promise<Started> {
  const respond: Listener = async (request, response) => {
    response.end(JSON.stringify({ body: await text(request) }));
  };
  const listener = gates.reduceRight<Listener>((inner, gate) => gated(nodeGate(gate), inner), respond);
  return serving(createServer(listener));
}

async function startHttp2(gates: readonly Gate[]): Promise<Started> {
  const [gate] = gates;
  const listener = gated(nodeGate(gate as Gate), async (request, response) => {
    response.end(JSON.stringify({ body: await text(request) }));
  });
  return serving(createHttp2Server(listener as never) as never);
}

async function startHono(gates: readonly Gate[]): Promise<Started> {
  const app = new Hono();
  app.post("/x", ...(gates.map((gate) => honoGate(gate)) as [never]), (async (c: HonoRequest) =>
    Response.json({ body: await c.req.raw.text() })) as never);
  return serving(createServer(getRequestListener(app.fetch)));
}

const json = (make: ExpressKind) => make.json({ verify: keepBody });
const both = <T>(name: string, made: (make: ExpressKind) => T): Record<string, T> => ({
  [`Express 5, ${name}`]: made(express),
  [`Express 4, ${name}`]: made(express4),
});
const fromFetch = (wrap: typeof fetchGate) => async (gates: readonly Gate[]) =>
  serving(createServer(getRequestListener(nested(gates, wrap))));

export const ARRANGEMENTS: Readonly<Record<string, Arrangement>> = {
  ...both("the gate alone", (make) => ({ start: withExpress(make, "gate"), reads: NODE_READS })),
  ...both("the gate before json()", (make) => ({
    start: withExpress(make, "gate parser", make.json()),
    reads: NODE_READS,
  })),
  ...both("the gate after json({ verify: keepBody })", (make) => ({
    start: withExpress(make, "parser gate", json(make)),
    reads: { "req.body": parsed, "req.rawBody": kept },
  })),
  ...both("the gate after raw()", (make) => ({
    start: withExpress(make, "parser gate", make.raw({ type: "*/*" })),
    reads: { "req.body": ({ body }: { body: Buffer }) => body.toString() },
  })),
  ...both("the gate after text()", (make) => ({
    start: withExpress(make, "parser gate", make.text({ type: "*/*" })),
    reads: { "req.body": ({ body }: { body: string }) => body },
  })),
  "Fastify, onRequest": {
    start: withFastify((_app, gates) => ({ onRequest: gates })),
    reads: { "req.body": parsed, "req.rawBody": kept, "req.raw": ({ raw }: FastifyRequest) => text(raw) },
  },
  "Fastify, preParsing": {
    start: withFastify((_app, gates) => ({ preParsing: gates })),
    reads: { "req.body": parsed, "req.rawBody": kept, "req.raw": ({ raw }: FastifyRequest) => text(raw) },
  },
  "Fastify, preHandler after a parser of buffers": {
    start: withFastify((app, preHandler) => {
      app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
      return { preHandler };
    }),
    reads: { "req.body": ({ body }: { body: Buffer }) => body.toString() },
  },
  "Fastify, preHandler behind a kept rawBody": {
    start: withFastify((app, preHandler) => {
      app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
        Object.assign(request, { rawBody: body });
        done(null, JSON.parse(body.toString()));
      });
      return { preHandler };
    }),
    reads: { "req.body": parsed, "req.rawBody": kept },
  },
  "node:http": { start: startNode, reads: NODE_READS },
  Hono: { start: startHono, reads: HONO_READS },
  fetch: { start: fromFetch(fetchGate), reads: FETCH_READS },
  "a Next.js route handler": { start: fromFetch(nextGate as never), reads: FETCH_READS },
};

export const HTTP2: Arrangement = { start: startHttp2, reads: NODE_READS };
