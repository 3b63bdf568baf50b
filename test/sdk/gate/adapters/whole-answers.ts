/** C14 HA23: the bytes of an answer that was paid for are those of the same handler without a gate. */
import { createHash } from "node:crypto";
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { expect } from "chai";
import express from "express";
import { fileClaims, gated, memoryClaims, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  closeServer,
  listen,
  ONE_TIME,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { express4 } from "../support/frameworks";
import { exchange, type RawAnswer } from "../support/raw-answers";
import { v1Headers } from "../support/standard";

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

const FOLDER = mkdtempSync(path.join(tmpdir(), "turnpike-answers-"));
const SMALL = path.join(FOLDER, "small.txt");
const MIDDLE = path.join(FOLDER, "middle.txt");
writeFileSync(SMALL, "a small file");
writeFileSync(MIDDLE, "30 kB. ".repeat(4_400));

const nextTick = () => new Promise<void>((resolve) => process.nextTick(resolve));
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Each as applications do it. */
const HANDLERS: Readonly<Record<string, Handler>> = {
  "ends in a later microtask": async (_request, response) => {
    response.setHeader("Content-Length", 5);
    response.write("hello");
    await Promise.resolve();
    response.end();
  },
  "ends in a later tick": async (_request, response) => {
    response.setHeader("Content-Length", 5);
    response.write("hello");
    await nextTick();
    response.end();
  },
  "ends in the same turn": (_request, response) => {
    response.setHeader("Content-Length", "5");
    response.write("hello");
    response.end();
  },
  "sends a body that begins like a response": async (_request, response) => {
    const body = "HTTP/1.1 200 OK\r\nSet-Cookie: own=1\r\nContent-Length: 3\r\n\r\nown";
    response.setHeader("Content-Length", body.length);
    response.write(body);
    await Promise.resolve();
    response.end();
  },
  corks: async (_request, response) => {
    response.writeHead(200, { "Content-Length": "10", "X-Own": "1" });
    response.cork();
    response.write("hello");
    response.write("world");
    process.nextTick(() => response.uncork());
    await turn();
    response.end();
  },
  "pipes a file of a declared length": (_request, response) => {
    response.setHeader("Content-Length", 12);
    createReadStream(SMALL).pipe(response);
  },
  "pipes 200 kB": (_request, response) => {
    Readable.from(Array.from({ length: 200 }, (_each, at) => String(at % 10).repeat(1_000))).pipe(response);
  },
  "asks for the head on each write": async (_request, response) => {
    const write = (part: string) => {
      if (!response.headersSent) response.writeHead(response.statusCode, { "X-Own": "1" });
      response.write(part);
    };
    write("one\n");
    await turn();
    write("two\n");
    if (!response.headersSent) response.writeHead(500);
    response.end();
  },
  "asks for the head before its end": async (_request, response) => {
    response.write("the content");
    await turn();
    if (response.headersSent) response.end();
    else response.writeHead(500).end("nothing was written");
  },
  "looks at the head by its private name": (_request, response) => {
    response.write("the ");
    const { _header } = response as unknown as { _header: unknown };
    if (!_header) response.writeHead(500);
    response.end("content");
  },
  "compresses as it is written": async (_request, response) => {
    const gzip = createGzip();
    gzip.on("data", (chunk: Buffer) => {
      if (!response.headersSent) response.writeHead(200, { "Content-Encoding": "gzip" });
      response.write(chunk);
    });
    gzip.on("end", () => response.end());
    for (let at = 0; at < 50; at++) gzip.write(`${at} `.repeat(2_000));
    await turn();
    gzip.end();
  },
  "sends events": async (_request, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const each of ["one", "two", "three"]) {
      if (!response.headersSent) response.writeHead(500);
      response.write(`data: ${each}\n\n`);
      await turn();
    }
    response.end();
  },
  "sets a header too late": (_request, response) => {
    response.write("the ");
    let code = "";
    try {
      response.setHeader("X-Late", "1");
    } catch (error) {
      code = (error as { code: string }).code;
    }
    response.end(code);
  },
  "sets another status too late": async (_request, response) => {
    response.write("the ");
    response.statusCode = 201;
    await turn();
    response.end("content");
  },
  "writes a second head": (_request, response) => {
    response.writeHead(200, { "X-Own": "1" });
    let code = "";
    try {
      response.writeHead(404);
    } catch (error) {
      code = (error as { code: string }).code;
    }
    response.end(code);
  },
  "waits for its callbacks": (_request, response) => {
    response.write("one ", () => response.write("two ", () => response.end("three")));
  },
  "adds trailers": async (_request, response) => {
    response.writeHead(200, { Trailer: "X-Sum" });
    response.write("the content");
    await turn();
    response.addTrailers({ "X-Sum": "1" });
    response.end();
  },
  "adds trailers to chunks beside a length": (_request, response) => {
    response.writeHead(200, { Trailer: "X-Sum", "Transfer-Encoding": "chunked", "Content-Length": 11 });
    response.addTrailers({ "X-Sum": "1" });
    response.end("the content");
  },
  "reuses its buffer": async (_request, response) => {
    const buffer = Buffer.from("one ");
    await new Promise<void>((resolve) => response.write(buffer, () => resolve()));
    buffer.write("two ");
    response.end(buffer);
  },
  "flushes its head": async (_request, response) => {
    response.setHeader("X-Own", "1");
    response.flushHeaders();
    const seen = response.headersSent;
    await turn();
    response.end(String(seen));
  },
  "is destroyed after its end": (_request, response) => {
    response.setHeader("Content-Length", 11);
    response.end("the content");
    response.destroy();
  },
  "has its request destroyed after its end": async (request, response) => {
    response.end("the content");
    await turn();
    request.destroy();
  },
  "has its socket destroyed after its end, with an error": ({ socket }, response) => {
    socket.on("error", () => undefined);
    response.end("the content");
    socket.destroy(new Error("over"));
  },
  "has its socket ended after its end": ({ socket }, response) => {
    response.end("0123456789".repeat(90_000));
    socket.end();
  },
  "has its socket destroyed soon after its end": ({ socket }, response) => {
    response.end("the content");
    socket.destroySoon();
  },
  "ends again after an end of another length than it declares": (_request, response) => {
    response.strictContentLength = true;
    response.writeHead(200, { "Content-Length": 32 });
    try {
      response.end("too short");
    } catch (error) {
      response.end((error as { code: string }).code);
    }
  },
  "answers nothing but a status": (_request, response) => response.writeHead(204, { "X-Own": "1" }).end(),
  "sees its own end": async (_request, response) => {
    response.on("error", () => undefined);
    response.write("a ");
    const { headersSent, writableEnded, finished } = response;
    response.end(`${[headersSent, writableEnded, finished]}`);
  },
  "names bytes as the encoding of a string": (_request, response) => {
    response.write("the ", "buffer" as BufferEncoding);
    response.end("content", "buffer" as BufferEncoding);
  },
  "writes again after an unknown encoding": (_request, response) => {
    response.setHeader("Content-Length", 20);
    let code = "";
    try {
      response.write("a", "unknown" as BufferEncoding);
    } catch (error) {
      code = (error as { code: string }).code;
    }
    response.end(code);
  },
  "ends again after an unknown encoding": (_request, response) => {
    try {
      response.end("a", "unknown" as BufferEncoding);
    } catch {
      response.end(String(response.writableEnded).slice(0, 1));
    }
  },
  "is cut after a part": (_request, response) => {
    response.writeHead(200, { "Content-Length": "100" });
    response.write("the first part");
    setImmediate(() => response.destroy());
  },
};

