/** A paid request whose body never arrives whole has bought nothing: its payment serves the next attempt. */
import { once } from "node:events";
import { request as ask, createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { expect } from "chai";
import express from "express";
import fastify from "fastify";
import { Hono, type HonoRequest } from "hono";
import { type GateOptions, gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { type FetchGate, fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import { nextGate } from "turnpike/gate/next";
import {
  closeServer,
  fetchServer,
  headerOf,
  listen,
  ONE_TIME,
  proofOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { v1Headers } from "../support/standard";

/** Opens POST /data, which calls `onRun` with each run of its parser or handler that has ended, and how. */
type Start = (provider: Provider, options: GateOptions<never>, onRun: (how: string) => void) => Promise<Server>;

const startExpress =
  (make: typeof express): Start =>
  async (provider, options, onRun) => {
    const app = make();
    app.post("/data", expressGate(provider.gate(options)), make.json(), (_request, response) => {
      response.json({ ok: true });
    });
    app.use((error: { type?: string }, _request: unknown, response: express.Response, _next: unknown) => {
      response.status(400).json({ error: error.type });
      onRun(String(error.type));
    });
    return createServer(app);
  };

const READS: Readonly<Record<string, (request: Request) => Promise<unknown>>> = {
  "json()": (request) => request.json(),
  "arrayBuffer()": (request) => request.arrayBuffer(),
  "a clone's text()": (request) => request.clone().text(),
  "a reader": async (request) => {
    const reader = (request.body as ReadableStream<Uint8Array>).getReader();
    while (!(await reader.read()).done);
  },
  body: async (request) => {
    for await (const _part of request.body as unknown as AsyncIterable<Uint8Array>) await Promise.resolve();
  },
};

/** @param status of the answer to half an upload; the handler need not look whether it came whole */
const startFetch =
  (gateOf: (provider: Provider, options: GateOptions<never>) => FetchGate, how: string, status = 400): Start =>
  async (provider, options, onRun) => {
    const fetch = gateOf(
      provider,
      options,
    )(async (request) => {
      const cut = await READS[how]?.(request).then(
        () => undefined,
        () => Response.json({ error: "cut" }, { status }),
      );
      if (cut) onRun("cut");
      return cut ?? Response.json({ ok: true });
    });
    return fetchServer(fetch as never);
  };

const startHono =
  (read: (request: HonoRequest) => Promise<unknown>, status: 200 | 400 = 400): Start =>
  async (provider, options, onRun) => {
    const app = new Hono();
    app.post("/data", honoGate(provider.gate(options)), async (c) => {
      try {
        await read(c.req);
      } catch {
        onRun("cut");
        return c.json({ error: "cut" }, status);
      }
      return c.json({ ok: true });
    });
    return fetchServer(app.fetch as never);
  };

const FRAMEWORKS: Readonly<Record<string, Start>> = {
  "Express 5": startExpress(express),
  "Express 4": startExpress(createRequire(__filename)("express4") as typeof express),
  async Fastify(provider, options, onRun) {
    const app = fastify();
    const onRequest = fastifyGate(provider.gate(options));
    app.post("/data", { onRequest }, async () => ({ ok: true }));
    app.setErrorHandler((_error, _request, reply) => {
      void reply.code(400).send({ error: "cut" });
      onRun("cut");
    });
    await app.ready();
    return app.server;
  },
  async "node:http"(provider, options, onRun) {
    return createServer(
      gated(provider.paymentGate(options), async (request, response) => {
        const parts: unknown[] = [];
        try {
          for await (const part of request) parts.push(part);
          response.end(JSON.stringify({ ok: true }));
        } catch {
          response.writeHead(400).end("cut");
          onRun("cut");
        }
      }),
    );
  },
  async "node:http, as if it were whole"(provider, options, onRun) {
    return createServer(
      gated(provider.paymentGate(options), async (request, response) => {
        const parts: unknown[] = [];
        try {
          for await (const part of request) parts.push(part);
        } catch {
          onRun("cut");
        }
        response.end(JSON.stringify({ ok: true }));
      }),
    );
  },
  "Hono's json()": startHono((request) => request.json()),
  "Hono's text()": startHono((request) => request.text()),
  "fetch, json()": startFetch((provider, options) => fetchGate(provider.gate(options)), "json()"),
  "fetch, body": startFetch((provider, options) => fetchGate(provider.gate(options)), "body"),
  "a Next.js route handler": startFetch((provider, options) => nextGate(provider.gate(options)) as FetchGate, "json()"),
  "Hono's json(), as if it were whole": startHono((request) => request.json(), 200),
  "Hono's raw body, as if it were whole": startHono((request) => request.raw.text(), 200),
  ...Object.fromEntries(
    Object.keys(READS).flatMap((how) => [
      [
        `fetch, ${how}, as if it were whole`,
        startFetch((provider, options) => fetchGate(provider.gate(options)), how, 200),
      ],
      [
        `a Next.js route handler, ${how}, as if it were whole`,
        startFetch((provider, options) => nextGate(provider.gate(options)) as FetchGate, how, 200),
      ],
    ]),
  ),
};

const WAYS: Readonly<Record<string, GateOptions<never>>> = {
  "a proof": { pricing: ONE_TIME } as never,
  "a payment settled before": { pricing: ONE_TIME, settle: "before" } as never,
  "a payment settled after": { pricing: ONE_TIME, settle: "after" } as never,
};

describe("uploads that are cut", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;

  before(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    // Answers are kept, as by default: the failure of half a request must not be what the next one gets.
    provider = testProvider(facilitator, { replay: {} });
  });
  after(async () => {
    await provider.close();
    await facilitator.stop();
  });

  for (const [name, start] of Object.entries(FRAMEWORKS)) {
    for (const [payment, options] of Object.entries(WAYS)) {
      it(`an upload that never arrived whole leaves ${payment} for the next attempt: ${name}`, async () => {
        const ended: string[] = [];
        const server = await start(provider, options, (how) => ended.push(how));
        const url = await listen(server);
        try {
          const body = JSON.stringify({ some: "x".repeat(1_000) });
          const quoted = await send(`${url}/data`, { method: "POST" });
          const [entry] = quoted.json.accepts;
          const headers = {
            ...(payment === "a proof" ? headerOf(proofOf(entry)) : await v1Headers(entry)),
            "Idempotency-Key": `one-purchase-of-${name}-by-${payment}`.replace(/[^\w-]/g, "_"),
            "Content-Type": "application/json",
            "Content-Length": String(body.length),
          };
          // While the last attempt is being released, the next one is asked to come again.
          while (ended.length < 2) {
            const [run, arrival] = [ended.length, once(server, "request")];
            const cut = ask(`${url}/data`, { method: "POST", headers });
            cut.on("error", () => undefined);
            cut.write(body.slice(0, 500));
            const [received, answer] = (await arrival) as [IncomingMessage, ServerResponse];
            await until(async () => received.readableDidRead);
            cut.destroy();
            await until(async () => ended.length > run || answer.statusCode === 409);
          }
          const post = () => send(`${url}/data`, { method: "POST", headers, body });
          let paid = await post();
          await until(async () => {
            if (paid.status === 409) paid = await post();
            return paid.status !== 409;
          });
          expect([paid.status, paid.json]).to.deep.equal([200, { ok: true }]);
          const again = await post();
          expect([again.status, again.text, again.headers["idempotency-replayed"]]).to.deep.equal([
            200,
            paid.text,
            "true",
          ]);
        } finally {
          await closeServer(server);
        }
      });
    }
  }
});
