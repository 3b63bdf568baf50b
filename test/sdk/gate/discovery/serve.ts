/** One handler serves /openapi.json in every framework. */
import { createServer, type Server } from "node:http";
import { expect } from "chai";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { createProvider, type OpenApiHandler, openApi, type Provider } from "turnpike/gate";
import { paymentMiddleware } from "turnpike/gate/express";
import { paymentGate as nextGate } from "turnpike/gate/next";
import { ConfigError } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  closeServer,
  fetchServer,
  listen,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testOptions,
} from "../../../support/gate";
import { express4 } from "../support/frameworks";

interface Served {
  readonly url: string;
  stop(): Promise<unknown>;
}

const PATH = "/openapi.json";

const served = async (server: Server): Promise<Served> => ({
  url: await listen(server),
  stop: () => closeServer(server),
});

const FRAMEWORKS: Readonly<Record<string, (handler: OpenApiHandler) => Promise<Served>>> = {
  "Express 5": (handler) => served(createServer(express().all(PATH, handler))),
  "Express 4": (handler) =>
    served(createServer(express4().get(PATH, handler).options(PATH, handler).post(PATH, handler))),
  "node:http": (handler) => served(createServer((request, response) => void handler(request, response))),
  Hono: (handler) => served(fetchServer(new Hono().all(PATH, handler).fetch)),
  async Fastify(handler) {
    const app = fastify();
    app.route({ method: ["GET", "POST", "OPTIONS"], url: PATH, handler });
    return { url: await app.listen({ port: 0, host: "127.0.0.1" }), stop: () => app.close() };
  },
  fetch: (handler) => served(fetchServer((request) => handler(request))),
  "Next.js": (handler) => {
    // As its router calls what a route's file exports.
    const GET: (request: Request, context: { params: Promise<object> }) => Promise<Response> = handler;
    return served(fetchServer((request) => GET(request, { params: Promise.resolve({}) })));
  },
};

