import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { expect } from "chai";
import express from "express";
import { Hono } from "hono";
import { type GateOptions, gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import {
  closeServer,
  headerOf,
  listen,
  ONE_TIME,
  paidHeaders,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../support/gate";

describe("adapters", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  const stops: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator);
    stops.push(
      () => facilitator.stop(),
      () => provider.close(),
    );
  });
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  });

  async function serve(listener: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
    const server = createServer(listener);
    stops.push(() => closeServer(server));
    return listen(server);
  }

  describe("node:http", () => {
    it("serves paid requests, and releases the payment of a handler that throws", async () => {
      let fails = 1;
      const handler = (request: { payment?: { kind: string } }, response: ServerResponse) => {
        if (fails-- > 0) throw new RangeError("broke");
        response.writeHead(200, { "Content-Type": "text/plain", "Cache-Control": "public" }).end(request.payment?.kind);
      };
      const url = await serve(gated(provider.paymentGate({ pricing: ONE_TIME }), handler));
      const headers = await paidHeaders(`${url}/a`);
      expect((await send(`${url}/a`, { headers })).status).to.equal(500);
      const answer = await send(`${url}/a`, { headers });
      expect(answer.text).to.equal("one-time");
      expect(answer.headers["cache-control"]).to.equal("private, no-store");
      expect((await send(`${url}/a`, { headers })).json.reason).to.equal("already_used");
    });

    it("keeps a streamed answer whole, used up with its first byte", async () => {
      const handler = async (_request: unknown, response: ServerResponse) => {
        for (const part of ["one ", "two ", "three"]) {
          response.write(part);
          await new Promise(setImmediate);
        }
        response.end();
      };
      const url = await serve(gated(provider.paymentGate({ pricing: ONE_TIME }), handler));
      const headers = await paidHeaders(`${url}/a`);
      expect((await send(`${url}/a`, { headers })).text).to.equal("one two three");
      expect((await send(`${url}/a`, { headers })).json.reason).to.equal("already_used");
    });

    it("takes every form of writeHead", async () => {
      const forms: unknown[][] = [
        [200],
        [200, "Fine"],
        [200, { "X-Form": "a" }],
        [200, "Fine", { "X-Form": "a" }],
        [200, ["X-Form", "a", "Set-Cookie", "b=1", "Set-Cookie", "c=2"]],
        [
          200,
          [
            ["X-Form", "a"],
            ["Vary", "Accept"],
          ],
        ],
      ];
      for (const form of forms) {
        const handler = (_request: unknown, response: ServerResponse) => {
          (response.writeHead as (...args: unknown[]) => ServerResponse)(...form).end("ok");
        };
        const url = await serve(gated(provider.paymentGate({ pricing: ONE_TIME }), handler));
        const answer = await send(url, { headers: await paidHeaders(`${url}/`) });
        expect(answer.status, JSON.stringify(form)).to.equal(200);
        if (form.length > 1 && typeof form.at(-1) === "object") expect(answer.headers["x-form"]).to.equal("a");
        expect(answer.headers["cache-control"]).to.equal("private, no-store");
        expect(answer.headers.vary).to.include("X-PAYMENT");
      }
    });
  });

  describe("fetch", () => {
    it("wraps a handler, passes the platform's arguments on, and releases on a throw", async () => {
      let fails = 1;
      const handler = fetchGate(provider.gate({ pricing: ONE_TIME }))((request, context: { id: string }) => {
        if (fails-- > 0) throw new RangeError("broke");
        return Response.json({ kind: request.payment.kind, id: context.id });
      });
      const url = "http://127.0.0.1:3000/paid?x=1";
      const unpaid = await handler(new Request(url), { id: "7" });
      expect(unpaid.status).to.equal(402);
      const [entry] = (await unpaid.json()).accepts;
      expect(entry.resource).to.equal(url);
      const headers = headerOf(proofOf(entry));
      const thrown = await handler(new Request(url, { headers }), { id: "7" }).catch((error: unknown) => error);
      expect(thrown).to.be.instanceOf(RangeError);
      const paid = await handler(new Request(url, { headers }), { id: "7" });
      expect(await paid.json()).to.deep.equal({ kind: "one-time", id: "7" });
      expect(paid.headers.get("Cache-Control")).to.equal("private, no-store");
      expect((await handler(new Request(url, { headers }), { id: "7" })).status).to.equal(402);
    });

    it("marks responses whose headers cannot be written to", async () => {
      const upstream = await serve((_request, response) => void response.writeHead(200, { "X-Up": "1" }).end("up"));
      const handler = fetchGate(provider.gate({ pricing: ONE_TIME }))(() => fetch(upstream));
      const url = "http://127.0.0.1:3000/proxied";
      const [entry] = (await (await handler(new Request(url))).json()).accepts;
      const paid = await handler(new Request(url, { headers: headerOf(proofOf(entry)) }));
      expect(await paid.text()).to.equal("up");
      expect(paid.headers.get("X-Up")).to.equal("1");
      expect(paid.headers.get("Cache-Control")).to.equal("private, no-store");
    });
  });

  it("fastify: answers through reply, and hands paid requests on", async () => {
    const hook = fastifyGate(provider.gate({ pricing: ONE_TIME }));
    // As much of Fastify as the adapter touches, on a real server.
    const url = await serve((raw, response) => {
      const request = { raw, originalUrl: raw.url ?? "/" } as Parameters<typeof hook>[0];
      const reply: Parameters<typeof hook>[1] = {
        raw: response,
        code: (status) => {
          response.statusCode = status;
          return reply;
        },
        header: (name, value) => {
          response.setHeader(name, value);
          return reply;
        },
        send: (body) => {
          response.end(body);
          return reply;
        },
      };
      hook(request, reply, () => response.end(request.payment?.kind));
    });
    const headers = await paidHeaders(`${url}/f?x`);
    expect((await send(`${url}/f?x`, { headers })).text).to.equal("one-time");
    expect((await send(`${url}/f?x`, { headers })).json.reason).to.equal("already_used");
  });

  it("C16 leaves the application's own CORS headers alone", async () => {
    const app = express();
    app.use((_request, response, next) => {
      response.set("Access-Control-Allow-Origin", "https://app.example");
      next();
    });
    app.get("/x", expressGate(provider.gate({ pricing: ONE_TIME })), (_request, response) => void response.json("ok"));
    const url = await serve(app);
    expect((await send(`${url}/x`)).headers["access-control-allow-origin"]).to.equal("https://app.example");
    const paid = await send(`${url}/x`, { headers: await paidHeaders(`${url}/x`) });
    expect(paid.headers["access-control-allow-origin"]).to.equal("https://app.example");
  });

  for (const framework of ["express", "hono"] as const) {
    it(`binds a quote to the body that it was asked for with, through ${framework}`, async () => {
      const price = (raw: unknown): bigint => {
        const body = framework === "express" ? (raw as { body?: { size?: number } }).body : undefined;
        return BigInt(body?.size ?? 1);
      };
      const options: GateOptions<never> = { pricing: [{ type: "one-time", amount: price as never }], bind: "body" };
      const url = framework === "express" ? await expressWithBody(options) : await honoWithBody(options);
      const headers = { "Content-Type": "application/json" };
      const small = { method: "POST", headers, body: '{"size":1}' };
      const [entry] = (await quoteOf(`${url}/x`, small)).accepts;
      const paid = { ...headers, ...headerOf(proofOf(entry as never)) };
      const cheated = await send(`${url}/x`, { method: "POST", headers: paid, body: '{"size":9000000}' });
      expect(cheated.json).to.include({ error: "InvalidPaymentProof", reason: "memo" });
      const served = await send(`${url}/x`, { method: "POST", headers: paid, body: '{"size":1}' });
      expect(served.status, served.text).to.equal(200);
      expect(served.json).to.deep.equal({ size: 1 });
    });
  }

  async function expressWithBody(options: GateOptions<never>): Promise<string> {
    const app = express();
    const verify = (request: IncomingMessage & { rawBody?: Buffer }, _response: unknown, bytes: Buffer) => {
      request.rawBody = bytes;
    };
    app.use(express.json({ verify }));
    app.post("/x", expressGate(provider.gate(options)), (request, response) => void response.json(request.body));
    return serve(app);
  }

  async function honoWithBody(options: GateOptions<never>): Promise<string> {
    const app = new Hono();
    app.post("/x", honoGate(provider.gate(options)) as never, async (c) => c.json(await c.req.json()));
    const { getRequestListener } = await import("@hono/node-server");
    return serve(getRequestListener(app.fetch));
  }

  it("says what to do where a bound body's bytes are gone", async () => {
    const app = express();
    app.use(express.json());
    app.post(
      "/x",
      expressGate(provider.gate({ pricing: ONE_TIME, bind: "body" })),
      (_q, response) => void response.json(1),
    );
    app.use(
      (error: Error, _q: unknown, response: express.Response, _n: unknown) =>
        void response.status(500).json(error.message),
    );
    const url = await serve(app);
    const answer = await send(`${url}/x`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: "{}",
    });
    expect(answer.status).to.equal(500);
    expect(answer.json).to.match(/rawBody/);
  });
});
