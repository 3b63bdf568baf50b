/**
 * C14 HA23: thousands of orders in which handlers write: what arrives, and what the handler sees, is what the same handler
 * gives and sees without a gate. ANSWER_RUNS sets how many, ANSWER_SEED which.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import express from "express";
import fc from "fast-check";
import fastify from "fastify";
import { fileClaims, gated, memoryClaims, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { fastifyGate } from "turnpike/gate/fastify";
import type { AcceptEntryWire, PaymentRequiredWire } from "turnpike/protocol";
import {
  closeServer,
  headerOf,
  listen,
  ONE_TIME,
  proofOf,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { isCut, isStreamed, mixesCodings, type Program, programs, run } from "../support/answer-programs";
import { express4 } from "../support/frameworks";
import { exchange, type RawAnswer } from "../support/raw-answers";
import { v1Headers } from "../support/standard";

const RUNS = Number(process.env.ANSWER_RUNS ?? 40);
const SEED = Number(process.env.ANSWER_SEED ?? 37);

const ORDERS = ["before", "after"] as const;

interface Way {
  readonly store: "memory" | "file";
  readonly replay: object | false;
  readonly order: (typeof ORDERS)[number];
  readonly isProof: boolean;
}

const ways: fc.Arbitrary<Way> = fc.record({
  store: fc.constantFrom("memory", "file"),
  replay: fc.constantFrom<object | false>({}, false),
  order: fc.constantFrom(...ORDERS),
  isProof: fc.boolean(),
});

/** Node never ends an HTTP/2 answer that is corked while something is piped into it. */
const uncorked = programs.filter(({ steps }) => steps.every(({ act: { kind } }) => kind !== "cork"));

type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Mounts `/free` as it is, and each gate at its path. */
type Mount = (gates: ReadonlyMap<string, readonly [Provider, object]>, handle: Handle) => Promise<Server>;

const underNode: Mount = async (gates, handle) => createServer(listenerOf(gates, handle));

const listenerOf = (gates: Parameters<Mount>[0], handle: Handle): RequestListener => {
  const paid = new Map(
    [...gates].map(([at, [own, options]]) => [at, gated(own.paymentGate(options as never), handle)]),
  );
  return (request, response) => {
    const found = paid.get((request.url ?? "").split("/")[1] ?? "");
    if (found) found(request, response);
    else void handle(request, response);
  };
};

const underExpress =
  (make: typeof express): Mount =>
  async (gates, handle) => {
    const app = make();
    app.disable("x-powered-by");
    for (const [at, [own, options]] of gates) app.use(`/${at}`, expressGate(own.gate(options as never)));
    app.use((request, response) => void handle(request, response));
    return createServer(app);
  };

const underFastify: Mount = async (gates, handle) => {
  const app = fastify();
  const handler = async (request: { raw: IncomingMessage }, reply: { hijack(): void; raw: ServerResponse }) => {
    reply.hijack();
    await handle(request.raw, reply.raw);
  };
  for (const [at, [own, options]] of gates) {
    app.get(`/${at}/:id`, { preHandler: fastifyGate(own.gate(options as never)) }, handler as never);
  }
  app.get("/free/:id", handler as never);
  await app.ready();
  return app.server;
};

const MOUNTS: Readonly<Record<string, Mount>> = {
  "node:http": underNode,
  "Express 5": underExpress(express),
  "Express 4": underExpress(express4),
  "Fastify's reply.raw": underFastify,
};

