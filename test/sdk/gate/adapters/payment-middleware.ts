/** `paymentMiddleware` before real routers: what they serve for a price is never served unpaid, however it is spelt. */
import { createServer } from "node:http";
import { expect } from "chai";
import express from "express";
import { Hono } from "hono";
import { methodOverride } from "hono/method-override";
import type { Provider } from "turnpike/gate";
import { paymentMiddleware as forExpress, type PaymentRoutes } from "turnpike/gate/express";
import { paymentMiddleware as forHono } from "turnpike/gate/hono";
import { outcomeOf } from "../../../hostile/support/tricks/outcome";
import { TARGETS } from "../../../hostile/support/tricks/targets";
import { ask } from "../../../hostile/support/tricks/wire";
import {
  closeServer,
  fetchServer,
  headerOf,
  listen,
  proofOf,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { express4 } from "../support/frameworks";

const COST = { accepts: { scheme: "exact", amount: 500_000n } } as const;

/** Written as the stock packages' users write them. */
const ROUTES: PaymentRoutes = {
  "GET /api/dear": COST,
  "get /api/items/:id": COST,
  "GET /api/posts/[slug]": COST,
  "GET /api/files/*": COST,
  "GET /api/trips/:from-:via-:to/fares": COST,
  "POST /api/send": COST,
  "/api/any": COST,
  "DELETE /api/send": { accepts: { scheme: "exact", amount: 900_000n } },
};

/** The paths of the paid routes, which the routers behind the middleware have in their own notation. */
const PAID = ["/api/dear", "/api/items/seven", "/api/posts/first", "/api/files/a/b", "/api/files", "/api/any"];

/** Opens the same routes at the root or within a mounted router. */
type Start = (provider: Provider) => Promise<{ url: string; served(): readonly string[]; stop(): Promise<void> }>;

/** The paid routes within the mount, in the routers' notation. */
const HANDLERS = [
  ["get", "/dear"],
  ["get", "/items/:id"],
  ["get", "/posts/:slug"],
  ["get", "/files"],
  ["post", "/send"],
  ["delete", "/send"],
  ["all", "/any"],
] as const;

const FREE = [
  ["get", "/free"],
  ["post", "/dear"],
] as const;

function startExpress(make: typeof express, isMounted: boolean): Start {
  return async (provider) => {
    const served: string[] = [];
    const app = make();
    const api = make.Router();
    const gate = forExpress(isMounted ? withoutPrefix(ROUTES) : ROUTES, { provider });
    if (isMounted) api.use(gate);
    else app.use(gate);
    // As the package method-override does it, mounted too late.
    app.use((request, _response, next) => {
      const asked = request.get("X-HTTP-Method-Override");
      if (asked) request.method = asked;
      next();
    });
    const wildcard = make === express4 ? "/files/*" : "/files/*splat";
    for (const [method, path] of [...HANDLERS, ["get", wildcard] as const, ...FREE]) {
      const isFree = FREE.some((each) => each[0] === method && each[1] === path);
      api[method](path, (request: express.Request, response: express.Response) => {
        served.push(`${isFree ? "free" : "paid"} ${request.originalUrl}`);
        response.json({ ok: true });
      });
    }
    app.use("/api", api);
    app.use((_error: unknown, _request: unknown, response: express.Response, _next: unknown) => {
      response.status(500).end();
    });
    const server = createServer(app);
    return { url: await listen(server), served: () => served, stop: () => closeServer(server) };
  };
}

function startHono(isMounted: boolean): Start {
  return async (provider) => {
    const served: string[] = [];
    const app = new Hono();
    const api = new Hono();
    const gate = forHono(isMounted ? withoutPrefix(ROUTES) : ROUTES, { provider });
    if (isMounted) api.use(gate as never);
    else app.use(gate as never);
    api.use(methodOverride({ app, header: "X-HTTP-Method-Override" }));
    for (const [method, path] of [...HANDLERS, ["get", "/files/*"] as const, ...FREE]) {
      const isFree = FREE.some((each) => each[0] === method && each[1] === path);
      api[method](path, (c) => {
        served.push(`${isFree ? "free" : "paid"} ${c.req.path}`);
        return c.json({ ok: true });
      });
    }
    app.route("/api", api);
    const server = fetchServer(app.fetch);
    return { url: await listen(server), served: () => served, stop: () => closeServer(server) };
  };
}

function withoutPrefix(routes: PaymentRoutes): PaymentRoutes {
  return Object.fromEntries(Object.entries(routes).map(([pattern, cost]) => [pattern.replace("/api", ""), cost]));
}

const STARTS: Readonly<Record<string, Start>> = {
  "Express 5": startExpress(express, false),
  "a mounted router of Express 5": startExpress(express, true),
  "Express 4": startExpress(express4, false),
  "a mounted router of Express 4": startExpress(express4, true),
  Hono: startHono(false),
  "a mounted application of Hono": startHono(true),
};

const METHODS = ["GET", "HEAD"] as const;

for (const [name, start] of Object.entries(STARTS)) {
  describe(`paymentMiddleware before ${name}`, function () {
    this.timeout(60_000);
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: Awaited<ReturnType<Start>>;

    before(async () => {
      facilitator = await startSmallFacilitator();
      provider = testProvider(facilitator);
      server = await start(provider);
    });
    after(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    const paid = () => server.served().filter((each) => each.startsWith("paid"));

    it("asks for payment on its routes, serves what is paid for, and lets all else through", async () => {
      for (const target of PAID) expect(outcomeOf(await ask(server.url, { target })), target).to.equal("asked");
      const quoted = await ask(server.url, { target: "/api/dear" });
      const line = `X-PAYMENT: ${headerOf(proofOf(quoted?.json?.accepts?.[0]))["X-PAYMENT"]}`;
      expect((await ask(server.url, { target: "/api/dear", lines: [line] }))?.status).to.equal(200);
      expect(paid()).to.deep.equal(["paid /api/dear"]);
      expect((await ask(server.url, { target: "/api/free" }))?.status).to.equal(200);
      expect((await ask(server.url, { method: "POST", target: "/api/dear" }))?.status).to.equal(200);
      expect((await ask(server.url, { target: "/api/nowhere" }))?.status).to.equal(404);
    });

    it("C5 serves no spelling of a paid path unpaid, with any method", async () => {
      const before = paid().length;
      for (const path of PAID) {
        const isWhole = path === "/api/dear";
        const tricks = isWhole ? TARGETS : TARGETS.filter((_, index) => index % 4 === PAID.indexOf(path) % 4);
        for (const [what, target] of tricks) {
          for (const method of isWhole ? METHODS : METHODS.slice(0, 1)) {
            await ask(server.url, { method, target: target(path) });
            expect(paid().slice(before), `${method} ${path}: ${what}`).to.deep.equal([]);
          }
        }
      }
    });

    it("C5 serves no paid route under a method that a header puts in the place of another", async () => {
      const before = paid().length;
      for (const asked of ["GET", "get", "HEAD"]) {
        const lines = [`X-HTTP-Method-Override: ${asked}`];
        const answer = await ask(server.url, { method: "POST", target: "/api/dear", lines });
        expect(answer?.status, asked).not.to.equal(200);
      }
      expect(paid().slice(before)).to.deep.equal([]);
    });

    it("C4 C5 serves no dear route for the price of another, by a header that changes the method", async () => {
      const before = paid().length;
      const quoted = await ask(server.url, { method: "POST", target: "/api/send" });
      const line = `X-PAYMENT: ${headerOf(proofOf(quoted?.json?.accepts?.[0]))["X-PAYMENT"]}`;
      const lines = [line, "X-HTTP-Method-Override: DELETE"];
      const answer = await ask(server.url, { method: "POST", target: "/api/send", lines });
      expect(answer?.status).not.to.equal(200);
      expect(paid().slice(before)).to.deep.equal([]);
    });

    it("C8 judges a path in bounded time, whatever its pattern", async () => {
      const target = `/api/trips/${"-".repeat(7_900)}/x`;
      const begunMs = performance.now();
      expect((await ask(server.url, { target }))?.status).to.equal(404);
      expect(performance.now() - begunMs).to.be.below(10_000);
    });
  });
}

describe("paymentMiddleware's routes", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  before(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator);
  });
  after(async () => {
    await provider.close();
    await facilitator.stop();
  });

  const problem = (routes: unknown, options: unknown = { provider }): string => {
    try {
      forExpress(routes as PaymentRoutes, options as never);
      return "accepted";
    } catch (error) {
      return (error as Error).message;
    }
  };

  it("C5 refuses patterns that would protect less than they say, and names them", () => {
    const refused = [
      ...[
        "GET /x?",
        "GET /x/:id?",
        "GET /x/:id(\\d+)",
        "GET /x{/y}",
        "GET /a%20b",
        "GET x",
        "GETT /x",
        "GET /x POST /y",
      ],
      ...["GET /x//y", "GET /x/../y", "GET /x[", "GET /:", "/x#y", "GET /x;a", "GET /a+b"],
    ];
    for (const pattern of refused) expect(problem({ [pattern]: COST }), pattern).to.contain(`"${pattern}"`);
    for (const pattern of [
      "GET /",
      "*",
      "/x",
      "GET /x/",
      "GET /[...rest]",
      "GET /a/[[...rest]]",
      "PUT /a/*rest/b.json",
    ]) {
      expect(problem({ [pattern]: COST }), pattern).to.equal("accepted");
    }
    expect(problem({})).to.contain("no routes");
  });

  it("refuses options without effect, and the arguments of the stock middleware", () => {
    expect(problem({ "/x": { ...COST, config: {} } })).to.contain('"/x".config');
    expect(problem({ "/x": { accepts: { amount: 1n, maxTimeoutSeconds: 60 } } })).to.contain(
      "accepts[0].maxTimeoutSeconds",
    );
    expect(problem({ "/x": { accepts: { amount: 1n, scheme: "upto" } } })).to.match(
      /accepts\[0\]\.scheme .*type: "upto"/,
    );
    expect(problem({ "POST /x": { ...COST, page: true } })).to.contain('"POST /x".page');
    for (const pattern of ["get /x", "/x", "*"])
      expect(problem({ [pattern]: { ...COST, page: true } }), pattern).not.to.contain(".page");
    expect(problem({ "/x": "$0.01" })).to.contain('"/x"');
    expect(problem({ "/x": { accepts: [] } })).to.contain("prices is empty");
    expect(problem("0x1234")).to.contain("first argument is no routes");
    expect(problem({ "/x": COST }, { register: () => undefined })).to.contain("{ provider }");
  });

  it("refuses each argument of the stock middleware by its place, with what replaces it", () => {
    class StockServer {
      readonly #clients: readonly unknown[] = [];
      register = undefined;
      get clients() {
        return this.#clients;
      }
    }
    class Hidden {
      readonly #url = "https://facilitator.example";
      get url() {
        return this.#url;
      }
    }
    const second = /^paymentMiddleware: the second argument\S* has no effect: configure\(\) or \{ provider \}/;
    for (const server of [
      new StockServer(),
      new Hidden(),
      [new Hidden()],
      [],
      null,
      "https://facilitator.example",
      { url: "x" },
    ])
      expect(problem({ "/x": COST }, server), String(JSON.stringify(server))).to.match(second);
    expect(problem({ "/x": COST }, { provider: {} })).to.contain("what createProvider() returns");
    for (const make of [forExpress, forHono] as ((...args: readonly unknown[]) => unknown)[]) {
      const further =
        (...given: readonly unknown[]) =>
        () =>
          make({ "/x": COST }, { provider }, ...given);
      expect(further({ appName: "Shop" })).to.throw("argument 3 (stock: paywallConfig) has no effect: set page: true");
      expect(further(undefined, { generateHtml: () => "" })).to.throw("argument 4 (stock: paywall)");
      expect(further(undefined, undefined, false))
        .to.throw("argument 5 (stock: syncFacilitatorOnStart)")
        .with.property("code", "ConfigError");
      expect(further(undefined, undefined, undefined, 1)).to.throw("argument 6 has no effect: remove it");
      expect(further(undefined, undefined)).not.to.throw();
    }
    expect(problem("0x1234", { "/x": COST })).to.contain("payTo and facilitator belong into accepts");
  });
});
