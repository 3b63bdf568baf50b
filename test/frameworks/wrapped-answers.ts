/** Middleware that changes how answers are written, before and behind a gate: what arrives is what arrives without one. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { gunzipSync } from "node:zlib";
import { expect } from "chai";
import express, { type Response as ExpressResponse, type RequestHandler } from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { compress } from "hono/compress";
import type { Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { honoGate } from "turnpike/gate/hono";
import type { AcceptEntryWire } from "turnpike/protocol";
import { express4 } from "../sdk/gate/support/frameworks";
import { exchange, type RawAnswer } from "../sdk/gate/support/raw-answers";
import { v1Headers } from "../sdk/gate/support/standard";
import {
  closeServer,
  fetchServer,
  listen,
  ONE_TIME,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../support/gate";

// Installed by `npm run test:frameworks` alone, and so without types.
const load = createRequire(path.join(__dirname, "package.json"));

type Make = (...options: unknown[]) => RequestHandler;

const MIDDLEWARE: Readonly<Record<string, () => RequestHandler>> = {
  compression: () => (load("compression") as Make)(),
  "compression of everything": () => (load("compression") as Make)({ threshold: 0 }),
  "express-session": () =>
    (load("express-session") as Make)({ secret: "of this test", resave: true, saveUninitialized: true }),
  helmet: () => (load("helmet") as Make)(),
  morgan: () =>
    (load("morgan") as Make)("tiny", { stream: new Writable({ write: (_chunk, _encoding, done) => done() }) }),
  "response-time": () => (load("response-time") as Make)(),
  "on-headers": () => (_request, response, next) => {
    (load("on-headers") as (response: unknown, act: () => void) => void)(response, () =>
      response.setHeader("X-On-Headers", String(response.statusCode)),
    );
    next();
  },
};

const FOLDER = mkdtempSync(path.join(tmpdir(), "turnpike-middleware-"));
const FILES = { small: path.join(FOLDER, "small.txt"), middle: path.join(FOLDER, "middle.txt") };
writeFileSync(FILES.small, "a small file");
writeFileSync(FILES.middle, "30 kB. ".repeat(4_400));

interface Files {
  sendFile(name: string): unknown;
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

const ROUTES: Readonly<Record<string, (response: ExpressResponse) => unknown>> = {
  text: (response) => response.send("the content"),
  json: (response) => response.status(201).json({ text: "the content ".repeat(200) }),
  file: (response) => response.sendFile(FILES.middle),
  small: (response) => response.sendFile(FILES.small),
  pipe: (response) =>
    Readable.from(Array.from({ length: 200 }, (_each, at) => String(at % 10).repeat(1_000))).pipe(
      response.type("text/plain"),
    ),
  parts: async (response) => {
    response.type("text/plain");
    response.write("one\n");
    await turn();
    response.write("two\n");
    if (response.headersSent) response.end();
    else response.status(500).end();
  },
  events: async (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const each of ["one", "two", "three"]) {
      response.write(`data: ${each}\n\n`);
      await turn();
    }
    response.end();
  },
  declared: async (response) => {
    response.type("text/plain").set("Content-Length", "11");
    response.write("the content");
    await Promise.resolve();
    response.end();
  },
  missing: (response) => response.status(404).send("nothing here"),
};

/** Names and values that differ by the run, and how a compressed body is cut into blocks. */
function comparable({ headers, body, status, isWhole, rest }: RawAnswer) {
  const plain = headers
    // Servers of fetch-style handlers send what was read whole by its length.
    .filter((line) => !/^(?:etag|last-modified|keep-alive|connection|content-length|transfer-encoding)/i.test(line))
    .map((line) => line.replace(/^(set-cookie: [^=]+=).*/i, "$1"))
    .map((line) => line.toLowerCase().replaceAll("; ", ";"));
  const isGzip = headers.some((line) => /^content-encoding: gzip/i.test(line));
  const text = isGzip ? gunzipSync(Buffer.from(body, "latin1")).toString("latin1") : body;
  return { status, isWhole, rest, headers: plain, text };
}

const PAYMENTS = ["a proof", "a payment settled before", "a payment settled after"] as const;

