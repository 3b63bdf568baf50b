import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { connect } from "node:http2";
import { json as jsonOf, text } from "node:stream/consumers";
import { createGunzip, gzipSync } from "node:zlib";
import { getRequestListener } from "@hono/node-server";
import { expect } from "chai";
import express, { type Request as ExpressRequest } from "express";
import fastify, { type FastifyRequest } from "fastify";
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { ConfigError } from "turnpike";
import type { GateOptions, Provider } from "turnpike/gate";
import { expressGate, keepBody } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import {
  type Answer,
  headerOf,
  ONE_TIME,
  paidHeaders,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { HTTP2, type Started, serving } from "../support/body-arrangements";
import { express4 } from "../support/frameworks";

const BOUND = { pricing: ONE_TIME, bind: "body" } as const;
const POST = { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"size":1}' };

describe("bodies that a gate cannot bind, and those that it does not", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let started: Started[];
  let warnings: Error[];
  const note = (warning: Error) => void warnings.push(warning);

  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  beforeEach(() => {
    provider = testProvider(facilitator);
    started = [];
    warnings = [];
    process.on("warning", note);
  });
  afterEach(async () => {
    process.off("warning", note);
    for (const server of started) await server.stop();
    await provider.close();
  });
  after(() => facilitator.stop());

  // biome-ignore lint/suspicious/noExplicitAny: every framework's listener
  const serve = async (listener: any): Promise<string> => {
    const server = await serving(createServer(listener));
    started.push(server);
    return `${server.url}/x`;
  };
  const gate = (options: Partial<GateOptions<never>> = {}) =>
    provider.gate({ ...BOUND, ...options } as GateOptions<never>);

  /** Says what to change, for the client and once for the operator; asks for no money. */
  async function expectFault(answer: Answer, words: RegExp): Promise<void> {
    expect([answer.status, answer.json?.error], answer.text).to.deep.equal([500, "ConfigError"]);
    expect(answer.json.message).to.match(words);
    expect(answer.json).to.not.have.property("accepts");
    expect(answer.headers).to.not.have.property("payment-required");
    await new Promise(setImmediate);
    expect(warnings.map(({ message }) => message)).to.include(answer.json.message);
  }

  describe("a body that was read before the gate", () => {
    const listeners: Record<string, { words: RegExp; make: () => Promise<string> }> = {};
    for (const [name, make] of Object.entries({ "Express 5": express, "Express 4": express4 })) {
      for (const parser of ["json", "urlencoded"] as const) {
        listeners[`${name}, ${parser}()`] = {
          words: /verify: keepBody/,
          make: async () => {
            const app = make();
            app.use(make[parser]({ extended: true, type: "*/*" } as never));
            app.post("/x", expressGate(gate()), (_request, response) => void response.json(1));
            return serve(app);
          },
        };
      }
    }
    listeners["Fastify, preHandler"] = {
      words: /preParsing/,
      make: async () => {
        const app = fastify();
        app.post("/x", { preHandler: fastifyGate(gate()) }, () => 1);
        const url = await app.listen({ port: 0, host: "127.0.0.1" });
        started.push({ url, stop: () => app.close() });
        return `${url}/x`;
      },
    };
    listeners["Hono, c.req.raw"] = {
      words: /before the middleware/,
      make: async () => {
        const app = new Hono();
        app.use(async ({ req }, next) => {
          await req.raw.text();
          await next();
        });
        app.post("/x", honoGate(gate()) as never, (c) => c.json(1));
        return serve(getRequestListener(app.fetch));
      },
    };
    listeners.fetch = {
      words: /wrap the handler/,
      make: async () => {
        const paid = fetchGate(gate())(() => Response.json(1));
        return serve(
          getRequestListener(async (request) => {
            await request.text();
            return paid(request);
          }),
        );
      },
    };

    for (const [name, { words, make }] of Object.entries(listeners)) {
      it(`HB4 is a typed error with a remedy, and no quote: ${name}`, async () => {
        const url = await make();
        await expectFault(await send(url, POST), words);
        await send(url, POST);
        await new Promise(setImmediate);
        expect(warnings.filter(({ name: code }) => code === "ConfigError")).to.have.length(1);
      });
    }

    it("HB4 is bound all the same where Hono has kept it", async () => {
      const app = new Hono();
      app.use(async ({ req }, next) => {
        await req.json();
        await next();
      });
      app.use(bodyLimit({ maxSize: 1_000 }));
      const amount = async ({ req }: { req: { json(): Promise<{ size: number }> } }) => BigInt((await req.json()).size);
      const price = [{ type: "one-time", amount }] as never;
      app.post("/x", honoGate(gate({ pricing: price })) as never, async (c) => c.json(await c.req.json()));
      const url = await serve(getRequestListener(app.fetch));
      const [entry] = (await quoteOf(url, POST)).accepts;
      const headers = { ...POST.headers, ...headerOf(proofOf(entry as never)) };
      expect((await send(url, { ...POST, headers, body: '{"size":9}' })).json.reason).to.equal("memo");
      expect((await send(url, { ...POST, headers })).json).to.deep.equal({ size: 1 });
    });
  });

  for (const [name, make] of Object.entries({ "Express 5": express, "Express 4": express4 })) {
    describe(`ready(app) of ${name}`, () => {
      const readyOf = async (
        mount: (app: express.Application, gate: express.RequestHandler) => void,
        options = BOUND,
      ) => {
        const answers: (Error | "ready")[] = [];
        for (const middleware of [expressGate(provider.gate(options)), provider.paymentGate(options as never)]) {
          const app = make();
          mount(app, middleware as express.RequestHandler);
          const answer = middleware.ready(app).then(
            () => "ready" as const,
            (error: Error) => error,
          );
          answers.push(await answer);
        }
        const [first, second] = answers;
        expect(String(second), "of createProvider").to.equal(String(first));
        return first;
      };
      const parsers = { json: make.json(), urlencoded: make.urlencoded({ extended: true }) };
      const keep = (request: IncomingMessage, _response: unknown, bytes: Buffer) =>
        void Object.assign(request, { rawBody: bytes });

      it("HB4 rejects where a parser before the gate keeps no bytes, of the application, a router or the route", async () => {
        for (const [parser, handle] of Object.entries(parsers)) {
          const mounts: ((app: express.Application, gate: express.RequestHandler) => void)[] = [
            (app, each) => app.use(handle).post("/x", each),
            (app, each) => app.post("/x", handle, each),
            (app, each) => app.use(handle).use("/api", make.Router().post("/x", each)),
            (app, each) => app.use("/api", make.Router().use(handle).use("/x", each)),
          ];
          for (const mount of mounts) {
            const error = await readyOf(mount);
            expect(error, String(mount)).to.be.instanceOf(ConfigError);
            expect((error as Error).message).to.match(new RegExp(`${parser}Parser reads .*verify: keepBody`));
          }
        }
      });

      it("HB4 resolves where the bytes are there, or none are bound", async () => {
        const mounts: ((app: express.Application, gate: express.RequestHandler) => void)[] = [
          (app, each) => app.post("/x", each, make.json()),
          (app, each) => app.use(make.json({ verify: keepBody })).post("/x", each),
          (app, each) => app.use(make.json({ verify: keep })).post("/x", each),
          (app, each) => app.use(make.raw({ type: "*/*" })).post("/x", each),
          (app, each) => app.use("/other", make.json()).post("/x", each),
          (app, each) => app.post("/y", make.json()).post("/x", each),
          (app) => app.use(make.json()),
        ];
        for (const mount of mounts) expect(await readyOf(mount), String(mount)).to.equal("ready");
        const unbound = (app: express.Application, each: express.RequestHandler) =>
          app.use(make.json()).post("/x", each);
        expect(await readyOf(unbound, { pricing: ONE_TIME } as never)).to.equal("ready");
      });
    });
  }

  it("HB4 two gates around a parser read the same bytes", async () => {
    const app = express();
    const open = gate({ free: () => true } as never);
    app.post("/x", expressGate(open), express.json(), expressGate(gate()), (request, response) => {
      response.json(request.body);
    });
    const url = await serve(app);
    const headers = { ...POST.headers, ...(await paidHeaders(url, {}, POST)) };
    expect((await send(url, { ...POST, headers })).json).to.deep.equal({ size: 1 });
  });

  it("HB4 binds compressed bodies as they were sent, and lets parsers inflate them", async () => {
    const before = express();
    before.post("/x", expressGate(gate()), express.json(), (request, response) => void response.json(request.body));
    const behind = express();
    behind.use(express.json({ verify: keepBody }));
    behind.post("/x", expressGate(gate()), (request, response) => void response.json(request.body));
    const app = fastify();
    app.addHook("preParsing", (_request, _reply, payload, done) => {
      const inflated = Object.assign(payload.pipe(createGunzip()), { receivedEncodedLength: 0 });
      payload.on("data", (chunk: Buffer) => (inflated.receivedEncodedLength += chunk.byteLength));
      done(null, inflated);
    });
    const price = ({ body }: { body: { size: number } }) => BigInt(body.size);
    const priced = gate({ pricing: [{ type: "one-time", amount: price }] } as never);
    app.post("/x", { preParsing: fastifyGate(priced) }, async ({ body }: FastifyRequest) => body);
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    started.push({ url, stop: () => app.close() });
    for (const each of [await serve(before), await serve(behind), `${url}/x`]) {
      const headers = { ...POST.headers, "Content-Encoding": "gzip" };
      const zipped = { ...POST, headers, body: gzipSync(POST.body) as never };
      const paid = { ...headers, ...(await paidHeaders(each, {}, zipped)) };
      const other = { ...zipped, headers: paid, body: gzipSync('{"size":9}') as never };
      expect((await send(each, other)).json).to.include({ reason: "memo" });
      const served = await send(each, { ...zipped, headers: paid });
      expect([served.status, served.json], served.text).to.deep.equal([200, { size: 1 }]);
    }
  });

  it("HB4 a body that the price cannot read as JSON is the client's fault", async () => {
    const app = express();
    const amount = ({ body }: { body: { size: number } }) => BigInt(body.size);
    app.post("/x", expressGate(gate({ pricing: [{ type: "one-time", amount }] } as never)), express.json());
    const answer = await send(await serve(app), { ...POST, body: '{"size":' });
    expect([answer.status, answer.json.error]).to.deep.equal([400, "InvalidRequest"]);
  });

  it("HB4 what a callback notes on its request is there for the handler", async () => {
    const authorize = async (_payment: unknown, request: IncomingMessage) => {
      Object.assign(request, { noted: await text(request) });
      return true;
    };
    const app = express();
    app.post("/x", expressGate(gate({ authorize } as never)), async (request, response) => {
      const { noted } = request as { noted?: string };
      response.json({ noted, body: await text(request) });
    });
    const url = await serve(app);
    const headers = { ...POST.headers, ...(await paidHeaders(url, {}, POST)) };
    expect((await send(url, { ...POST, headers })).json).to.deep.equal({ noted: POST.body, body: POST.body });
  });

  it("HB4 binds bodies over HTTP/2", async () => {
    const own = testProvider(facilitator, { publicUrl: "https://api.example" });
    const server = await HTTP2.start([own.gate(BOUND)]);
    started.push(server, { url: "", stop: () => own.close() });
    const client = connect(server.url);
    const ask = async (headers: Record<string, string>, body: string) => {
      const stream = client.request({ ":method": "POST", ":path": "/x", ...headers });
      stream.end(body);
      return (await jsonOf(stream)) as { body?: string; accepts?: never[]; reason?: string };
    };
    try {
      const [entry] = (await ask({}, "abc")).accepts ?? [];
      const headers = { "x-payment": headerOf(proofOf(entry as never))["X-PAYMENT"] };
      expect((await ask(headers, "abd")).reason).to.equal("memo");
      expect((await ask(headers, "abc")).body).to.equal("abc");
      expect(await ask({}, "")).to.have.property("accepts");
    } finally {
      client.close();
    }
  });

  describe("a route that binds no body", () => {
    it("HB4 streams an upload to the handler while it comes", async () => {
      const hono = new Hono();
      hono.post("/x", honoGate(provider.gate({ pricing: ONE_TIME })) as never, async (c) => {
        const reader = c.req.raw.body?.getReader();
        const { value } = (await reader?.read()) ?? {};
        return c.text(Buffer.from(value ?? []).toString());
      });
      const app = express();
      app.post("/x", expressGate(provider.gate({ pricing: ONE_TIME })), (request: ExpressRequest, response) => {
        request.once("data", (chunk: Buffer) => response.end(chunk));
      });
      for (const url of [await serve(app), await serve(getRequestListener(hono.fetch))]) {
        const headers = await paidHeaders(url, {}, { method: "POST" });
        const answer = await new Promise<string>((resolve, reject) => {
          const upload = httpRequest(url, { method: "POST", headers, agent: false }, (response) => {
            text(response).then(resolve, reject);
          });
          upload.on("error", reject);
          // It never ends: the handler answers what it has by then.
          upload.write("first part");
        });
        expect(answer).to.equal("first part");
      }
    });

    const reading = {
      Express: async (pricing: never) => {
        const app = express();
        app.post("/x", expressGate(provider.gate({ pricing })), (_request, response) => void response.json(1));
        return serve(app);
      },
      Hono: async (pricing: never) => {
        const app = new Hono();
        app.post("/x", honoGate(provider.gate({ pricing })) as never, (c) => c.json(1));
        return serve(getRequestListener(app.fetch));
      },
      fetch: async (pricing: never) =>
        serve(getRequestListener(fetchGate(provider.gate({ pricing }))(() => Response.json(1)))),
    };
    const sizeOf = {
      Express: async (request: IncomingMessage) => (await text(request)).length,
      Hono: async ({ req }: { req: { text(): Promise<string> } }) => (await req.text()).length,
      fetch: async (request: Request) => (await request.text()).length,
    };
    for (const name of ["Express", "Hono", "fetch"] as const) {
      it(`HB4 asks for no money where its price reads the body, through ${name}`, async () => {
        const url = await reading[name]([{ type: "one-time", amount: sizeOf[name] }] as never);
        await expectFault(await send(url, POST), /the price reads the request's body: set bind: "body"/);
      });
    }

    it("HB4 says so where `free` or `authorize` take the body from the handler", async () => {
      const take = async (...args: unknown[]) => {
        await (args.at(-1) as Request).text();
        return args.length > 1;
      };
      for (const option of ["free", "authorize"] as const) {
        const options = { pricing: ONE_TIME, [option]: take } as never;
        const url = await serve(getRequestListener(fetchGate(provider.gate(options))(() => Response.json(1))));
        const headers =
          option === "authorize" ? { ...POST.headers, ...(await paidHeaders(url, {}, POST)) } : POST.headers;
        await expectFault(await send(url, { ...POST, headers }), new RegExp(`\`${option}\` reads`));
      }
    });
  });

  it("HB4 refuses settings that would leave bodies unbound", () => {
    const wrong = [{ bind: "Body" }, { bind: true }, { maxBodyBytes: 10, bind: undefined }, { maxBodyBytes: 0 }];
    for (const options of [...wrong, { maxBodyBytes: 1.5 }, { maxBodyBytes: "1mb" }]) {
      expect(() => gate(options as never), JSON.stringify(options)).to.throw(ConfigError, /bind|maxBodyBytes/);
    }
  });
});
