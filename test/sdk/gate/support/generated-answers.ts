/** Runs the orders of answer-programs.ts with a gate and without one, under each framework that writes Node responses. */
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import http2 from "node:http2";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import express from "express";
import fc from "fast-check";
import fastify from "fastify";
import { gated } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import type { PaymentRequiredWire } from "turnpike/protocol";
import { closeServer, listen, quoteOf } from "../../../support/gate";
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
import { isCut, isStreamed, mixesCodings, type Program, programs, run, secondHeads } from "./answer-programs";
import { express4 } from "./frameworks";
import { exchange, type RawAnswer } from "./raw-answers";

/** Node never ends an HTTP/2 answer that is corked while something is piped into it. */
const uncorked = (written: typeof programs) =>
  written.filter(({ steps }) => steps.every(({ act: { kind } }) => kind !== "cork"));

const WRITTEN = { "any order": programs, "a second head": secondHeads } as const;

type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Mounts `/free` as it is, and each gate at its path. */
type Mount = (gates: Gates, handle: Handle) => Promise<Server>;

const underNode: Mount = async (gates, handle) => createServer(listenerOf(gates, handle));

const listenerOf = (gates: Gates, handle: Handle): RequestListener => {
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

const underFastify: Mount = (gates, handle) =>
  fastifyServer(gates, fastify(), async ({ raw }, reply) => {
    reply.hijack();
    await handle(raw, reply.raw);
  });

const MOUNTS: Readonly<Record<string, Mount>> = {
  "node:http": underNode,
  "Express 5": underExpress(express),
  "Express 4": underExpress(express4),
  "Fastify's reply.raw": underFastify,
};

/** @param title of the stores */
export function testGeneratedAnswers(title: string, stores: Stores): void {
  describe(`answers in generated orders, claims in ${title}`, function () {
    this.timeout(120_000 + RUNS * 1_000);
    let world: AnswerGates;
    const running = new Map<string, Program>();
    const traces = new Map<string, Promise<readonly string[]>>();
    let count = 0;

    const handle: Handle = async (request, response) => {
      const id = (request.url ?? "").split("/").slice(1).join("/");
      const trace = run(running.get(id.split("/")[1] ?? "") as Program, response);
      traces.set(id, trace);
      await trace;
    };

    before(async () => {
      world = await AnswerGates.open(stores);
    });
    after(() => world.close());

    interface Compared {
      readonly free: RawAnswer;
      readonly paid: RawAnswer;
      readonly id: string;
    }

    async function expectSame(program: Program, way: Way, ask: (at: string, id: string) => Promise<Compared>) {
      const id = String(count++);
      running.set(id, program);
      const at = nameOf(way);
      const settled = world.settles;
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
      if (isCut(program)) {
        if (isWithheld(way) && !isStreamed(program)) expect(world.settles).to.equal(settled);
        return;
      }
      // Node loses what has not left an HTTP/2 answer that is destroyed after its end.
      const isHarmed = free.status.startsWith("HTTP/2") && program.steps.some(({ act }) => act.kind === "destroy");
      expect(isHarmed && paid.body.startsWith(free.body) ? { ...paid, body: free.body } : paid).to.deep.equal(free);
      if (isWithheld(way)) expect(world.settles - settled).to.equal(Number(free.status.split(" ")[1]) < 400 ? 1 : 0);
    }

    const check = (written: typeof programs, ask: (at: string, id: string, way: Way) => Promise<Compared>) =>
      fc.assert(
        fc.asyncProperty(written, world.ways, (program, way) => expectSame(program, way, (at, id) => ask(at, id, way))),
        { numRuns: RUNS, seed: SEED },
      );

    for (const [framework, mount] of Object.entries(MOUNTS))
      for (const [what, written] of Object.entries(WRITTEN)) {
        it(`${framework}, ${what}: arrive, and look to their handler, as without a gate (seed ${SEED}, ${RUNS} orders)`, async () => {
          const server = await mount(world.gates, handle);
          const base = await listen(server);
          try {
            await check(written, async (at, id, way) => {
              const free = await exchange(`${base}/free/${id}`);
              const headers = await world.payWith(way, await quoteOf(`${base}/${at}/${id}`));
              return { free, paid: await exchange(`${base}/${at}/${id}`, headers), id };
            });
          } finally {
            await closeServer(server);
          }
        });
      }

    for (const [what, written] of Object.entries(WRITTEN))
      it(`HTTP/2, ${what}: arrive, and look to their handler, as without a gate (seed ${SEED}, ${RUNS} orders)`, async () => {
        const server = http2.createServer(listenerOf(world.gates, handle) as never);
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
          await check(uncorked(written), async (at, id, way) => {
            const free = await ask(`/free/${id}`);
            const quote = JSON.parse((await ask(`/${at}/${id}`)).body) as PaymentRequiredWire;
            const paid = Object.entries(await world.payWith(way, quote)).map(([name, value]) => [
              name.toLowerCase(),
              value,
            ]);
            return { free, paid: await ask(`/${at}/${id}`, Object.fromEntries(paid)), id };
          });
        } finally {
          session.destroy();
          server.close();
        }
      });
  });
}
