import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "chai";
import { paymentIdOf, Unavailable } from "turnpike/protocol";
import { createDrain } from "../../../facilitator/src/app/drain";
import { createDirectRoutes, directsOf } from "../../../facilitator/src/http/direct-routes";
import { outlineOf } from "../../../facilitator/src/http/payment-outline";
import { paymentEndpoints } from "../../../facilitator/src/http/routes/payments";
import { x402Endpoints } from "../../../facilitator/src/http/routes/x402";
import { startServer } from "../../../facilitator/src/http/server";
import type { ApiServices } from "../../../facilitator/src/http/services";
import { WorkQueue } from "../../../facilitator/src/http/work-queue";
import { until } from "../../support/facilitator";
import { unusedServices } from "../../support/unused-services";
import { expectBusy, openClient } from "../support/clients";
import { useService } from "../support/http-service";
import { paymentToWire, settleBody } from "../support/payments";

/** Each answer's own: everything else has to be the same. */
const OWN = new Set(["x-request-id", "date", "connection", "keep-alive", "transfer-encoding", "content-length"]);

const WAIT_MS = 25_000;
const MAX_WAIT_MS = 5_000;
const MAX_TURN_MS = 8;

/** Sends requests in one packet, so that they arrive in one turn, and returns all that comes back. */
async function exchange(url: string, bodies: readonly string[]): Promise<string> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  let received = "";
  socket.on("data", (chunk) => (received += chunk));
  const requests = bodies.map((body, index) => {
    const close = index === bodies.length - 1 ? "Connection: close\r\n" : "";
    return `POST /authorize HTTP/1.1\r\nHost: x\r\n${close}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  });
  socket.write(requests.join(""));
  await once(socket, "end");
  return received;
}

describe("Facilitator: the short way for authorize and settle", function () {
  this.timeout(120_000);
  const http = useService();

  /** A body of declared length goes the short way, one in chunks through the app. */
  async function answer(path: string, body: string, isInChunks: boolean) {
    const bytes = new TextEncoder().encode(body);
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes);
        controller.close();
      },
    });
    const init = { method: "POST", headers: { "content-type": "application/json" }, duplex: "half" };
    const response = await fetch(http.service.url + path, { ...init, body: isInChunks ? stream : bytes });
    const answer = (await response.json()) as Record<string, unknown>;
    expect(response.headers.get("x-request-id")).to.be.a("string");
    const headers = [...response.headers].filter(([name]) => !OWN.has(name)).sort();
    return { status: response.status, headers, answer: { ...answer, requestId: typeof answer.requestId } };
  }

  it("answers as the app does, whatever it is sent", async () => {
    const good = paymentToWire(await http.world.signPayment());
    const poor = paymentToWire(await http.world.signPayment({ payer: await http.world.payer(0n) }));
    const bodies = [
      JSON.stringify({ signedPayment: good }),
      JSON.stringify({ signedPayment: poor }),
      JSON.stringify({ signedPayment: { ...good, token: good.token.toLowerCase(), unknown: [1, { deep: true }] } }),
      JSON.stringify({ signedPayment: { ...good, memo: "" } }),
      JSON.stringify({ signedPayment: good }).replace("{", '{"signedPayment":1,'),
      '{"signedPayment":{"__proto__":{}}}',
      "[]",
      "null",
      "{",
      "",
    ];
    for (const path of ["/authorize", "/settle"]) {
      for (const body of bodies) {
        const short = await answer(path, body, false);
        const long = await answer(path, body, true);
        expect(short, `${path} ${body.slice(0, 80)}`).to.deep.equal(long);
      }
    }
  });

  /**
   * Sends two payments in one turn. The first takes all of the turn, and the second waits until the clock is later.
   * @returns the times for which the payments waited for the chain, at most, and the answers
   */
  async function secondWaits(laterMs: number) {
    let nowMs = 0;
    const waits: number[] = [];
    const payments = {
      whyBusy: () => undefined,
      authorize(_: unknown, { waitMs }: { waitMs: number }) {
        if (waits.push(waitMs) === 1) {
          nowMs += MAX_TURN_MS;
          setImmediate(() => {
            nowMs += laterMs;
          });
        }
        return Promise.resolve({ kind: "pending", paymentId: "0x", retryAfterSec: 1 });
      },
    };
    const services = {
      ...unusedServices(),
      payments,
      authorizeWaitMs: WAIT_MS,
      monotonicMs: () => nowMs,
      untilEnd: (work: unknown) => work,
    } as unknown as ApiServices;
    const queue = new WorkQueue({
      maxWaiting: 10,
      maxAgeMs: MAX_WAIT_MS,
      deadlineMs: MAX_WAIT_MS,
      turnCpuMs: MAX_TURN_MS,
      maxTurnCpuMs: MAX_TURN_MS,
      cpuMs: () => nowMs,
      monotonicMs: () => nowMs,
    });
    const directRoutes = createDirectRoutes(services, directsOf(paymentEndpoints(services)), queue);
    const server = await startServer({ fetch: () => new Response(), directRoutes, host: "127.0.0.1", port: 0 });
    const body = JSON.stringify({ signedPayment: paymentToWire(await http.world.signPayment()) });
    const received = await exchange(server.url, [body, body]);
    await server.stop(0);
    return { waits, answers: received.split(/(?=HTTP\/1\.1 )/) };
  }

  it("B14 the wait for a turn is part of AUTHORIZE_WAIT_MS, after which a payment is pending", async () => {
    const { waits, answers } = await secondWaits(4_000);
    expect(waits).to.deep.equal([WAIT_MS, WAIT_MS - 4_000]);
    for (const answer of answers) expect(answer).to.match(/^HTTP\/1\.1 202 /);
  });

  it("B14 what waits too long for a turn gets 503 and a time to come again, and nothing is done for it", async () => {
    const { waits, answers } = await secondWaits(MAX_WAIT_MS + 1);
    expect(waits).to.deep.equal([WAIT_MS]);
    expect(answers[1]).to.match(/^HTTP\/1\.1 503 /);
    expect(answers[1]).to.match(/\r\nretry-after: \d+\r\n/i);
    expect(answers[1]).to.match(/\r\nconnection: close\r\n/i);
    expect(JSON.parse(answers[1]?.split("\r\n\r\n")[1] ?? "")).to.include({ code: "Unavailable", status: 503 });
  });

  const busy = new Unavailable("too many payments wait to be judged", { reason: "busy", retryAfterSec: 7 });

  /** A server whose payments fail the test when one is read. */
  async function serveRefusing({
    isFull = false,
    whyBusy,
  }: {
    isFull?: boolean;
    whyBusy: () => Unavailable | undefined;
  }) {
    const services = {
      ...unusedServices(),
      payments: { whyBusy, authorize: () => expect.fail("the payment was judged") },
      monotonicMs: () => 0,
      untilEnd: (work: unknown) => work,
    } as unknown as ApiServices;
    const endpoints = [...paymentEndpoints(services), ...x402Endpoints(services)];
    const queue = { isFull, add: () => expect.fail("the payment was queued") };
    const directRoutes = createDirectRoutes(services, directsOf(endpoints), queue);
    return startServer({ fetch: () => new Response(), directRoutes, host: "127.0.0.1", port: 0 });
  }

  it("B14 a full service refuses before it reads the body, and the client gets all of the 503 while it sends", async () => {
    const server = await serveRefusing({ isFull: true, whyBusy: () => expect.fail("the body was read") });
    const length = 60_000;
    const client = await openClient(
      server.url,
      `POST /authorize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{`,
    );
    await until(async () => client.text().endsWith("}"), "the answer is whole");
    client.socket.write(" ".repeat(length - 1));
    client.socket.end();
    await expectBusy(client);
    await server.stop(0);
  });

  for (const [path, stock] of [
    ["/authorize", {}],
    ["/settle", { success: false, errorReason: "unexpected_settle_error" }],
  ] as const) {
    it(`B14 ${path} is refused before its body is parsed, in its own form, when payments would be refused later`, async () => {
      const server = await serveRefusing({ whyBusy: () => busy });
      const response = await fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "neither parsed nor judged",
      });
      expect(response.status).to.equal(503);
      expect(response.headers.get("retry-after")).to.equal("7");
      expect(await response.json()).to.include({ code: "Unavailable", ...stock });
      await server.stop(0);
    });
  }

  it("HD6 /settle that a stop interrupts is pending: its payment may be stored", async () => {
    const drain = createDrain();
    const asked: number[] = [];
    const services = {
      ...unusedServices(),
      payments: {
        whyBusy: () => undefined,
        settleExact: (_: unknown, { waitMs }: { waitMs: number }) => new Promise(() => void asked.push(waitMs)),
      },
      untilDraining: drain.until,
      untilEnd: drain.untilEnd,
    } as unknown as ApiServices;
    const queue = { isFull: false, add: ({ start }: { start: (waitedMs: number) => void }) => start(0) };
    const directRoutes = createDirectRoutes(services, directsOf(x402Endpoints(services)), queue);
    const server = await startServer({ fetch: () => new Response(), directRoutes, host: "127.0.0.1", port: 0 });
    const body = JSON.stringify(settleBody(await http.world.signExact(), 2, http.world.chain.chainId));
    const answer = fetch(`${server.url}/settle`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    await until(async () => asked.length === 1, "it waits for its outcome");
    drain.begin();
    await until(async () => asked.length === 2, "it asks what is known");
    drain.end();
    const response = await answer;
    expect(response.status).to.equal(503);
    expect(await response.json()).to.include({ success: false, errorReason: "settlement_pending" });
    await server.stop(0);
  });

  it("B26 names payer, payee and id of a payment without parsing it", async () => {
    const signed = await http.world.signPayment();
    const { from: payer, to: payee, nonce } = signed.authorization;
    const outline = outlineOf(Buffer.from(JSON.stringify({ signedPayment: paymentToWire(signed) }, null, 1)), 31_337);
    expect(outline.party).to.deep.equal({ payer, payee });
    expect(outline.paymentId).to.equal(paymentIdOf({ chainId: 31_337, token: signed.token, payer, nonce }));
    expect(outlineOf(Buffer.from("{}"), 31_337)).to.deep.include({ paymentId: undefined });
  });
});
