/** Runs the responses of response-programs.ts with a gate and without one, under each framework that makes them its own way. */
import { createServer, type Server } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { gunzipSync } from "node:zlib";
import { expect } from "chai";
import express, { type RequestHandler } from "express";
import fc from "fast-check";
import fastify from "fastify";
import { Hono, type MiddlewareHandler } from "hono";
import { compress } from "hono/compress";
import { etag } from "hono/etag";
import { expressGate } from "turnpike/gate/express";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import { nextGate } from "turnpike/gate/next";
import { closeServer, fetchServer, listen, quoteOf } from "../../../support/gate";
import {
  AnswerGates,
  fastifyServer,
  type Gates,
  isWithheld,
  nameOf,
  RUNS,
  SEED,
  type Stores,
  type Way,
} from "./answer-gates";
import { exchange, type RawAnswer } from "./raw-answers";
import {
  bodyInitOf,
  hasFailed,
  isBroken,
  type Made,
  make,
  type ResponseProgram,
  responseOf,
  responsePrograms,
} from "./response-programs";

/** Each is asked for three times. */
const RESPONSES = Math.ceil(RUNS / 2);

/** Makes the answer to a request for this path. */
type Handle = (path: string) => Promise<Made>;

/** Mounts `/free/:id` as it is, and each gate at its path. */
type Mount = (gates: Gates, handle: Handle) => Promise<Server>;

type Fetch = (request: Request) => Response | Promise<Response>;

const pathOf = ({ url }: Request): string => new URL(url).pathname;

const underFetch =
  (wrap: typeof fetchGate): Mount =>
  async (gates, handle) => {
    const free: Fetch = async (request) => responseOf(await handle(pathOf(request)));
    const paid = new Map([...gates].map(([at, [own, options]]) => [at, wrap(own.gate(options as never))(free)]));
    const fetch: Fetch = (request) => (paid.get(pathOf(request).split("/")[1] ?? "") ?? free)(request);
    return fetchServer(fetch as never);
  };

const underHono =
  (before: readonly MiddlewareHandler[] = [], behind: readonly MiddlewareHandler[] = []): Mount =>
  async (gates, handle) => {
    const app = new Hono();
    for (const each of before) app.use(each);
    for (const [at, [own, options]] of gates) app.use(`/${at}/*`, honoGate(own.gate(options as never)) as never);
    for (const each of behind) app.use(each);
    app.onError((_error, c) => c.text("failed", 500));
    app.all("/:at/:id", async (c) => {
      const { status, headers, body } = await handle(c.req.path);
      return c.body(bodyInitOf(body) as never, status as never, { ...headers });
    });
    return fetchServer(app.fetch as never);
  };

const underExpress: Mount = async (gates, handle) => {
  const app = express();
  app.disable("x-powered-by");
  app.set("env", "test");
  for (const [at, [own, options]] of gates) app.use(`/${at}`, expressGate(own.gate(options as never)));
  app.all("/:at/:id", (async (request, response) => {
    const { status, headers, body } = await handle(request.path);
    response.status(status).set(headers);
    if (body instanceof Readable) await pipeline(body, response).catch(() => undefined);
    else if (body === null) response.end();
    else response.send(body);
  }) as RequestHandler);
  app.use((_error: unknown, _request: unknown, response: express.Response, _next: unknown) => {
    response.status(500).end("failed");
  });
  return createServer(app);
};

const underFastify =
  (sent: (made: Made) => unknown): Mount =>
  (gates, handle) => {
    const app = fastify();
    app.setErrorHandler((_error, _request, reply) => void reply.code(500).send("failed"));
    return fastifyServer(gates, app, async ({ url }, reply) => {
      const made = await handle(url);
      return reply.code(made.status).headers(made.headers).send(sent(made));
    });
  };