describe("answers in generated orders", function () {
  this.timeout(120_000 + RUNS * 1_000);
  let facilitator: SmallFacilitator;
  let folder: string;
  const providers: Provider[] = [];
  const gates = new Map<string, readonly [Provider, object]>();
  const running = new Map<string, Program>();
  const traces = new Map<string, Promise<readonly string[]>>();
  let count = 0;

  const nameOf = ({ store, replay, order }: Way) => `${store}-${replay ? "kept" : "not"}-${order}`;
  const handle: Handle = async (request, response) => {
    const id = (request.url ?? "").split("/").slice(1).join("/");
    const trace = run(running.get(id.split("/")[1] ?? "") as Program, response);
    traces.set(id, trace);
    await trace;
  };

  before(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-generated-"));
    for (const store of ["memory", "file"] as const) {
      for (const replay of [{}, false] as const) {
        const claims =
          store === "memory" ? memoryClaims({ warn: false }) : fileClaims({ folder: path.join(folder, `${!!replay}`) });
        const provider = testProvider(facilitator, { replay, claims, publicUrl: "https://api.example" });
        await provider.ready();
        providers.push(provider);
        for (const settle of ORDERS) {
          gates.set(nameOf({ store, replay, order: settle, isProof: false }), [
            provider,
            { pricing: ONE_TIME, settle },
          ]);
        }
      }
    }
  });
  after(async () => {
    for (const provider of providers) await provider.close();
    await facilitator.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const settles = () => facilitator.calls.filter(({ path: asked }) => asked === "/settle").length;
  const payWith = (isProof: boolean, { accepts: [entry] }: PaymentRequiredWire): Promise<Record<string, string>> =>
    isProof ? Promise.resolve(headerOf(proofOf(entry as never))) : v1Headers(entry as AcceptEntryWire);

  interface Compared {
    readonly free: RawAnswer;
    readonly paid: RawAnswer;
    readonly id: string;
  }

  async function expectSame(program: Program, way: Way, ask: (at: string, id: string) => Promise<Compared>) {
    const id = String(count++);
    running.set(id, program);
    const at = nameOf(way);
    const settled = settles();
    const { free, paid } = await ask(at, id);
    const [seenFree, seenPaid] = [await traces.get(`free/${id}`), await traces.get(`${at}/${id}`)];
    running.delete(id);
    traces.clear();
    expect(paid.rest).to.equal("");
    // Node cuts an HTTP/2 answer whose handler writes on after its end. One that waits here is not harmed.
    if (free.status.startsWith("HTTP/2") && !free.isWhole) return;
    expect(seenPaid).to.deep.equal(seenFree);
    // Node writes parts that HTTP/2 sends together in the coding of the first.
    if (free.status.startsWith("HTTP/2") && mixesCodings(program)) return;
    const isWithheld = way.order === "after" && !way.isProof;
    if (isCut(program)) {
      if (isWithheld && !isStreamed(program)) expect(settles()).to.equal(settled);
      return;
    }
    expect(paid).to.deep.equal(free);
    if (isWithheld) expect(settles() - settled).to.equal(Number(free.status.split(" ")[1]) < 400 ? 1 : 0);
  }

  const check = (ask: (at: string, id: string, isProof: boolean) => Promise<Compared>, written = programs) =>
    fc.assert(
      fc.asyncProperty(written, ways, (program, way) => expectSame(program, way, (at, id) => ask(at, id, way.isProof))),
      { numRuns: RUNS, seed: SEED },
    );

  for (const [framework, mount] of Object.entries(MOUNTS)) {
    it(`${framework}: arrive, and look to their handler, as without a gate (seed ${SEED}, ${RUNS} orders)`, async () => {
      const server = await mount(gates, handle);
      const base = await listen(server);
      try {
        await check(async (at, id, isProof) => {
          const free = await exchange(`${base}/free/${id}`);
          const headers = await payWith(isProof, await quoteOf(`${base}/${at}/${id}`));
          return { free, paid: await exchange(`${base}/${at}/${id}`, headers), id };
        });
      } finally {
        await closeServer(server);
      }
    });
  }

  it(`HTTP/2: arrive, and look to their handler, as without a gate (seed ${SEED}, ${RUNS} orders)`, async () => {
    const server = http2.createServer(listenerOf(gates, handle) as never);
    const session = http2.connect(await listen(server as never));
    const ask = async (where: string, headers: object = {}): Promise<RawAnswer> => {
      const stream = session.request({ ":path": where, ...headers });
      let head: http2.IncomingHttpHeaders = {};
      stream.on("response", (sent) => {
        head = sent;
      });
      let isWhole = true;
      const body = await text(stream).catch(() => {
        isWhole = false;
        return "";
      });
      const lines = Object.entries(head).filter(([name]) => /^(?:content|x-(?:own|set))/.test(name));
      return { status: `HTTP/2 ${head[":status"]}`, headers: lines.map(String), body, isWhole, rest: "" };
    };
    try {
      await check(async (at, id, isProof) => {
        const free = await ask(`/free/${id}`);
        const quote = JSON.parse((await ask(`/${at}/${id}`)).body) as PaymentRequiredWire;
        const paid = Object.entries(await payWith(isProof, quote)).map(([name, value]) => [name.toLowerCase(), value]);
        return { free, paid: await ask(`/${at}/${id}`, Object.fromEntries(paid)), id };
      }, uncorked);
    } finally {
      session.destroy();
      server.close();
    }
  });
});
