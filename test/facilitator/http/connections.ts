import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect } from "chai";
import { type RunningServer, startServer } from "../../../facilitator/src/http/server";
import { until } from "../../support/facilitator";
import { useService } from "../support/http-service";
import { paymentToWire } from "../support/payments";

const MAX_CONNECTIONS = 4;
const HEAD = "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n";

interface Client {
  readonly socket: Socket;
  readonly text: () => string;
  /** @returns the error with which the connection ended, if any */
  readonly ended: Promise<string | undefined>;
}

async function open(url: string, sent: string): Promise<Client> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  let text = "";
  let error: string | undefined;
  socket.on("data", (chunk) => (text += chunk));
  socket.on("error", ({ code }: NodeJS.ErrnoException) => {
    error = code;
  });
  const ended = new Promise<string | undefined>((resolve) => socket.once("close", () => resolve(error)));
  await once(socket, "connect");
  socket.write(sent);
  return { socket, text: () => text, ended };
}

const openMany = (url: string, count: number, sent: string): Promise<Client[]> =>
  Promise.all(Array.from({ length: count }, () => open(url, sent)));

async function expectBusy({ text, ended }: Client): Promise<void> {
  expect(await ended, "the connection is closed, not reset").to.equal(undefined);
  expect(text()).to.match(/^HTTP\/1\.1 503 /);
  expect(text()).to.match(/\r\nretry-after: \d+\r\n/);
  expect(text()).to.match(/\r\nconnection: close\r\n/);
  expect(JSON.parse(text().split("\r\n\r\n")[1] ?? "")).to.include({ code: "Unavailable", status: 503 });
}

describe("Facilitator: many connections", function () {
  this.timeout(30_000);
  let server: RunningServer;
  let held: (() => void)[];

  beforeEach(async () => {
    held = [];
    server = await startServer({
      fetch: async (request) => {
        await request.text();
        if (new URL(request.url).pathname === "/held") await new Promise<void>((resolve) => held.push(resolve));
        return new Response("served");
      },
      host: "127.0.0.1",
      port: 0,
      maxConnections: MAX_CONNECTIONS,
    });
  });
  afterEach(async () => {
    for (const release of held) release();
    await server.stop(0);
  });

  it("HB9 a connection above the limit gets 503 and a time to come again, also in the middle of its body", async () => {
    const served = await openMany(server.url, MAX_CONNECTIONS, `${HEAD}\r\n{}`);
    await until(async () => held.length === MAX_CONNECTIONS, "all connections are being served");
    const body = " ".repeat(200_000);
    const late = await open(server.url, `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n${body}`);
    late.socket.write(body);
    await expectBusy(late);
    for (const release of held) release();
    for (const { text } of served) await until(async () => text().endsWith("served"), "the others are served");
  });

  for (const [what, sent] of [
    ["heads", HEAD],
    ["bodies", `${HEAD}\r\n{`],
  ] as const) {
    it(`HB9 senders of slow ${what} keep nobody out: the oldest gets 503, and a quick client its place`, async () => {
      const slow = await openMany(server.url, MAX_CONNECTIONS, sent);
      const trickle = setInterval(() => {
        for (const { socket } of slow) if (what === "heads") socket.write("X: y\r\n");
      }, 20);
      await until(async () => (await fetch(server.url)).ok, "a quick client is served");
      clearInterval(trickle);
      await expectBusy(await Promise.race(slow.map((each) => each.ended.then(() => each))));
      for (const { socket } of slow) socket.destroy();
    });
  }

  it("HB9 an idle connection gives its place away, without an answer that nobody asked for", async () => {
    const idle = await openMany(server.url, MAX_CONNECTIONS, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    for (const { text } of idle) await until(async () => text().includes("served"), "each is served once");
    const before = idle.map(({ text }) => text());
    await until(async () => (await fetch(server.url)).ok, "another client is served");
    const place = await Promise.race(idle.map(({ ended }, index) => ended.then(() => index)));
    expect(await idle[place]?.ended).to.equal(undefined);
    expect(idle[place]?.text()).to.equal(before[place]);
    for (const { socket } of idle) socket.destroy();
  });
});

describe("Facilitator: slow senders and a quick payer", function () {
  this.timeout(120_000);
  const http = useService({ MAX_CONNECTIONS: String(MAX_CONNECTIONS) });

  it("HB9 a payment is made while slow senders hold every connection and open more", async () => {
    const body = JSON.stringify({ signedPayment: paymentToWire(await http.world.signPayment()) });
    const sent =
      "POST /authorize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{";
    const attackers = await openMany(http.service.url, MAX_CONNECTIONS * 2, sent);
    const trickle = setInterval(() => {
      for (const { socket } of attackers) if (!socket.destroyed) socket.write(" ");
    }, 20);
    await until(async () => (await http.post("/authorize", body)).status === 200, "the payment is made");
    clearInterval(trickle);
    for (const { socket } of attackers) socket.destroy();
  });
});