describe("/openapi.json", () => {
  const { provider } = createTestProvider();
  paymentMiddleware({ "GET /report": { accepts: { price: "$0.05" } } }, { provider });
  const stops: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const stop of stops.splice(0)) await stop();
  });

  for (const [framework, start] of Object.entries(FRAMEWORKS)) {
    it(`is served through ${framework}: to crawlers and pages, and once while it stays the same`, async () => {
      const { url, stop } = await start(provider.openApi());
      stops.push(stop);
      const answer = await send(`${url}${PATH}`);
      expect(answer.status).to.equal(200);
      expect(answer.headers).to.deep.include({
        "content-type": "application/json; charset=utf-8",
        "cache-control": "public, max-age=300",
        "access-control-allow-origin": "*",
      });
      expect(answer.json.openapi).to.equal("3.1.0");
      expect(answer.json.paths["/report"].get["x-payment-info"].price).to.have.property("amount", "0.05");
      const tag = String(answer.headers.etag);
      expect(tag).to.match(/^"[\w-]{22}"$/);

      const again = await send(`${url}${PATH}`, { headers: { "If-None-Match": `"other", W/${tag}` } });
      expect([again.status, again.text, again.headers.etag]).to.deep.equal([304, "", tag]);
      const head = await send(`${url}${PATH}`, { method: "HEAD" });
      expect([head.status, head.text, head.headers.etag]).to.deep.equal([200, "", tag]);
      const posted = await send(`${url}${PATH}`, { method: "POST" });
      expect([posted.status, posted.headers.allow]).to.deep.equal([405, "GET, HEAD, OPTIONS"]);
      const asked = { origin: "https://page.example", "access-control-request-method": "GET" };
      const preflight = await send(`${url}${PATH}`, { method: "OPTIONS", headers: asked });
      expect(preflight.status).to.be.oneOf([200, 204]);
      expect(preflight.headers["access-control-allow-methods"]).to.equal("GET, HEAD");
    });

    it(`is an error by name through ${framework}, and never kept by a cache, where the document is in the way`, async () => {
      const item = { get: { "x-payment-info": { price: "mine" } } };
      const info = { title: "Own", version: "1" };
      const { url, stop } = await start(provider.openApi({ openapi: "3.1.0", info, paths: { "/report": item } }));
      stops.push(stop);
      const answer = await send(`${url}${PATH}`);
      expect([answer.status, answer.json.error]).to.deep.equal([500, "ConfigError"]);
      expect(answer.json.message).to.include('document.paths["/report"]["get"]["x-payment-info"]');
      expect(answer.headers["cache-control"]).to.equal("no-store");
    });
  }

  it("names by its whole path what a mounted router sells", async () => {
    const { provider: mounted } = createTestProvider();
    const api = express.Router();
    api.use(paymentMiddleware({ "GET /api/report": { accepts: { price: "$0.05" } } }, { provider: mounted }));
    api.get("/report", (_, response) => void response.json({}));
    const { url, stop } = await served(createServer(express().use("/api", api).get(PATH, mounted.openApi())));
    stops.push(stop);
    const { json } = await send(`${url}${PATH}`);
    expect(Object.keys(json.paths)).to.deep.equal(["/api/report"]);
    expect((await send(`${url}/api/report`)).status).to.equal(402);
  });

  it("stays as it is whatever becomes of what `document` has returned", async () => {
    const handler = provider.openApi({ openapi: "3.1.0", info: { title: "Own", version: "1" } });
    const returned = (await handler.document()) as { info: { title: string }; paths?: Record<string, object> };
    returned.info.title = "changed";
    delete returned.paths?.["/report"];
    const { info, paths } = await handler.document();
    expect([info.title, Object.keys(paths ?? {})]).to.deep.equal(["Own", ["/report"]]);
  });

  it("is written once for as long as its prices stay: large ones cost no processor time for each reader", async () => {
    const item = { get: { description: "x".repeat(200), responses: {} } };
    const paths = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`/own/${i}`, item]));
    const { provider: own } = createTestProvider();
    own.gate({ price: "$0.05", discovery: { path: "/first", method: "GET" } });
    const handler = own.openApi({ openapi: "3.1.0", info: { title: "Large", version: "1" }, paths });
    const ask = async (tag = "") => {
      const request = new Request("http://localhost/openapi.json", { headers: { "If-None-Match": tag } });
      const { user, system } = process.cpuUsage();
      const answer = await handler(request);
      const spent = process.cpuUsage({ user, system });
      return { status: answer.status, tag: answer.headers.get("etag") ?? "", spent: spent.user + spent.system };
    };
    const first = await ask();
    let spent = 0;
    for (let n = 0; n < 5; n++) {
      const again = await ask(first.tag);
      expect([again.status, again.tag]).to.deep.equal([304, first.tag]);
      spent += again.spent;
    }
    expect(spent).to.be.below(2 * first.spent);
    own.gate({ price: "$0.06", discovery: { path: "/second", method: "GET" } });
    const more = await ask(first.tag);
    expect([more.status, more.tag === first.tag], "a route that was added later").to.deep.equal([200, false]);
  });

  describe("of a provider that cannot be read", () => {
    let facilitator: SmallFacilitator;
    before(async () => {
      facilitator = await startSmallFacilitator();
    });
    after(() => facilitator.stop());

    it("is 503, and lists nothing that may be wrong", async () => {
      const token = { address: `0x${"70".repeat(20)}`, decimals: 6, currency: "USD" } as const;
      // Nobody listens there, and the token's name is read from the chain.
      const away = createProvider(testOptions(facilitator, { token, rpcUrl: "http://127.0.0.1:1" }));
      away.gate({ price: "$1.00", discovery: { path: "/report", method: "GET" } });
      const answer = await away.openApi()(new Request("http://localhost/openapi.json"));
      expect([answer.status, answer.headers.get("cache-control")]).to.deep.equal([503, "no-store"]);
      expect(answer.headers.get("retry-after")).to.equal("2");
      await away.close();
    });
  });

  describe("of the free functions", () => {
    it("is of the provider that is configured when it is asked for, and opens the gates of Next.js that it lists", async () => {
      const handler = openApi({ openapi: "3.1.0", info: { title: "Shop", version: "1" } });
      nextGate({ price: "$0.07", discovery: { path: "/api/late/[id]", method: "GET" } });
      const test = createTestProvider();
      await test.install();
      const paths = await handler.document().then((document) => document.paths);
      expect(paths).to.have.property("/api/late/{id}");
      const response = await handler(new Request("http://localhost/openapi.json"));
      expect(JSON.parse(await response.text())).to.have.nested.property("info.title", "Shop");
      const other: Provider = createTestProvider().provider;
      expect((await other.openApi().document()).paths).to.deep.equal({});
    });

    it("refuses a document where it is mounted", () => {
      expect(() => openApi([] as never)).to.throw(ConfigError, /^document is a list/);
    });
  });
});