/** A long body would fill the report of a failure. */
const shortened = (answer: RawAnswer): RawAnswer =>
  answer.body.length < 200 ? answer : { ...answer, body: `${answer.body.length} of ${hashed(answer.body)}` };
const hashed = (text: string) => createHash("sha256").update(text, "latin1").digest("hex");

const PAYMENTS = ["a proof", "a payment settled before", "a payment settled after"] as const;
const STORES = ["memory", "a file"] as const;

describe("an answer that is paid for", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: Server | undefined;
  let folder = "";

  const log = console.error;
  beforeEach(async () => {
    console.error = () => undefined;
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    folder = mkdtempSync(path.join(FOLDER, "claims-"));
  });
  afterEach(async () => {
    console.error = log;
    if (server) await closeServer(server);
    server = undefined;
    await provider.close();
    await facilitator.stop();
  });
  after(() => rmSync(FOLDER, { recursive: true, force: true }));

  const optionsOf = (payment: (typeof PAYMENTS)[number]) =>
    ({ pricing: ONE_TIME, settle: payment === "a payment settled before" ? "before" : "after" }) as never;
  const payFor = async (payment: (typeof PAYMENTS)[number], url: string) =>
    payment === "a proof" ? paidHeaders(url) : v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);

  async function start(store: (typeof STORES)[number], replay: object | false): Promise<void> {
    const claims = store === "memory" ? memoryClaims({ warn: false }) : fileClaims({ folder });
    provider = testProvider(facilitator, { replay, claims } as never);
    await provider.ready();
  }

  async function expectSame(
    listener: Parameters<typeof createServer>[1],
    cases: readonly string[],
    payment: (typeof PAYMENTS)[number],
  ): Promise<void> {
    server = createServer(listener);
    const base = await listen(server);
    for (const [at, name] of cases.entries()) {
      const free = shortened(await exchange(`${base}/free/${at}`));
      const headers = await payFor(payment, `${base}/paid/${at}`);
      const paid = shortened(await exchange(`${base}/paid/${at}`, headers));
      expect(paid.rest, name).to.equal("");
      // How much of an answer has left when it is cut is chance; of one that is withheld, nothing has.
      if (free.isWhole) expect(paid, name).to.deep.equal(free);
      else expect(paid.isWhole, name).to.equal(false);
    }
  }

  for (const store of STORES) {
    for (const payment of PAYMENTS) {
      for (const replay of [{}, false] as const) {
        it(`arrives by node:http as it would without a gate: ${payment}, claims in ${store}, ${replay ? "kept" : "not kept"}`, async () => {
          await start(store, replay);
          const names = Object.keys(HANDLERS);
          const handle: Handler = (request, response) =>
            HANDLERS[names[Number(request.url?.split("/").at(-1))] as string]?.(request, response);
          const paid = gated(provider.paymentGate(optionsOf(payment)), handle);
          await expectSame(
            (request, response) =>
              request.url?.startsWith("/paid") ? paid(request, response) : void handle(request, response),
            names,
            payment,
          );
        });
      }
    }
  }

  const ROUTES: Readonly<Record<string, (response: express.Response) => unknown>> = {
    "sends a small file": (response) => response.sendFile(SMALL),
    "sends a file of 30 kB": (response) => response.sendFile(MIDDLE),
    "has a file downloaded": (response) => response.download(SMALL),
    "sends JSON": (response) => response.json({ the: "content" }),
    "sends text": (response) => response.status(201).send("the content"),
    "throws after a part": (response) => {
      response.setHeader("Content-Length", 100);
      response.write("the first part");
      throw new TypeError("midway");
    },
  };

  for (const [name, make] of Object.entries({ "Express 5": express, "Express 4": express4 })) {
    for (const payment of PAYMENTS) {
      it(`arrives by ${name} as it would without a gate: ${payment}`, async () => {
        await start("memory", {});
        const names = Object.keys(ROUTES);
        const app = make();
        app.set("env", "test");
        app.use("/paid", expressGate(provider.gate(optionsOf(payment))));
        for (const place of ["/free", "/paid"]) {
          app.get(`${place}/:at`, (request, response, next) => {
            if (request.params.at === "small.txt") return next();
            return ROUTES[names[Number(request.params.at)] as string]?.(response);
          });
          app.use(place, make.static(FOLDER));
        }
        await expectSame(app, names, payment);
        const { port } = (server as Server).address() as AddressInfo;
        const base = `http://127.0.0.1:${port}`;
        for (const range of [{}, { Range: "bytes=2-6" }] as Record<string, string>[]) {
          const free = await exchange(`${base}/free/small.txt`, range);
          const headers = await payFor(payment, `${base}/paid/small.txt`);
          const paid = await exchange(`${base}/paid/small.txt`, { ...range, ...headers });
          expect(paid).to.deep.equal(free);
        }
      });
    }
  }
});