describe("middleware around a gate", function () {
  this.timeout(120_000);
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: Server | undefined;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { replay: {} });
    await provider.ready();
  });
  afterEach(async () => {
    if (server) await closeServer(server);
    server = undefined;
    await provider.close();
    await facilitator.stop();
  });
  after(() => rmSync(FOLDER, { recursive: true, force: true }));

  const optionsOf = (payment: string) =>
    ({ pricing: ONE_TIME, settle: payment === "a payment settled before" ? "before" : "after" }) as never;
  const payFor = async (payment: string, url: string) =>
    payment === "a proof" ? paidHeaders(url) : v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);

  async function expectSame(base: string, names: readonly string[], payment: string): Promise<void> {
    for (const name of names) {
      for (const accepts of [{ "Accept-Encoding": "gzip" }, {}] as Record<string, string>[]) {
        const free = await exchange(`${base}/free/${name}`, accepts);
        const headers = await payFor(payment, `${base}/paid/${name}`);
        const paid = await exchange(`${base}/paid/${name}`, { ...accepts, ...headers });
        expect(comparable(paid), name).to.deep.equal(comparable(free));
      }
    }
  }

  for (const [name, wrap] of Object.entries({ ...MIDDLEWARE, "all of them": () => undefined })) {
    const middleware = wrap() ?? Object.values(MIDDLEWARE).map((each) => each());
    for (const place of ["before", "behind"] as const) {
      it(`${name} ${place} the gate of Express writes what it writes without one`, async () => {
        for (const [payment, make] of PAYMENTS.flatMap(
          (each) =>
            [
              [each, express],
              [each, express4],
            ] as const,
        )) {
          const app = make();
          app.set("env", "test");
          const gate = expressGate(provider.gate(optionsOf(payment)));
          if (place === "before") app.use(middleware);
          app.use("/paid", gate);
          if (place === "behind") app.use(middleware);
          app.get(["/free/:name", "/paid/:name"], (request, response) =>
            ROUTES[String(request.params.name)]?.(response),
          );
          const current = createServer(app);
          server = current;
          await expectSame(await listen(current), Object.keys(ROUTES), payment);
          await closeServer(current);
        }
      });
    }
  }

  for (const [name, own] of [
    ["Fastify 5", { fastify, compress: "@fastify/compress", files: "@fastify/static" }],
    ["Fastify 4", { fastify: load("fastify4") as typeof fastify, compress: "fastify4-compress", files: undefined }],
  ] as const) {
    it(`@fastify/compress and @fastify/static of ${name} write what they write without a gate`, async () => {
      for (const payment of PAYMENTS) {
        const app = own.fastify();
        await app.register(load(own.compress) as never, { threshold: 10, encodings: ["gzip"] } as never);
        if (own.files) await app.register(load(own.files) as never, { root: FOLDER, serve: false } as never);
        const hook = { preHandler: fastifyGate(provider.gate(optionsOf(payment))) };
        for (const [at, options] of [
          ["/free", {}],
          ["/paid", hook],
        ] as const) {
          app.get(`${at}/text`, options, async () => "the content ".repeat(100));
          app.get(`${at}/stream`, options, async (_request, reply) =>
            reply.type("text/plain").send(Readable.from(["one ", "two ".repeat(10_000), "three"])),
          );
          app.get(`${at}/file`, options, (_request, reply) => (reply as unknown as Files).sendFile("middle.txt"));
          app.get(`${at}/missing`, options, async (_request, reply) => reply.code(404).send("nothing here"));
        }
        const base = await app.listen({ port: 0, host: "127.0.0.1" });
        try {
          await expectSame(base, ["text", "stream", "missing", ...(own.files ? ["file"] : [])], payment);
        } finally {
          await app.close();
        }
      }
    });
  }

  for (const place of ["before", "behind"] as const) {
    it(`hono/compress ${place} the gate writes what it writes without one`, async () => {
      for (const payment of PAYMENTS) {
        const app = new Hono();
        if (place === "before") app.use(compress({ threshold: 10 }));
        app.use("/paid/*", honoGate(provider.gate(optionsOf(payment))) as never);
        if (place === "behind") app.use(compress({ threshold: 10 }));
        app.get("/:at/text", (c) => c.text("the content ".repeat(100)));
        app.get("/:at/stream", (c) =>
          c.body(Readable.toWeb(Readable.from([Buffer.from("one "), Buffer.from("two")])) as ReadableStream, 200, {
            "Content-Type": "text/plain",
          }),
        );
        app.get("/:at/missing", (c) => c.text("nothing here", 404));
        const current = fetchServer(app.fetch);
        server = current;
        await expectSame(await listen(current), ["text", "stream", "missing"], payment);
        await closeServer(current);
      }
    });
  }
});
