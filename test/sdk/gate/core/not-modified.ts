/** HA20: a 304 is no answer to a payment: conditions do not reach a paid handler, and a 304 leaves its payment unused. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { serve } from "@hono/node-server";
import { expect } from "chai";
import express from "express";
import { Hono } from "hono";
import { etag } from "hono/etag";
import { fileClaims, gated, memoryClaims, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import type { AcceptEntryWire } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  closeServer,
  listen,
  ONE_TIME,
  OVER_PERMIT2,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, type AdapterServer, type Asked, express4, type Handled, PREFIX } from "../support/frameworks";
import { permit2Headers } from "../support/permit2";
import { type Accepted, requiredIn, v1Headers, v2Headers } from "../support/standard";

const CONDITIONS: readonly Readonly<Record<string, string>>[] = [
  { "If-None-Match": '"seen"' },
  { "If-None-Match": "*" },
  { "If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT" },
];

const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };

/** How a client pays, so that it may have its answer again. */
const PAYMENTS: Readonly<Record<string, (url: string) => Promise<Record<string, string>>>> = {
  "a proof": async (url) => paidHeaders(url),
  "version 1": async (url) => ({ ...(await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire)), ...KEY }),
  "version 2": async (url) => ({ ...(await v2Headers(url)), ...KEY }),
};

