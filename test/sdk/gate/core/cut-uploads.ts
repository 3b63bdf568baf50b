/** A paid request whose body never arrives whole has bought nothing: its payment serves the next attempt. */
import { once } from "node:events";
import { request as ask, createServer, type IncomingMessage, type Server } from "node:http";
import { createRequire } from "node:module";
import { expect } from "chai";
import express from "express";
import fastify from "fastify";
import { gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import {
  closeServer,
  headerOf,
  listen,
  ONE_TIME,
  proofOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";

/** Opens POST /data, which calls `onRun` with each run of its parser or handler that has ended, and how. */
type Start = (provider: Provider, onRun: (how: string) => void) => Promise<Server>;

const startExpress =
  (make: typeof express): Start =>
  async (provider, onRun) => {
    const app = make();
    app.post("/data", expressGate(provider.gate({ pricing: ONE_TIME })), make.json(), (_request, response) => {
      response.json({ ok: true });
    });
    app.use((error: { type?: string }, _request: unknown, response: express.Response, _next: unknown) => {
      response.status(400).json({ error: error.type });
      onRun(String(error.type));
    });
    return createServer(app);
  };

const FRAMEWORKS: Readonly<Record<string, Start>> = {
  "Express 5": startExpress(express),
  "Express 4": startExpress(createRequire(__filename)("express4") as typeof express),
  async Fastify(provider, onRun) {
    const app = fastify();
    const onRequest = fastifyGate(provider.gate({ pricing: ONE_TIME }));
    app.post("/data", { onRequest }, async () => ({ ok: true }));
    app.setErrorHandler((_error, _request, reply) => {
      void reply.code(400).send({ error: "cut" });
      onRun("cut");
    });
    await app.ready();
    return app.server;
  },
  async "node:http"(provider, onRun) {
    return createServer(
      gated(provider.paymentGate({ pricing: ONE_TIME }), async (request, response) => {
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
};

describe("uploads that are cut", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;

  before(async () => {
    facilitator = await startSmallFacilitator();
    // Answers are kept, as by default: the failure of half a request must not be what the next one gets.
    provider = testProvider(facilitator, { replay: {} });
  });
  after(async () => {
    await provider.close();
    await facilitator.stop();
  });

  for (const [name, start] of Object.entries(FRAMEWORKS)) {
    it(`an upload that never arrived whole leaves the payment for the next attempt: ${name}`, async () => {
      const ended: string[] = [];
      const server = await start(provider, (how) => ended.push(how));
      const url = await listen(server);
      try {
        const body = JSON.stringify({ some: "x".repeat(1_000) });
        const quoted = await send(`${url}/data`, { method: "POST" });
        const headers = {
          ...headerOf(proofOf(quoted.json?.accepts[0])),
          "Content-Type": "application/json",
          "Content-Length": String(body.length),
        };
        for (const run of [1, 2]) {
          const arrival = once(server, "request");
          const cut = ask(`${url}/data`, { method: "POST", headers });
          cut.on("error", () => undefined);
          cut.write(body.slice(0, 500));
          const [received] = (await arrival) as [IncomingMessage];
          await until(async () => received.readableDidRead);
          cut.destroy();
          await until(async () => ended.length >= run);
        }
        const paid = await send(`${url}/data`, { method: "POST", headers, body });
        expect([paid.status, paid.json]).to.deep.equal([200, { ok: true }]);
        const again = await send(`${url}/data`, { method: "POST", headers, body });
        expect(again.headers["idempotency-replayed"]).to.equal("true");
      } finally {
        await closeServer(server);
      }
    });
  }
});
