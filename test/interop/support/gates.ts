/** This project's gate on every adapter, each as a server of its own with the same routes. */
import { createServer, type Server } from "node:http";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import type { GateOptions, Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import { nodeGate } from "turnpike/gate/node";
import { closeServer, listen } from "../../support/gate";

export interface Served {
  readonly url: string;
  /** how often the handlers ran */
  readonly runs: () => number;
  /** base URL of a path, where not all are on one server */
  readonly at?: (path: string) => string;
  stop(): Promise<void>;
}

// Without types of its own, but with the same shape.
const express4: typeof express = require("express4");

/** path -> what it costs */
export type Routes = Readonly<Record<string, GateOptions<never>>>;

type Start = (provider: Provider, routes: Routes) => Promise<Served>;

const BODY = JSON.stringify({ answer: 42 });

export const ADAPTERS: Readonly<Record<string, Start>> = {
  express: (provider, routes) => onExpress(express(), provider, routes),
  "express 4": (provider, routes) => onExpress(express4(), provider, routes),
  async hono(provider, routes) {
    const count = counter();
    const app = new Hono();
    for (const [path, gate] of Object.entries(routes)) {
      app.get(path, honoGate(provider.gate(gate)) as never, (c) => {
        count.add();
        return c.json({ answer: 42 });
      });
    }
    return onFetch(app.fetch as never, count);
  },
  async fastify(provider, routes) {
    const count = counter();
    const app = fastify();
    for (const [path, gate] of Object.entries(routes)) {
      app.get(path, { preHandler: fastifyGate(provider.gate(gate)) as never }, async () => {
        count.add();
        return { answer: 42 };
      });
    }
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return { url, runs: count.read, stop: () => app.close() as unknown as Promise<void> };
  },
  async "node:http"(provider, routes) {
    const count = counter();
    const gates = new Map(Object.entries(routes).map(([path, gate]) => [path, nodeGate(provider.gate(gate))]));
    const server = createServer((request, response) => {
      const gate = gates.get((request.url ?? "").split("?", 1)[0] ?? "");
      if (!gate) return void response.writeHead(404).end();
      gate(request, response, (error?: unknown) => {
        if (error) return void response.writeHead(500).end();
        count.add();
        response.writeHead(200, { "Content-Type": "application/json" }).end(BODY);
      });
    });
    return { url: await listen(server), runs: count.read, stop: () => closeServer(server) };
  },
  async fetch(provider, routes) {
    const count = counter();
    const handlers = new Map(
      Object.entries(routes).map(([path, gate]) => [
        path,
        fetchGate(provider.gate(gate))(() => {
          count.add();
          return new Response(BODY, { headers: { "Content-Type": "application/json" } });
        }),
      ]),
    );
    return onFetch(async (request) => {
      const handler = handlers.get(new URL(request.url).pathname);
      return handler ? handler(request) : new Response(null, { status: 404 });
    }, count);
  },
};

interface Counter {
  add(): void;
  read(): number;
}

export function counter(): Counter {
  let runs = 0;
  return {
    add: () => {
      runs++;
    },
    read: () => runs,
  };
}

async function onExpress(app: express.Express, provider: Provider, routes: Routes): Promise<Served> {
  const count = counter();
  for (const [path, gate] of Object.entries(routes)) {
    app.get(path, expressGate(provider.gate(gate)), (_request, response) => {
      count.add();
      response.type("json").send(BODY);
    });
  }
  const server = createServer(app);
  return { url: await listen(server), runs: count.read, stop: () => closeServer(server) };
}

export async function onFetch(
  handle: (request: Request) => Response | Promise<Response>,
  count: Counter,
): Promise<Served> {
  const server = await new Promise<Server>((resolve) => {
    const started = serve({ fetch: handle as never, port: 0, hostname: "127.0.0.1" }, () =>
      resolve(started as Server),
    ) as Server;
  });
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return { url: `http://127.0.0.1:${port}`, runs: count.read, stop: () => closeServer(server) };
}