const MOUNTS: Readonly<Record<string, Mount>> = {
  fetch: underFetch(fetchGate),
  "a Next.js route handler": underFetch(nextGate as typeof fetchGate),
  Hono: underHono(),
  "Hono with hono/compress and hono/etag before the gate": underHono([compress({ threshold: 10 }), etag()]),
  "Hono with hono/compress behind the gate": underHono([], [compress({ threshold: 10 })]),
  "Fastify's send": underFastify(({ body }) => body),
  "Fastify's send of a Response": underFastify(responseOf),
  "Express's send": underExpress,
};

/**
 * What the server of a fetch-style handler writes itself, by whether it has read the response, differs: a type of its own
 * too, by which hono/compress decides.
 */
const OF_THE_SERVER =
  /^(?:content-length|transfer-encoding|connection|keep-alive):|^content-type: text\/plain; ?charset=utf-8$|^content-encoding: gzip$/;

function comparable({ headers, body, ...rest }: RawAnswer) {
  const lines = headers.map((line) => line.toLowerCase());
  const isGzip = lines.includes("content-encoding: gzip") && rest.isWhole && body !== "";
  return {
    ...rest,
    body: isGzip ? gunzipSync(Buffer.from(body, "latin1")).toString("latin1") : body,
    headers: lines.filter((line) => !OF_THE_SERVER.test(line)),
  };
}

/** @param title of the stores */
export function testGeneratedResponses(title: string, stores: Stores): void {
  describe(`responses in generated forms, claims in ${title}`, function () {
    this.timeout(120_000 + RUNS * 1_000);
    let world: AnswerGates;
    const running = new Map<string, ResponseProgram>();
    const runs = new Map<string, number>();
    let count = 0;

    const log = console.error;
    before(async () => {
      console.error = () => undefined;
      world = await AnswerGates.open(stores);
    });
    after(async () => {
      console.error = log;
      await world.close();
    });

    const handle: Handle = async (path) => {
      runs.set(path, (runs.get(path) ?? 0) + 1);
      return make(running.get(path.split("/")[2] ?? "") as ResponseProgram);
    };

    async function expectSame(base: string, program: ResponseProgram, way: Way, more: object) {
      const id = String(count++);
      running.set(id, program);
      const at = nameOf(way);
      const free = await exchange(`${base}/free/${id}`, { ...more });
      const url = `${base}/${at}/${id}`;
      const headers = { ...more, ...(await world.payWith(way, await quoteOf(url))) };
      world.takeSettled();
      const paid = await exchange(url, headers);
      const status = Number(paid.status.split(" ")[1]);
      const isCharged = status < (isWithheld(way) ? 400 : 500) && !hasFailed(program);
      // One that breaks after what it declared is whole.
      if (isBroken(program)) expect(paid.isWhole && status < 500 && !free.isWhole, paid.status).to.equal(false);
      else expect(comparable(paid)).to.deep.equal(comparable(free));
      expect(paid.rest).to.equal("");
      if (isWithheld(way) && !isBroken(program)) expect(world.takeSettled()).to.equal(isCharged ? 1 : 0);
      if (isCharged && !isBroken(program)) {
        const again = await exchange(url, headers);
        expect(runs.get(`/${at}/${id}`), "runs of the handler").to.equal(1);
        const isReplayed = again.headers.some((line) => /^idempotency-replayed/i.test(line));
        if (isReplayed)
          expect([again.status, comparable(again).body]).to.deep.equal([paid.status, comparable(paid).body]);
        else expect(Number(again.status.split(" ")[1])).to.be.within(402, 409);
      }
      running.delete(id);
    }

    for (const [framework, mount] of Object.entries(MOUNTS)) {
      it(`${framework}: arrive as without a gate (seed ${SEED}, ${RESPONSES} responses)`, async () => {
        const server = await mount(world.gates, handle);
        const base = await listen(server);
        const more = framework.includes("compress") ? { "Accept-Encoding": "gzip" } : {};
        try {
          await fc.assert(
            fc.asyncProperty(responsePrograms, world.ways, (program, way) => expectSame(base, program, way, more)),
            { numRuns: RESPONSES, seed: SEED },
          );
        } finally {
          await closeServer(server);
        }
      });
    }
  });
}