const conditional = ({ header }: Asked) => header("if-none-match") ?? header("if-modified-since");

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`conditions of paid requests, through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let handle: (asked: Asked) => Handled;
    let folder: string;

    before(async () => {
      folder = mkdtempSync(path.join(tmpdir(), "turnpike-not-modified-"));
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      const claims = name === "Hono" ? fileClaims({ folder }) : memoryClaims({ warn: false });
      provider = testProvider(facilitator, { replay: {}, claims });
      const run = (asked: Asked) => handle(asked);
      server = await start(provider, [
        { path: "/after", gate: { pricing: ONE_TIME, settle: "after" } as never, handle: run },
        { path: "/before", gate: { pricing: ONE_TIME, settle: "before" } as never, handle: run },
        { path: "/free", gate: { pricing: ONE_TIME, free: () => true } as never, handle: run },
      ]);
      await provider.ready();
    });
    beforeEach(() => {
      facilitator.calls.length = 0;
    });
    after(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
      rmSync(folder, { recursive: true, force: true });
    });

    const at = (route: string) => `${server.url}${PREFIX}/${route}`;
    const settles = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
    const whereCacheable = (asked: Asked): Handled =>
      conditional(asked) === undefined ? { headers: { ETag: '"seen"' }, body: "the content" } : { status: 304 };

    for (const route of ["after", "before"]) {
      for (const [payment, pay] of Object.entries(PAYMENTS)) {
        it(`HA20 ${payment} buys the content in full whatever its request has seen (settle: ${route})`, async () => {
          handle = whereCacheable;
          for (const condition of CONDITIONS) {
            const headers = await pay(at(route));
            const answer = await send(at(route), { headers: { ...headers, ...condition } });
            expect([answer.status, answer.text], JSON.stringify(condition)).to.deep.equal([200, "the content"]);
          }
        });

        for (const [what, status] of [
          ["its handler answers 304 all the same", 304],
          ["a rate limiter behind the gate answers 429", 429],
        ] as const) {
          it(`HA20 ${payment} stays unused where ${what} (settle: ${route})`, async () => {
            const headers = await pay(at(route));
            handle = () => ({ status, headers: { ETag: '"seen"' } });
            expect((await send(at(route), { headers })).status).to.equal(status);
            if (route === "after") expect(settles()).to.equal(0);
            handle = () => ({ body: "the content" });
            const again = await send(at(route), { headers });
            expect([again.status, again.text]).to.deep.equal([200, "the content"]);
          });
        }
      }
    }

    for (const [payment, pay] of Object.entries(PAYMENTS)) {
      it(`HA20 ${payment} that settled first is released three times, however often its limiter answers 429`, async () => {
        const headers = await pay(at("before"));
        handle = () => ({ status: 429 });
        for (const time of [1, 2, 3, 4])
          expect((await send(at("before"), { headers })).status, `time ${time}`).to.equal(429);
        handle = () => ({ body: "the content" });
        const late = await send(at("before"), { headers });
        expect(late.text, `${late.status}`).not.to.include("the content");
      });
    }

    it("HA20 lets the condition of a write through, and those of a request that costs nothing", async () => {
      let seen: string | undefined;
      handle = (asked) => {
        seen = conditional(asked);
        return { body: "the content" };
      };
      await send(at("free"), { headers: { "If-None-Match": '"seen"' } });
      expect(seen).to.equal('"seen"');
      const headers = await paidHeaders(at("after"), {}, { method: "POST" });
      await send(at("after"), { method: "POST", headers: { ...headers, "If-None-Match": "*" } });
      expect(seen, "without it a POST could overwrite").to.equal("*");
    });
  });
}

describe("what makes a 304 of an answer", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  const closers: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { replay: {}, publicUrl: "https://api.example" });
    await provider.ready();
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
    await provider.close();
    await facilitator.stop();
  });

  async function started(listener: RequestListener): Promise<string> {
    const server = createServer(listener);
    closers.push(() => closeServer(server));
    return `${await listen(server)}/paid`;
  }

  /** A client that has seen the content pays for it once more, and asks for its answer again. */
  async function expectContent(url: string): Promise<void> {
    const free = await send(url.replace("/paid", "/free"));
    const tag = String(free.headers.etag);
    expect(tag, "the application has validators").to.match(/^(?:W\/)?"/);
    for (const pay of Object.values(PAYMENTS)) {
      for (const match of [tag, "*"]) {
        const headers = { ...(await pay(url)), "If-None-Match": match };
        for (const time of ["first", "again"]) {
          const answer = await send(url, { headers });
          expect([answer.status, answer.text], `${match}, ${time}`).to.deep.equal([200, "the content"]);
        }
      }
    }
  }

  for (const [version, make] of Object.entries({ 4: express4, 5: express })) {
    it(`HA20 Express ${version}'s own validators make none of a paid one`, async () => {
      const app = make();
      const answer = (_request: express.Request, response: express.Response) => void response.send("the content");
      app.get("/free", answer);
      app.get("/paid", expressGate(provider.gate({ pricing: ONE_TIME })), answer);
      await expectContent(await started(app));
    });
  }

  for (const where of ["before", "behind"] as const) {
    it(`HA20 hono/etag ${where} the gate makes none of a paid one`, async () => {
      const app = new Hono();
      const gate = honoGate(provider.gate({ pricing: ONE_TIME })) as never;
      if (where === "before") app.use("*", etag());
      app.use("/paid", gate);
      if (where === "behind") app.use("*", etag());
      app.get("/free", (c) => c.text("the content"));
      app.get("/paid", (c) => c.text("the content"));
      const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
      closers.push(() => closeServer(server as never));
      await new Promise((resolve) => server.once("listening", resolve));
      await expectContent(`http://127.0.0.1:${(server.address() as { port: number }).port}/paid`);
    });
  }

  it("HA20 finds no condition in any form of a message's headers, over HTTP/1.1 and HTTP/2", async () => {
    let seen = "";
    const listener = gated(provider.paymentGate({ pricing: ONE_TIME }), (request, response) => {
      const { headers, rawHeaders, headersDistinct } = request as Partial<IncomingMessage>;
      seen = JSON.stringify([headers, rawHeaders, headersDistinct]).toLowerCase();
      response.end("the content");
    });
    const url = await started(listener);
    await send(url, { headers: { ...(await paidHeaders(url)), ...CONDITIONS[0], ...CONDITIONS[2], "X-Own": "kept" } });
    expect(seen)
      .to.include("x-own")
      .and.not.match(/if-(?:none-match|modified-since)/);
    const server = http2.createServer((request, response) => listener(request as never, response as never));
    const session = http2.connect(await listen(server as never));
    closers.push(
      () => new Promise((resolve) => server.close(resolve)),
      async () => session.destroy(),
    );
    seen = "";
    const paid = await paidHeaders(url);
    await text(session.request({ ":path": "/paid", ...paid, "if-none-match": "*", "x-own": "kept" }));
    expect(seen).to.include("x-own").and.not.include("if-none-match");
  });

  it("HA20 finds none in a fetch-style request whose headers its platform has locked", async () => {
    let seen: string | null = "";
    const handler = fetchGate(provider.gate({ pricing: ONE_TIME }))((request) => {
      seen = request.headers.get("if-none-match");
      return new Response(request.headers.get("x-own"));
    });
    const quoted = await handler(new Request("https://api.example/paid"));
    const [entry] = ((await quoted.json()) as { accepts: AcceptEntryWire[] }).accepts;
    const paid = { ...(await v1Headers(entry as AcceptEntryWire)), "If-None-Match": "*", "X-Own": "kept" };
    const request = new Request("https://api.example/paid", { headers: paid });
    const refuse = (): never => {
      throw new TypeError("immutable");
    };
    Object.assign(request.headers, { delete: refuse, set: refuse, append: refuse });
    expect([await (await handler(request)).text(), seen]).to.deep.equal(["kept", null]);
  });

  it("HA20 sells none of a maximum over Permit2, and charges nothing for one", async () => {
    facilitator.supported = OVER_PERMIT2;
    const priced = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" as const };
    const upto = testProvider(facilitator, { replay: {}, publicUrl: "https://api.example", token: priced });
    closers.push(() => upto.close());
    let isModified = false;
    const gate = upto.paymentGate({ pricing: [{ type: "upto", max: "$0.50" }] });
    const url = await started(
      gated(gate, (request, response) => {
        if (request.headers["if-none-match"] === undefined && isModified) response.end("the content");
        else response.writeHead(304).end();
      }),
    );
    await upto.ready();
    const [entry] = requiredIn(await send(url)).accepts;
    const headers = { ...permit2Headers(entry as Accepted), "If-None-Match": "*" };
    const settles = () => facilitator.calls.filter((call) => call.path === "/settle").length;
    expect([(await send(url, { headers })).status, settles()]).to.deep.equal([304, 0]);
    isModified = true;
    expect([(await send(url, { headers })).text, settles()]).to.deep.equal(["the content", 1]);
  });

  it("HA20 leaves subscribers their conditions", async () => {
    const test = createTestProvider();
    const plan = `0x${"5a".repeat(32)}` as const;
    const app = express();
    const pricing = [...ONE_TIME, { type: "subscription", plan }] as never;
    app.get("/paid", expressGate(test.provider.gate({ pricing })), (_request, response) => {
      response.send("the content");
    });
    const url = await started(app);
    const { headers } = test.subscribe({ planId: plan });
    const first = await send(url, { headers });
    const again = await send(url, { headers: { ...headers, "If-None-Match": String(first.headers.etag) } });
    expect([first.status, again.status, again.text]).to.deep.equal([200, 304, ""]);
  });
});
