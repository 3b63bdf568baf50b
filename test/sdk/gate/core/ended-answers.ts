/** HA20, HA27: what a handler does after its answer is complete, and results of handlers that cannot be sent. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { serve } from "@hono/node-server";
import { expect } from "chai";
import express from "express";
import { Hono } from "hono";
import { streamText } from "hono/streaming";
import { gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  type Answer,
  closeServer,
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
import { v1Headers } from "../support/standard";

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

const PAYMENTS = ["a standard payment", "a proof"] as const;

/** After `end`, each as applications do it. */
const AFTERWARDS: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
  throws: () => {
    throw new TypeError("after the end");
  },
  "rejects later": async () => {
    await new Promise(setImmediate);
    throw new TypeError("after the end");
  },
  "sets another status and headers": (response) => {
    response.statusCode = 500;
    response.setHeader("Content-Type", "text/html");
    response.setHeader("X-Late", "late");
    response.removeHeader("X-Own");
  },
  "answers again": (response) => {
    response.writeHead(503, { "X-Late": "late" });
    response.write("another");
    response.end("answer");
  },
};

describe("answers of paid handlers that have ended, or cannot be sent", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  const closers: (() => Promise<unknown>)[] = [];
  const log = console.error;

  beforeEach(async () => {
    console.error = () => undefined;
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { replay: {} });
    await provider.ready();
  });
  afterEach(async () => {
    console.error = log;
    for (const close of closers.splice(0).reverse()) await close();
    await provider.close();
    await facilitator.stop();
  });

  const payBy = async (payment: (typeof PAYMENTS)[number], url: string) =>
    payment === "a proof" ? paidHeaders(url) : v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
  const settles = () => facilitator.calls.filter(({ path }) => path === "/settle").length;

  const NODE: Readonly<Record<string, (handle: Handler) => Parameters<typeof createServer>[1]>> = {
    "node:http": (handle) => gated(provider.paymentGate({ pricing: ONE_TIME }), handle),
    Express: (handle) => {
      const app = express();
      // Silent, unlike the default one, which logs.
      app.set("env", "test");
      app.get("/paid", expressGate(provider.gate({ pricing: ONE_TIME })), (request, response) =>
        handle(request, response),
      );
      return app;
    },
  };

  for (const [framework, listenerOf] of Object.entries(NODE)) {
    for (const payment of PAYMENTS) {
      it(`HA27 ${framework} sends what ${payment} bought as it was at its end, whatever its handler does then`, async () => {
        let afterwards: (response: ServerResponse) => unknown = () => undefined;
        const server = createServer(
          listenerOf((_request, response) => {
            response.setHeader("Content-Type", "text/plain");
            response.setHeader("X-Own", "kept");
            response.statusCode = 201;
            response.end("the content");
            return afterwards(response);
          }),
        );
        closers.push(() => closeServer(server));
        const url = `${await listen(server)}/paid`;
        for (const [what, act] of Object.entries(AFTERWARDS)) {
          afterwards = act;
          const headers = await payBy(payment, url);
          for (const time of ["first", "again"] as const) {
            if (time === "again" && payment !== "a proof") continue;
            const answer = await send(url, { headers });
            expect([answer.status, answer.text, answer.headers["x-own"]], `${what}, ${time}`).to.deep.equal([
              201,
              "the content",
              "kept",
            ]);
            expect(answer.headers["content-type"], what).to.equal("text/plain");
            expect(answer.headers, what).not.to.have.property("x-late");
            if (time === "first") expect(answer.headers, what).to.have.property("x-payment-response");
          }
        }
      });
    }
  }

  /** Heads that node:http refuses by a throw: it has to reach the handler, and not come after its payment. */
  const UNWRITABLE: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
    "a status that is none": (response) => {
      response.statusCode = 1_042;
      response.end("the content");
    },
    "a status that is none, before a part": (response) => {
      response.statusCode = 42;
      response.write("the ");
      response.end("content");
    },
    "a header of writeHead with a line break": (response) =>
      response.writeHead(200, { "X-Title": "one\r\ntwo" }).end("the content"),
    "a header of writeHead beyond Latin-1": (response) => response.writeHead(200, ["X-Title", "☃"]).end("the content"),
    "a reason with a line break": (response) => {
      response.statusMessage = "one\r\ntwo";
      response.end("the content");
    },
  };

  for (const [framework, listenerOf] of Object.entries(NODE)) {
    for (const payment of PAYMENTS) {
      it(`HA20 C14 ${framework} takes ${payment} for no head that cannot be written, and it buys the next attempt`, async () => {
        let handle: (response: ServerResponse) => unknown = () => undefined;
        const server = createServer(listenerOf((_request, response) => handle(response)));
        closers.push(() => closeServer(server));
        const url = `${await listen(server)}/paid`;
        for (const [what, act] of Object.entries(UNWRITABLE)) {
          const headers = await payBy(payment, url);
          const settled = settles();
          handle = act;
          const failed = await send(url, { headers });
          expect([failed.status, settles() - settled], what).to.deep.equal([500, 0]);
          handle = (response) => response.end("the content");
          const served = await send(url, { headers });
          expect([served.status, served.text], what).to.deep.equal([200, "the content"]);
        }
      });
    }
  }

  /** What a handler has set for a body that it then does not write. */
  const UNFINISHED: readonly Readonly<Record<string, string>>[] = [
    { "Content-Length": "3" },
    { "Content-Length": "1000", "Content-Encoding": "gzip", "Content-Range": "bytes 0-999/2000" },
    { "Transfer-Encoding": "identity", Trailer: "X-Sum" },
  ];

  for (const payment of PAYMENTS) {
    it(`HA20 node:http sends a whole 500 for ${payment} whose handler throws, whatever headers it has set`, async () => {
      let set: Readonly<Record<string, string>> = {};
      const server = createServer(
        gated(provider.paymentGate({ pricing: ONE_TIME }), (_request, response) => {
          response.strictContentLength = true;
          for (const [name, value] of Object.entries(set)) response.setHeader(name, value);
          throw new TypeError("no content");
        }),
      );
      closers.push(() => closeServer(server));
      const url = `${await listen(server)}/paid`;
      for (set of UNFINISHED) {
        const failed = await send(url, { headers: await payBy(payment, url) });
        expect([failed.status, failed.json?.error, settles()], JSON.stringify(set)).to.deep.equal([500, "Internal", 0]);
        for (const name of ["content-encoding", "content-range", "trailer"]) {
          expect(failed.headers).not.to.have.property(name);
        }
      }
    });
  }

  /** Results of a fetch-style handler that no server can send. */
  const UNSENDABLE: Readonly<Record<string, () => unknown>> = {
    nothing: () => undefined,
    "Response.error()": () => Response.error(),
    "a response that was read": async () => {
      const response = new Response("the content");
      await response.text();
      return response;
    },
    "a response that somebody reads": () => {
      const response = new Response("the content");
      response.body?.getReader();
      return response;
    },
  };

  const FETCH: Readonly<Record<string, (handle: () => unknown) => (request: Request) => Response | Promise<Response>>> =
    {
      Hono: (handle) => {
        const app = new Hono();
        app.get("/paid", honoGate(provider.gate({ pricing: ONE_TIME })), handle as never);
        app.onError((_error, c) => c.text("failed", 500));
        return (request) => app.fetch(request);
      },
      fetch: (handle) => {
        const paid = fetchGate(provider.gate({ pricing: ONE_TIME }))(handle as () => Response);
        return (request) => paid(request).catch(() => new Response("failed", { status: 500 }));
      },
    };

  async function serving(fetch: (request: Request) => Response | Promise<Response>): Promise<string> {
    const server = serve({ fetch, port: 0, hostname: "127.0.0.1" });
    closers.push(() => closeServer(server as never));
    await new Promise((resolve) => server.once("listening", resolve));
    return `http://127.0.0.1:${(server.address() as { port: number }).port}/paid`;
  }

  for (const [framework, appOf] of Object.entries(FETCH)) {
    for (const payment of PAYMENTS) {
      it(`HA20 C14 ${framework} takes ${payment} for no result that cannot be sent, and it buys the next attempt`, async () => {
        let handle: () => unknown = () => undefined;
        const url = await serving(appOf(() => handle()));
        for (const [what, make] of Object.entries(UNSENDABLE)) {
          const headers = await payBy(payment, url);
          const [settled, reserved] = [settles(), facilitator.reserved.size];
          handle = make;
          const failed = await send(url, { headers });
          expect([failed.status, settles() - settled], what).to.deep.equal([500, 0]);
          expect(facilitator.reserved.size, `${what}: the reservation has ended`).to.equal(reserved);
          handle = () => new Response("the content");
          const served: Answer = await send(url, { headers });
          expect([served.status, served.text], what).to.deep.equal([200, "the content"]);
        }
      });
    }
  }

  for (const payment of PAYMENTS) {
    it(`HA27 a body that is announced in chunks and was read whole is sent by its length (${payment})`, async () => {
      const app = new Hono();
      app.get("/paid", honoGate(provider.gate({ pricing: ONE_TIME })), (c) =>
        streamText(c, async (stream) => {
          await stream.write("the ");
          await stream.write("content");
        }),
      );
      const url = await serving((request) => app.fetch(request));
      const answer = await send(url, { headers: await payBy(payment, url) });
      expect([answer.status, answer.text]).to.deep.equal([200, "the content"]);
    });
  }
});
