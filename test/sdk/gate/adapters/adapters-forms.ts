import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { expect } from "chai";
import express from "express";
import { Hono } from "hono";
import { type GateOptions, gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import { nextGate } from "turnpike/gate/next";
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
} from "../../../support/gate";

describe("adapters, each in its own manner", () => {
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

  it("next: redirect() and notFound() are answers that were paid for, an error is not", async () => {
    const thrown = ["NEXT_REDIRECT;replace;/x;307;", "NEXT_HTTP_ERROR_FALLBACK;404", undefined].map((digest) =>
      Object.assign(new RangeError("thrown by Next.js"), { digest }),
    );
    for (const error of thrown) {
      const handler = nextGate(provider.gate({ pricing: ONE_TIME }))(() => {
        throw error;
      });
      const url = `http://127.0.0.1:3000/${error.digest}`;
      const [entry] = (await (await handler(new Request(url))).json()).accepts;
      const headers = headerOf(proofOf(entry));
      expect(await handler(new Request(url, { headers })).catch((caught: unknown) => caught)).to.equal(error);
      const again = await handler(new Request(url, { headers })).catch((caught: unknown) => caught);
      if (error.digest === undefined) expect(again).to.equal(error);
      else expect((again as Response).status).to.equal(402);
    }
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
});
