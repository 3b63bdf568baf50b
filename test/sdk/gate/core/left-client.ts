/** What a client that left finds when it comes back: its payment still settles, or its handler has given up. */
import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import http2 from "node:http2";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import express from "express";
import fastify from "fastify";
import { type GateOptions, gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import type { AcceptEntryWire, PaymentRequiredWire } from "turnpike/protocol";
import {
  type Answer,
  headerOf,
  listen,
  ONE_TIME,
  OVER_PERMIT2,
  proofOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";
import { permit2Headers } from "../support/permit2";
import { type Accepted, requiredIn, v1Headers, v2Headers } from "../support/standard";

for (const adapter of ["node:http", "Express 5"]) {
  describe(`a client that leaves before its payment has settled, through ${adapter}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let runs: number;

    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      provider = testProvider(facilitator, { replay: {} });
      runs = 0;
      const handle = () => ({ body: `run ${++runs}` });
      server = await (ADAPTERS[adapter] as (typeof ADAPTERS)[string])(provider, [
        { path: "/paid", gate: { pricing: ONE_TIME, settle: "before" } as never, handle },
      ]);
    });
    afterEach(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    it("HA22 finds it in use until it has settled, returns soon after, and is served by the same payment", async () => {
      const url = `${server.url}${PREFIX}/paid`;
      const headers = await v2Headers(url);
      let release: () => void = () => undefined;
      facilitator.held = new Promise<void>((resolve) => {
        release = resolve;
      });
      facilitator.holds = (path) => path === "/settle";
      const asked = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
      const leaving = httpRequest(url, { headers, agent: false }).on("error", () => undefined);
      leaving.end();
      while (asked() === 0) await new Promise((resolve) => setImmediate(resolve));
      leaving.destroy();

      const early = await send(url, { headers });
      expect([early.status, early.json.error]).to.deep.equal([409, "ProofInFlight"]);
      expect(Number(early.headers["retry-after"]), "a settlement takes about a block").to.be.at.most(2);
      facilitator.held = undefined;
      release();
      let late = await send(url, { headers });
      while (late.status === 409) late = await send(url, { headers });
      expect([late.status, late.text]).to.deep.equal([200, "run 1"]);
      expect([runs, asked()], "the second asks for what has settled").to.deep.equal([1, 2]);
    });
  });
}

type Handle = (request: IncomingMessage, response: ServerResponse) => unknown;

type Got = Pick<Answer, "status" | "text" | "headers">;

interface Served {
  /** @param leaves once this resolves: then nothing is returned */
  ask(headers: Readonly<Record<string, string>>, leaves?: Promise<unknown>): Promise<Got | undefined>;
  stop(): Promise<unknown>;
}

async function overHttp1(server: ReturnType<typeof createServer>): Promise<Served> {
  const url = `${await listen(server)}/paid`;
  return {
    async ask(headers, leaves) {
      if (!leaves) return send(url, { headers });
      const leaving = httpRequest(url, { headers, agent: false }).on("error", () => undefined);
      leaving.end();
      await leaves;
      leaving.destroy();
      return undefined;
    },
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const SERVERS: Readonly<
  Record<string, (provider: Provider, options: GateOptions<never>, handle: Handle) => Promise<Served>>
> = {
  "node:http": (provider, options, handle) => overHttp1(createServer(gated(provider.paymentGate(options), handle))),
  "Express 5": (provider, options, handle) => {
    const app = express();
    app.set("env", "test");
    app.get("/paid", expressGate(provider.gate(options)), handle as express.RequestHandler);
    return overHttp1(createServer(app));
  },
  "Fastify's reply.raw": async (provider, options, handle) => {
    const app = fastify();
    app.get("/paid", { preHandler: fastifyGate(provider.gate(options)) }, async (request, reply) => {
      reply.hijack();
      // As its users do: Fastify has nothing more to do with the answer.
      await Promise.resolve(handle(request.raw, reply.raw)).catch(() => reply.raw.destroy());
    });
    await app.ready();
    return overHttp1(app.server);
  },
  "HTTP/2": async (provider, options, handle) => {
    const server = http2.createServer(gated(provider.paymentGate(options), handle as never) as never);
    const url = `${await listen(server as never)}/paid`;
    return {
      async ask(headers, leaves) {
        const session = http2.connect(url).on("error", () => undefined);
        const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
        const stream = session.request({ ":path": "/paid", ...Object.fromEntries(named) }).on("error", () => undefined);
        try {
          if (leaves) {
            await leaves;
            stream.close(http2.constants.NGHTTP2_CANCEL);
            await once(stream, "close");
            return undefined;
          }
          const head = once(stream, "response");
          const body = await text(stream);
          const [sent] = (await head) as [http2.IncomingHttpHeaders];
          return { status: Number(sent[":status"]), text: body, headers: sent };
        } finally {
          session.destroy();
        }
      },
      stop: async () => server.close(),
    };
  },
};

const WAYS: Readonly<Record<string, object>> = {
  "a proof": { pricing: ONE_TIME },
  "a payment settled before": { pricing: ONE_TIME, settle: "before" },
  "a payment settled after": { pricing: ONE_TIME, settle: "after" },
  "a maximum": { pricing: [{ type: "upto", max: 500_000n }] },
};

const GIVES_UP: Readonly<Record<string, Handle>> = {
  "destroys the response": (_request, response) => response.destroy(),
  throws: () => {
    throw new TypeError("midway");
  },
  "destroys the socket": ({ socket }) => (socket as Socket).destroy(),
};

for (const [name, start] of Object.entries(SERVERS)) {
  describe(`a handler that gives up once its client has left, through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let served: Served;

    const log = console.error;
    beforeEach(async () => {
      console.error = () => undefined;
      facilitator = await startSmallFacilitator();
      facilitator.supported = OVER_PERMIT2;
      provider = testProvider(facilitator, { replay: {}, publicUrl: "https://api.example" });
    });
    afterEach(async () => {
      console.error = log;
      await served.stop();
      await provider.close();
      await facilitator.stop();
    });

    const payBy = async (payment: string): Promise<Readonly<Record<string, string>>> => {
      const asked = (await served.ask({})) as Answer;
      if (payment === "a maximum") return permit2Headers(requiredIn(asked).accepts[0] as Accepted);
      const [entry] = (JSON.parse(asked.text) as PaymentRequiredWire).accepts;
      return payment === "a proof" ? headerOf(proofOf(entry as never)) : v1Headers(entry as AcceptEntryWire);
    };

    for (const [payment, options] of Object.entries(WAYS)) {
      for (const [how, giveUp] of Object.entries(GIVES_UP)) {
        // A stream of HTTP/2 shares its socket with others.
        if (name === "HTTP/2" && how === "destroys the socket") continue;
        it(`HA20 gives ${payment} back at once when it ${how}`, async () => {
          let isSecond = false;
          let onBegun: () => void = () => undefined;
          const begun = new Promise<void>((resolve) => {
            onBegun = resolve;
          });
          served = await start(provider, options as never, async (request, response) => {
            if (isSecond) return response.end("the content");
            isSecond = true;
            const closed = once(response, "close");
            onBegun();
            await closed;
            return giveUp(request, response);
          });
          const headers = await payBy(payment);
          await served.ask(headers, begun);
          let again = await served.ask(headers);
          const untilMs = Date.now() + 20_000;
          while (again?.status === 409 && Date.now() < untilMs) again = await served.ask(headers);
          expect([again?.status, again?.text]).to.deep.equal([200, "the content"]);
        }).timeout(60_000);
      }
    }
  });
}
