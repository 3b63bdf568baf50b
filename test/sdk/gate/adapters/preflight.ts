import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import { expect } from "chai";
import express from "express";
import fastify, { type FastifyInstance } from "fastify";
import { Hono } from "hono";
import { cors as honoCors } from "hono/cors";
import type { Browser, Page } from "playwright-core";
import type { Provider } from "turnpike/gate";
import {
  expressGate,
  paymentMiddleware as expressMiddleware,
  preflight as expressPreflight,
} from "turnpike/gate/express";
import { fastifyGate, preflight as fastifyPreflight } from "turnpike/gate/fastify";
import { honoGate, paymentMiddleware as honoMiddleware, preflight as honoPreflight } from "turnpike/gate/hono";
import { launchBrowser, openPage } from "../../../support/browser";
import {
  closeServer,
  fetchServer,
  headerOf,
  listen,
  ONE_TIME,
  proofOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";

/** Without types. */
const cors = createRequire(__filename)("cors") as (options?: object) => express.RequestHandler;

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
    const server = fetchServer(app.fetch);
    return { url: await listen(server), stop: () => closeServer(server) };
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

const SOLD = { "GET /paid": { accepts: { scheme: "exact", amount: 500_000n } } } as const;

/** Before all routes, which know nothing of OPTIONS. */
const MIDDLEWARE: Readonly<Record<string, Start>> = {
  "Express 5": startSold(express),
  "Express 4": startSold(createRequire(__filename)("express4") as typeof express),
  async Hono(provider, isOwn) {
    const app = new Hono();
    app.use(honoMiddleware(SOLD, { provider }) as never);
    if (isOwn) app.options("*", honoCors({ origin: "https://own.example", credentials: true }));
    app.get("/paid", (c) => c.json({ by: (c.get("payment" as never) as { kind: string }).kind }));
    app.put("/paid", (c) => c.text("free"));
    const server = fetchServer(app.fetch);
    return { url: await listen(server), stop: () => closeServer(server) };
  },
};

function startSold(make: typeof express): Start {
  return async (provider, isOwn) => {
    const app = make();
    app.use(expressMiddleware(SOLD, { provider }));
    if (isOwn) app.options("/paid", cors({ origin: "https://own.example", credentials: true }));
    app.get("/paid", (request, response) => void response.json({ by: request.payment?.kind }));
    app.put("/paid", (_request, response) => void response.end("free"));
    const server = createServer(app);
    return { url: await listen(server), stop: () => closeServer(server) };
  };
}

type Mount = (app: express.Express, gate: express.RequestHandler) => void;

const serveIt: express.RequestHandler = (_request, response) => void response.end("served");

/** Ways to mount a gate before `GET /api/paid`, and whether a page's preflight would be answered there. */
const MOUNTS: readonly (readonly [how: string, isAnswered: boolean, mount: Mount])[] = [
  ["a route of one method", false, (app, gate) => app.get("/api/paid", gate, serveIt)],
  ["a route in a router", false, (app, gate) => app.use("/api", express.Router().get("/paid", gate, serveIt))],
  [
    "a route with OPTIONS of another path",
    false,
    (app, gate) => app.options("/other", cors()).get("/api/paid", gate, serveIt),
  ],
  ["a route of an application in one", false, (app, gate) => app.use("/api", express().get("/paid", gate, serveIt))],
  ["a route of an application at /", false, (app, gate) => app.use("/", express().get("/api/paid", gate, serveIt))],
  [
    "OPTIONS in a router behind that of the route, whose end answers OPTIONS",
    false,
    (app, gate) =>
      app.use(express.Router().get("/api/paid", gate, serveIt)).use(express.Router().options("/api/paid", cors())),
  ],
  [
    "OPTIONS behind an application with the route",
    false,
    (app, gate) => app.use(express().get("/api/paid", gate, serveIt)).options("/api/paid", cors()),
  ],
  [
    "OPTIONS before an application with the route",
    true,
    (app, gate) => app.options("/api/paid", cors()).use(express().get("/api/paid", gate, serveIt)),
  ],
  [
    "OPTIONS in a router before that of the route",
    true,
    (app, gate) =>
      app.use(express.Router().options("/api/paid", cors())).use(express.Router().get("/api/paid", gate, serveIt)),
  ],
  ["behind a parser", false, (app, gate) => app.use(express.json()).get("/api/paid", gate, serveIt)],
  ["all methods", true, (app, gate) => app.all("/api/paid", gate, serveIt)],
  ["use", true, (app, gate) => app.use("/api", gate, serveIt)],
  ["with OPTIONS before", true, (app, gate) => app.options("/api/paid", cors()).get("/api/paid", gate, serveIt)],
  ["with OPTIONS behind", true, (app, gate) => app.get("/api/paid", gate, serveIt).options("/api/:any", cors())],
  ["with cors() behind", true, (app, gate) => app.get("/api/paid", gate, serveIt).use(cors())],
  ["in one route()", true, (app, gate) => app.route("/api/paid").options(cors()).get(gate, serveIt)],
  [
    "with preflight() for a folder",
    true,
    (app, gate) => app.use("/api", expressPreflight()).get("/api/paid", gate, serveIt),
  ],
  [
    "OPTIONS in the router",
    true,
    (app, gate) => app.use("/api", express.Router().options("/paid", cors()).get("/paid", gate, serveIt)),
  ],
  [
    "a router that Express cannot show",
    true,
    (app, gate) => {
      const inner = express.Router().get("/api/paid", gate, serveIt);
      app.use((request, response, next) => inner(request, response, next));
    },
  ],
];

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

  for (const [name, start] of Object.entries(MIDDLEWARE)) {
    it(`C16 reads the price, pays and collects through paymentMiddleware of ${name}, without preflight()`, async () => {
      const { url, stop } = await start(provider, false);
      try {
        const quoted = await fetchIn(page, `${url}/paid`, {});
        expect(quoted.status).to.equal(402);
        const paid = await fetchIn(page, `${url}/paid`, headerOf(proofOf(quoted.body?.accepts?.[0] as never)));
        expect(paid).to.deep.include({ status: 200, body: { by: "one-time" } });
        const asked = (method: string) => ({ Origin: "https://page.example", "Access-Control-Request-Method": method });
        const sold = await send(`${url}/paid`, { method: "OPTIONS", headers: asked("GET") });
        expect(sold.headers["access-control-allow-methods"]).to.equal("GET, HEAD");
        const free = await send(`${url}/paid`, { method: "OPTIONS", headers: asked("PUT") });
        expect(free.headers, "a method that is not sold").to.not.have.property("access-control-allow-methods");
        const elsewhere = await send(`${url}/elsewhere`, { method: "OPTIONS", headers: asked("GET") });
        expect(elsewhere.headers).to.not.have.property("access-control-allow-origin");
      } finally {
        await stop();
      }
    });

    it(`leaves preflights to the application's own CORS behind paymentMiddleware of ${name}`, async () => {
      const { url, stop } = await start(provider, true);
      try {
        const headers = { Origin: "https://own.example", "Access-Control-Request-Method": "GET" };
        const own = await send(`${url}/paid`, { method: "OPTIONS", headers });
        expect(own.headers).to.include({
          "access-control-allow-origin": "https://own.example",
          "access-control-allow-credentials": "true",
        });
      } finally {
        await stop();
      }
    });
  }

  for (const [version, make] of [
    ["5", express],
    ["4", createRequire(__filename)("express4") as typeof express],
  ] as const) {
    it(`a 402 of Express ${version} is for pages only where something takes OPTIONS`, async () => {
      for (const isPlain of [false, true]) {
        for (const [how, isAnswered, mount] of MOUNTS) {
          const app = make();
          const gate = isPlain
            ? provider.paymentGate({ pricing: ONE_TIME })
            : expressGate(provider.gate({ pricing: ONE_TIME }));
          mount(app, gate as express.RequestHandler);
          const server = createServer(app);
          try {
            const { status, headers } = await send(`${await listen(server)}/api/paid?q=1`);
            expect(status, how).to.equal(402);
            expect("access-control-allow-origin" in headers, how).to.equal(isAnswered);
          } finally {
            await closeServer(server);
          }
        }
      }
    });
  }

  it("the option cors decides where it is set", async () => {
    for (const isSet of [true, false]) {
      const app = express();
      app.get("/paid", expressGate(provider.gate({ pricing: ONE_TIME, cors: isSet })));
      const server = createServer(app);
      try {
        const { headers } = await send(`${await listen(server)}/paid`);
        expect("access-control-allow-origin" in headers).to.equal(isSet);
      } finally {
        await closeServer(server);
      }
    }
  });

  it("a 402 of Fastify is for pages only where something takes OPTIONS", async () => {
    const gate = () => fastifyGate(provider.gate({ pricing: ONE_TIME }));
    const none = async () => "";
    const cases: readonly (readonly [string, boolean, (app: ReturnType<typeof fastify>) => unknown])[] = [
      ["a route of one method", false, (app) => app.get("/paid", { preHandler: gate() }, none)],
      [
        "a route with OPTIONS of another path",
        false,
        (app) => app.options("/other", none).get("/paid", { preHandler: gate() }, none),
      ],
      [
        "a hook of a plugin",
        false,
        (app) => app.register(async (api: FastifyInstance) => void api.addHook("onRequest", gate()).get("/paid", none)),
      ],
      [
        "OPTIONS of all within a plugin's prefix",
        false,
        (app) =>
          app
            .register(async (api: FastifyInstance) => void api.options("*", none), { prefix: "/other" })
            .get("/paid", { preHandler: gate() }, none),
      ],
      [
        "OPTIONS of another host",
        false,
        (app) =>
          app
            .get("/paid", { preHandler: gate() }, none)
            .route({ method: "OPTIONS", url: "/paid", constraints: { host: "other.example" }, handler: none }),
      ],
      [
        "OPTIONS of the host that the route is for",
        true,
        (app) => {
          const constraints = { host: "localhost:80" };
          app.route({ method: "GET", url: "/paid", constraints, preHandler: gate(), handler: none });
          app.route({ method: "OPTIONS", url: "/paid", constraints, handler: none });
        },
      ],
      [
        "OPTIONS of a pattern below another",
        true,
        (app) => app.options("/paid", none).options("/pa", none).get("/paid", { preHandler: gate() }, none),
      ],
      ["OPTIONS", true, (app) => app.options("/paid", none).get("/paid", { preHandler: gate() }, none)],
      ["OPTIONS of all", true, (app) => app.options("*", none).get("/paid", { preHandler: gate() }, none)],
      ["a hook of all", true, (app) => app.addHook("onRequest", gate()).get("/paid", none)],
      [
        "preflight() for all",
        true,
        (app) => app.addHook("onRequest", fastifyPreflight()).get("/paid", { preHandler: gate() }, none),
      ],
      [
        "both methods",
        true,
        (app) => app.route({ method: ["GET", "OPTIONS"], url: "/paid", preHandler: gate(), handler: none }),
      ],
    ];
    for (const [how, isAnswered, mount] of cases) {
      const app = fastify();
      mount(app);
      for (const _again of [1, 2]) {
        const { statusCode, headers } = await app.inject("/paid");
        expect(statusCode, how).to.equal(402);
        expect("access-control-allow-origin" in headers, how).to.equal(isAnswered);
      }
      await app.close();
    }
  });

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
