/** What an application puts around a gate: another gate, middleware behind it, and handlers that go past the response. */
import { createServer, type Server, ServerResponse } from "node:http";
import http2 from "node:http2";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { expect } from "chai";
import express, { type RequestHandler } from "express";
import fastify, { type FastifyReply, type FastifyRequest } from "fastify";
import { Hono } from "hono";
import { type GateOptions, gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  closeServer,
  fetchServer,
  listen,
  ONE_TIME,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { exchange } from "../support/raw-answers";
import { v1Headers } from "../support/standard";

const UNFUNDED = { success: false, errorReason: "insufficient_funds", transaction: "", network: "local-31337" };

const optionsOf = (more: object = {}) => ({ pricing: ONE_TIME, ...more }) as unknown as GateOptions<never>;

describe("what is around a gate", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  const servers: Server[] = [];

  const log = console.error;
  beforeEach(async () => {
    console.error = () => undefined;
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator);
  });
  afterEach(async () => {
    console.error = log;
    await Promise.all(servers.splice(0).map(closeServer));
    await provider.close();
    await facilitator.stop();
  });

  async function serve(app: express.Express): Promise<string> {
    const server = createServer(app);
    servers.push(server);
    return `${await listen(server)}/x`;
  }
  const gate = (more?: object) => expressGate(provider.gate(optionsOf(more)));
  const standard = async (url: string) => v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
  const settlements = () => facilitator.calls.filter(({ path }) => path === "/settle").length;

  it("C40 two gates before one handler are a fault of the setting, and use no payment up", async () => {
    const one = gate();
    for (const [first, second] of [
      [one, one],
      [gate(), gate()],
      [gate({ settle: "before" }), gate()],
    ] as const) {
      const app = express();
      app.use(first);
      app.get("/x", second, (_request, response) => response.send("content"));
      app.use(((error, _request, response, _next) =>
        response.status(500).send(error.message)) as express.ErrorRequestHandler);
      const url = await serve(app);
      for (const pay of [() => paidHeaders(url), () => standard(url)]) {
        const headers = await pay();
        for (let i = 0; i < 2; i++) {
          const answer = await send(url, { headers });
          expect([answer.status, answer.text], answer.text).to.deep.equal([
            500,
            "two gates before one handler ask for one payment: remove one, such as paymentGate behind paymentMiddleware",
          ]);
        }
      }
    }
  });

  it("C40 another request's payment in use stays a 409", async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const app = express();
    app.get("/x", gate(), async (_request, response) => {
      await held;
      response.send("content");
    });
    const url = await serve(app);
    const headers = await paidHeaders(url);
    const first = send(url, { headers });
    const seen = await Promise.race([first.then(() => undefined), send(url, { headers })]);
    release();
    const statuses = [(await first).status, seen?.status].sort();
    expect(statuses).to.deep.equal([200, 409]);
  });

  /** Runs `act` when the head is written, as the package on-headers does. */
  const onHead =
    (act: (response: ServerResponse) => void): RequestHandler =>
    (_request, response, next) => {
      const own = response.writeHead;
      let isWritten = false;
      response.writeHead = function (this: ServerResponse, ...args: never[]) {
        if (!isWritten) act(this);
        isWritten = true;
        return own.apply(this, args as never);
      } as typeof response.writeHead;
      next();
    };

  it("HA27 middleware behind the gate adds its headers, whenever the payment settles", async () => {
    const app = express();
    app.use(
      gate(),
      onHead((response) => response.setHeader("Set-Cookie", "session=1")),
    );
    const ways: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
      end: (response) => response.end("content"),
      write: (response) => response.write("con") && response.end("tent"),
      writeHead: (response) => response.writeHead(200, { "X-Own": "1" }).end("content"),
      stream: (response) => {
        response.setHeader("Content-Type", "text/event-stream");
        response.write("con");
        response.end("tent");
      },
    };
    app.get("/x", (request, response) => void ways[String(request.query.way)]?.(response));
    const base = await serve(app);
    for (const way of Object.keys(ways)) {
      const url = `${base}?way=${way}`;
      for (const headers of [await paidHeaders(url), await standard(url)]) {
        const { status, text: body, headers: sent } = await send(url, { headers });
        expect([status, body, sent["set-cookie"]], way).to.deep.equal([200, "content", ["session=1"]]);
        expect(sent["cache-control"], way).to.equal("private, no-store");
      }
    }
    expect(settlements()).to.equal(4);
  });

  /** Passes on what is written through methods of its own, as Fastify's plugins hook `reply.raw`. */
  async function hook(raw: ServerResponse, seen: string[]): Promise<void> {
    for (const method of ["writeHead", "write", "end"] as const) {
      const own = raw[method] as (...args: unknown[]) => unknown;
      raw[method] = function (this: ServerResponse, ...args: unknown[]) {
        seen.push(method);
        return own.apply(this, args);
      } as never;
    }
  }

  for (const settle of ["before", "after"] as const) {
    for (const place of ["before", "behind"] as const) {
      it(`HA27 S2 hooks ${place} the gate on Fastify's reply.raw see what leaves, and nothing unpaid does, settled ${settle}`, async () => {
        const seen: string[] = [];
        const app = fastify();
        const hooked = async (_request: FastifyRequest, reply: FastifyReply) => hook(reply.raw, seen);
        const own = fastifyGate(provider.gate(optionsOf({ settle })));
        if (place === "before") app.addHook("onRequest", hooked);
        const preHandler = place === "before" ? own : [own, hooked];
        app.get("/x", { preHandler }, async ({ query }, reply) => {
          const { raw } = reply.hijack();
          if ((query as { way: string }).way === "pipe") return void Readable.from(["con", "tent"]).pipe(raw);
          raw.writeHead(200, { "X-Own": "1" });
          raw.write("con");
          raw.end("tent");
        });
        servers.push(app.server);
        await app.ready();
        const base = `${await listen(app.server)}/x`;
        for (const way of ["write", "pipe"]) {
          const url = `${base}?way=${way}`;
          const headers = await standard(url);
          seen.length = 0;
          facilitator.settlements.push(UNFUNDED);
          const refused = await send(url, { headers });
          expect([refused.status, refused.text.includes("tent")], way).to.deep.equal([402, false]);
          const paid = await send(url, { headers });
          expect([paid.status, paid.text], way).to.deep.equal([200, "content"]);
          expect(seen, way).to.include.members(["write", "end"]);
        }
        expect(settlements()).to.equal(4);
        await app.close();
      });
    }
  }

  it("C39 S2 a handler that answers past its response by the methods of its prototype fails, and costs nothing", async () => {
    const { prototype } = ServerResponse;
    const ways: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
      end: (response) => Reflect.apply(prototype.end, response, ["the content"]),
      write: (response) => Reflect.apply(prototype.write, response, ["the content"]),
      head: (response) => {
        Reflect.apply(prototype.writeHead, response, [200]);
        Reflect.apply(prototype.end, response, ["the content"]);
      },
    };
    const app = express();
    app.use(gate());
    app.get("/x", (request, response) => void ways[String(request.query.way)]?.(response));
    app.use(((error, _request, response, _next) => {
      if (response.headersSent) response.destroy();
      else response.status(500).send(error.message);
    }) as express.ErrorRequestHandler);
    const base = await serve(app);
    for (const way of Object.keys(ways)) {
      const url = `${base}?way=${way}`;
      const { body, rest } = await exchange(url, await standard(url));
      expect(`${body}${rest}`, way).not.to.include("the content");
    }
    expect(settlements()).to.equal(0);
  });

  it("C39 S2 a handler that answers past an HTTP/2 response fails, and costs nothing", async () => {
    type Stream = http2.ServerHttp2Stream;
    const ways: Readonly<Record<string, (stream: Stream) => unknown>> = {
      "/respond": (stream) => {
        stream.respond({ ":status": 200 });
        stream.end("the content");
      },
      "/file": (stream) => stream.respondWithFile(__filename, { ":status": 200 }),
      "/end": (stream) => stream.end("the content"),
    };
    await provider.close();
    provider = testProvider(facilitator, { publicUrl: "https://api.example" });
    const listener = gated(provider.paymentGate(optionsOf()), (request, response) => {
      const way = ways[request.url ?? ""];
      if (way) way((response as unknown as { stream: Stream }).stream);
      else response.end("by the response");
    });
    const { ask, close } = await overHttp2(listener);
    try {
      for (const path of [...Object.keys(ways), "/plain"]) {
        const { accepts } = JSON.parse((await ask(path)).body) as { accepts: AcceptEntryWire[] };
        const { status, body } = await ask(path, await v1Headers(accepts[0] as AcceptEntryWire));
        const isPlain = path === "/plain";
        expect([status, body.includes("by the response")], path).to.deep.equal([isPlain ? 200 : 500, isPlain]);
        expect(body).not.to.include("the content");
        expect(settlements()).to.equal(isPlain ? 1 : 0);
      }
    } finally {
      close();
    }
  });

  for (const framework of ["Hono", "fetch"] as const) {
    it(`C39 S2 a ${framework} handler that answers past its Response costs nothing unless it has settled, and keeps no answer`, async () => {
      await provider.close();
      provider = testProvider(facilitator, { replay: {} });
      type Outgoing = { readonly outgoing: ServerResponse };
      const answer = ({ outgoing }: Outgoing, path: string) => {
        if (path.endsWith("/now")) outgoing.end("the content");
        else setImmediate(() => outgoing.writableEnded || outgoing.end("the content"));
        return RESPONSE_ALREADY_SENT;
      };
      const app = new Hono<{ Bindings: Outgoing }>();
      app.onError((_error, c) => c.text("failed", 500));
      for (const settle of ["before", "after"] as const) {
        const options = optionsOf({ settle });
        const handler = fetchGate(provider.gate(options))(async (request, env: Outgoing) => answer(env, request.url));
        if (framework === "fetch") app.get(`/${settle}/*`, (c) => handler(c.req.raw, c.env));
        else app.get(`/${settle}/*`, honoGate(provider.gate(options)), (c) => answer(c.env, c.req.path));
      }
      const server = fetchServer((request, env) => app.fetch(request, env as never));
      servers.push(server);
      const base = await listen(server);
      for (const time of ["now", "later"]) {
        const [before, after] = [`${base}/before/${time}`, `${base}/after/${time}`];
        const paid = await paidHeaders(before);
        expect([(await send(before, { headers: paid })).text, time]).to.deep.equal(["the content", time]);
        const again = await send(before, { headers: paid });
        expect([again.status, again.json.error, time]).to.deep.equal([402, "PaymentAlreadyUsed", time]);
        const withheld = await exchange(after, await standard(after));
        expect([withheld.body.includes("the content"), settlements(), time]).to.deep.equal([false, 0, time]);
      }
    });
  }

  for (const settle of ["before", "after"] as const) {
    it(`HA27 an HTTP/2 answer arrives whose handler closes its stream after the end, settled ${settle}`, async () => {
      await provider.close();
      provider = testProvider(facilitator, { publicUrl: "https://api.example" });
      const listener = gated(provider.paymentGate({ ...optionsOf(), settle }), (request, response) => {
        const { stream } = response as unknown as { stream: http2.ServerHttp2Stream };
        response.end("the content");
        if (request.url === "/close") stream.close();
        else stream.destroy();
      });
      const { ask, close } = await overHttp2(listener);
      try {
        for (const path of ["/close", "/destroy"]) {
          const { accepts } = JSON.parse((await ask(path)).body) as { accepts: AcceptEntryWire[] };
          const got = await ask(path, await v1Headers(accepts[0] as AcceptEntryWire));
          expect(got, path).to.deep.equal({ body: "the content", status: 200 });
        }
      } finally {
        close();
      }
    });
  }
});

async function overHttp2(listener: ReturnType<typeof gated>) {
  const server = http2.createServer(listener as never);
  const session = http2.connect(await listen(server as never));
  const ask = async (path: string, headers: object = {}) => {
    const lower = Object.entries(headers).map(([field, value]) => [field.toLowerCase(), value]);
    const stream = session.request({ ":path": path, ...Object.fromEntries(lower) });
    let status: number | undefined;
    stream.once("response", (head) => {
      status = head[":status"];
    });
    return { body: await text(stream), status };
  };
  const close = () => {
    session.destroy();
    server.close();
  };
  return { ask, close };
}
