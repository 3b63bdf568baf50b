import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "chai";
import { createFastLane, directsOf } from "../../../facilitator/src/http/direct-routes";
import { paymentEndpoints } from "../../../facilitator/src/http/routes/payments";
import { startServer } from "../../../facilitator/src/http/server";
import type { ApiServices } from "../../../facilitator/src/http/services";
import { unusedServices } from "../../support/unused-services";
import { useService } from "../support/http-service";
import { paymentToWire } from "../support/payments";

/** Each answer's own: everything else has to be the same. */
const OWN = new Set(["x-request-id", "date", "connection", "keep-alive", "transfer-encoding", "content-length"]);

const WAIT_MS = 25_000;
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
      ...{ payments, authorizeWaitMs: WAIT_MS, monotonicMs: () => nowMs },
      untilEnd: (work: unknown) => work,
    } as unknown as ApiServices;
    const fastLane = createFastLane(services, directsOf(paymentEndpoints(services)));
    const server = await startServer({ fetch: () => new Response(), fastLane, host: "127.0.0.1", port: 0 });
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
    const { waits, answers } = await secondWaits(5_001);
    expect(waits).to.deep.equal([WAIT_MS]);
    expect(answers[1]).to.match(/^HTTP\/1\.1 503 /);
    expect(answers[1]).to.match(/\r\nretry-after: \d+\r\n/i);
    expect(answers[1]).to.match(/\r\nconnection: close\r\n/i);
    expect(JSON.parse(answers[1]?.split("\r\n\r\n")[1] ?? "")).to.include({ code: "Unavailable", status: 503 });
  });
});
