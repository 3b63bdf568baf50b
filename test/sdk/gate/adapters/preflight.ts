import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { expect } from "chai";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import type { Browser, Page } from "playwright-core";
import type { Provider } from "turnpike/gate";
import { expressGate, preflight as expressPreflight } from "turnpike/gate/express";
import { fastifyGate, preflight as fastifyPreflight } from "turnpike/gate/fastify";
import { honoGate, preflight as honoPreflight } from "turnpike/gate/hono";
import { launchBrowser, openPage } from "../../../support/browser";
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

/** Routes of one method, as applications declare them. */
type Start = (provider: Provider, withPreflight: boolean) => Promise<{ url: string; stop(): Promise<unknown> }>;

const startExpress =
  (make: typeof express): Start =>
  async (provider, withPreflight) => {
    const app = make();
    if (withPreflight) app.options("/paid", expressPreflight());
    app.get("/paid", expressGate(provider.gate({ pricing: ONE_TIME })), (request, response) => {
      response.json({ by: request.payment?.kind });
    });
    app.delete("/other", (_request, response) => void response.end("gone"));
    const server = createServer(app);
    return { url: await listen(server), stop: () => closeServer(server) };
  };

const FRAMEWORKS: Readonly<Record<string, Start>> = {
  "Express 5": startExpress(express),
  "Express 4": startExpress(createRequire(__filename)("express4") as typeof express),
  async Hono(provider, withPreflight) {
    const app = new Hono();
    if (withPreflight) app.use("/paid", honoPreflight());
    const gate = honoGate(provider.gate({ pricing: ONE_TIME }));
    app.get("/paid", gate as never, (c) => c.json({ by: (c.get("payment" as never) as { kind: string }).kind }));
    app.delete("/other", (c) => c.text("gone"));
    const server = await new Promise<Server>((resolve) => {
      const started = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, () => resolve(started as Server));
    });
    const { port } = server.address() as AddressInfo;
    return { url: `http://127.0.0.1:${port}`, stop: () => closeServer(server) };
  },
  async Fastify(provider, withPreflight) {
    const app = fastify();
    if (withPreflight) app.options("/paid", { onRequest: fastifyPreflight() }, async () => "never");
    const preHandler = fastifyGate(provider.gate({ pricing: ONE_TIME }));
    app.get("/paid", { preHandler }, async (request) => ({ by: request.payment?.kind }));
    app.delete("/other", async () => "gone");
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return {
      url,
      async stop() {
        app.server.closeAllConnections();
        await app.close();
      },
    };
  },
};

interface Seen {
  readonly status?: number;
  readonly receipt?: string | null;
  readonly body?: { by?: string; accepts?: never[] };
  readonly failed?: string;
}

function fetchIn(page: Page, url: string, headers: Record<string, string>): Promise<Seen> {
  return page.evaluate(
    async ([target, sent]) => {
      try {
        const answer = await fetch(target, { headers: sent });
        const { status } = answer;
        return { status, receipt: answer.headers.get("X-PAYMENT-RESPONSE"), body: await answer.json() };
      } catch (error) {
        return { failed: String(error) };
      }
    },
    [url, headers] as const,
  );
}

describe("a page of another origin and routes of one method", function () {
  this.timeout(120_000);
  let browser: Browser;
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let site: Server;
  let page: Page;

  before(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator);
    site = createServer((_request, response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<p>"));
    browser = await launchBrowser();
    ({ page } = await openPage(browser));
    await page.goto(await listen(site));
  });
  after(async () => {
    await browser?.close();
    await closeServer(site);
    await provider.close();
    await facilitator.stop();
  });

  for (const [name, start] of Object.entries(FRAMEWORKS)) {
    it(`C16 reads the price, pays and reads the receipt through ${name} with preflight()`, async () => {
      const { url, stop } = await start(provider, true);
      try {
        const quoted = await fetchIn(page, `${url}/paid`, { "Idempotency-Key": "a key of a page, long enough" });
        expect(quoted.failed).to.equal(undefined);
        expect(quoted.status).to.equal(402);
        const [entry] = quoted.body?.accepts ?? [];
        const headers = headerOf(proofOf(entry as never));
        const paid = await fetchIn(page, `${url}/paid`, headers);
        expect(paid).to.deep.include({ status: 200, body: { by: "one-time" } });
        expect(paid.receipt, "a page may read its receipt").to.be.a("string");
        const again = await fetchIn(page, `${url}/paid`, headers);
        expect(again.status).to.equal(402);
      } finally {
        await stop();
      }
    });

    it(`gets no preflight answer for other routes of ${name}, and other OPTIONS reach the application`, async () => {
      const { url, stop } = await start(provider, true);
      try {
        const asks = { Origin: "https://page.example", "Access-Control-Request-Method": "DELETE" };
        const other = await send(`${url}/other`, { method: "OPTIONS", headers: asks });
        expect(other.headers).to.not.have.property("access-control-allow-origin");
        const plain = await send(`${url}/paid`, { method: "OPTIONS" });
        expect(plain.headers).to.not.have.property("access-control-allow-methods");
      } finally {
        await stop();
      }
    });
  }

  it("fails without preflight()", async () => {
    const { url, stop } = await (FRAMEWORKS["Express 5"] as Start)(provider, false);
    try {
      const seen = await fetchIn(page, `${url}/paid`, { "X-PAYMENT": "e30=" });
      expect(seen.failed).to.include("Failed to fetch");
    } finally {
      await stop();
    }
  });
});
