/** Requests that upgrade their connection: what their handlers send does not pass through a response. */
import { createServer, type IncomingMessage, type Server, ServerResponse } from "node:http";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { expect } from "chai";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { type GateOptions, gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  listen,
  ONE_TIME,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { v1Headers, v2Headers } from "../support/standard";

const GATE = { pricing: ONE_TIME } as unknown as GateOptions<never>;

/** A handler that took the connection over answers on the socket itself. */
interface Handed extends IncomingMessage {
  taken?: Duplex;
}

interface UpgradeServer {
  readonly server: Server;
  readonly url: string;
}

const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";

const refuse = (socket: Duplex, status: number): void => {
  socket.end(`HTTP/1.1 ${status} Refused\r\nConnection: close\r\n\r\n`);
};

/** How libraries for WebSockets hand such a request to a framework. */
const LIBRARIES: Readonly<Record<string, (provider: Provider, ran: () => void) => Promise<UpgradeServer>>> = {
  async "Express, as express-ws does"(provider, ran) {
    const app = express();
    app.get("/paid", expressGate(provider.gate(GATE)), (request, response) => {
      const { taken } = request as Handed;
      if (!taken) return void response.end("plain");
      ran();
      taken.write(`${SWITCHING}the content`);
    });
    const server = createServer(app);
    server.on("upgrade", (request: Handed, socket) => {
      request.taken = socket;
      // A response that belongs to no socket.
      const response = new ServerResponse(request);
      response.writeHead = ((status: number) => {
        if (status > 200) refuse(socket, status);
        return response;
      }) as never;
      (app as unknown as { handle(...args: unknown[]): void }).handle(request, response, () => refuse(socket, 404));
    });
    return { server, url: await listen(server) };
  },
  async "Fastify, as @fastify/websocket does"(provider, ran) {
    const app = fastify();
    app.get("/paid", { preHandler: fastifyGate(provider.gate(GATE)) }, async (request, reply) => {
      const { taken } = request.raw as Handed;
      if (!taken) return "plain";
      reply.hijack();
      ran();
      taken.write(`${SWITCHING}the content`);
    });
    app.server.on("upgrade", (request: Handed, socket) => {
      request.taken = socket;
      const response = new ServerResponse(request);
      response.assignSocket(socket as never);
      app.routing(request, response);
    });
    return { server: app.server, url: await app.listen({ port: 0, host: "127.0.0.1" }) };
  },
  async "node:http"(provider, ran) {
    const listener = gated(provider.paymentGate(GATE), (request, response) => {
      const { taken } = request as Handed;
      if (!taken) return void response.end("plain");
      ran();
      taken.write(`${SWITCHING}the content`);
    });
    const server = createServer(listener);
    server.on("upgrade", (request: Handed, socket) => {
      request.taken = socket;
      const response = new ServerResponse(request);
      response.assignSocket(socket as never);
      listener(request, response);
    });
    return { server, url: await listen(server) };
  },
  async "Hono, as @hono/node-ws does"(provider, ran) {
    const waiting = new Set<string>();
    const app = new Hono();
    app.get("/paid", honoGate(provider.gate(GATE)) as never, (c) => {
      if (c.req.header("upgrade") !== "websocket") return c.text("plain");
      ran();
      waiting.add(c.req.header("x-id") ?? "");
      return new Response();
    });
    return startFetch((request) => app.fetch(request), waiting);
  },
  async fetch(provider, ran) {
    const waiting = new Set<string>();
    const handler = fetchGate(provider.gate(GATE))(async (request) => {
      if (request.headers.get("upgrade") !== "websocket") return new Response("plain");
      ran();
      waiting.add(request.headers.get("x-id") ?? "");
      return new Response();
    });
    return startFetch(handler, waiting);
  },
};

/** The library looks at what the handler asked for, and not at the response. */
async function startFetch(
  fetch: (request: Request) => Response | Promise<Response>,
  waiting: Set<string>,
): Promise<UpgradeServer> {
  let ids = 0;
  const requestOf = ({ url, headers }: IncomingMessage, id: string) =>
    new Request(`http://${headers.host}${url}`, { headers: { ...(headers as Record<string, string>), "x-id": id } });
  const server = createServer(async (incoming, outgoing) => {
    const { status, headers, body } = await fetch(requestOf(incoming, ""));
    outgoing
      .writeHead(status, Object.fromEntries(headers))
      .end(body && Buffer.from(await new Response(body).arrayBuffer()));
  });
  server.on("upgrade", async (request, socket) => {
    const id = String(ids++);
    await fetch(requestOf(request, id));
    if (waiting.has(id)) socket.write(`${SWITCHING}the content`);
    else refuse(socket, 402);
  });
  return { server, url: await listen(server) };
}

for (const [name, start] of Object.entries(LIBRARIES)) {
  describe(`requests that upgrade their connection, through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let started: UpgradeServer;
    let url: string;
    let runs: number;

    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      provider = testProvider(facilitator);
      runs = 0;
      started = await start(provider, () => runs++);
      url = `${started.url}/paid`;
    });
    afterEach(async () => {
      started.server.close();
      await provider.close();
      await facilitator.stop();
    });

    const settlements = () => facilitator.calls.filter(({ path }) => path === "/settle").length;

    /** @returns what the server sends on the connection */
    function upgrade(headers: Readonly<Record<string, string>>): Promise<string> {
      const { hostname, port, host, pathname } = new URL(url);
      const lines = { Host: host, Connection: "Upgrade", Upgrade: "websocket", ...headers };
      return new Promise((resolve) => {
        let received = "";
        const socket = connect(Number(port), hostname);
        const done = (): void => {
          socket.destroy();
          resolve(received);
        };
        socket.on("data", (chunk) => {
          received += chunk.toString("latin1");
          const isRefused = received.includes("\r\n\r\n") && !received.startsWith(SWITCHING);
          if (isRefused || received.endsWith("the content")) done();
        });
        socket.on("close", done);
        socket.on("error", done);
        const head = Object.entries(lines).map(([field, value]) => `${field}: ${value}\r\n`);
        socket.write(`GET ${pathname} HTTP/1.1\r\n${head.join("")}\r\n`);
      });
    }

    it("C39 S2 settles a standard payment before the handler takes the connection, and uses it up", async () => {
      const quoted = async () => v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
      for (const [at, headers] of [await quoted(), await v2Headers(url)].entries()) {
        expect(await upgrade(headers)).to.include("the content");
        expect([runs, settlements()]).to.deep.equal([at + 1, at + 1]);
        for (let i = 0; i < 4; i++) expect(await upgrade(headers)).not.to.include("the content");
        expect([runs, settlements()]).to.deep.equal([at + 1, at + 1]);
      }
    });

    it("C39 HA21 hands no connection over where the settlement is refused or unknown", async () => {
      for (const errorReason of ["insufficient_funds", "settlement_pending"]) {
        const headers = await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
        facilitator.settlements.push({ success: false, errorReason, transaction: "", network: "local-31337" });
        expect(await upgrade(headers)).not.to.include("the content");
      }
      expect(runs).to.equal(0);
    });

    it("C39 C1 uses a proof up when the connection is handed over, not when it closes", async () => {
      const headers = await paidHeaders(url);
      expect(await upgrade({})).not.to.include("the content");
      expect(await upgrade(headers)).to.include("the content");
      for (let i = 0; i < 4; i++) expect(await upgrade(headers)).not.to.include("the content");
      expect(runs).to.equal(1);
      const used = await fetch(url, { headers });
      expect((await used.json()) as object).to.include({ reason: "already_used" });
    });

    it("serves requests that upgrade nothing as before", async () => {
      const headers = await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
      const served = await fetch(url, { headers });
      expect([served.status, await served.text()]).to.deep.equal([200, "plain"]);
      await until(async () => settlements() === 1);
    });
  });
}

/** Platforms whose responses switch the protocol themselves; Node's class refuses to make such a response. */
const switched = (): Response => Object.defineProperty(new Response(null), "status", { value: 101 });

const SWITCHING_HANDLERS: Readonly<
  Record<string, (provider: Provider, ran: () => void) => (request: Request) => Response | Promise<Response>>
> = {
  fetch: (provider, ran) =>
    fetchGate(provider.gate(GATE))(async () => {
      ran();
      return switched();
    }),
  Hono(provider, ran) {
    const app = new Hono();
    app.get("/paid", honoGate(provider.gate(GATE)) as never, () => {
      ran();
      return switched();
    });
    return (request) => app.fetch(request);
  },
};

for (const [name, handlerOf] of Object.entries(SWITCHING_HANDLERS)) {
  describe(`responses of ${name} that switch the protocol`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let runs: number;
    let send: (headers: Readonly<Record<string, string>>) => Promise<Response>;

    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      provider = testProvider(facilitator);
      runs = 0;
      const handle = handlerOf(provider, () => runs++);
      send = async (headers) => handle(new Request("http://127.0.0.1/paid", { headers }));
    });
    afterEach(async () => {
      await provider.close();
      await facilitator.stop();
    });

    const settlements = () => facilitator.calls.filter(({ path }) => path === "/settle").length;

    async function paid(): Promise<Record<string, string>> {
      const quote = (await (await send({})).json()) as { accepts: AcceptEntryWire[] };
      return v1Headers(quote.accepts[0] as AcceptEntryWire);
    }

    for (const upgrade of ["h2c, WebSocket", "another-protocol"]) {
      it(`C39 S2 leave once their payment has settled, and use it up (Upgrade: ${upgrade})`, async () => {
        const headers = { ...(await paid()), upgrade };
        expect([(await send(headers)).status, runs, settlements()]).to.deep.equal([101, 1, 1]);
        expect((await send(headers)).status).to.equal(402);
        facilitator.settlements.push({
          success: false,
          errorReason: "insufficient_funds",
          transaction: "",
          network: "x",
        });
        expect((await send({ ...(await paid()), upgrade })).status).to.equal(402);
      });
    }
  });
}
