import { expect } from "chai";
import { type RunningServer, startServer } from "../../../facilitator/src/http/server";
import { until } from "../../support/facilitator";
import { type Client, expectBusy, openClient } from "../support/clients";
import { useService } from "../support/http-service";
import { paymentToWire } from "../support/payments";

const MAX_CONNECTIONS = 4;
const STORM = 100;
/** More than the buffers of a connection hold. */
const LARGE = "x".repeat(32_000_000);
const HEAD = "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n";

const openMany = (url: string, count: number, sent: string): Promise<Client[]> =>
  Promise.all(Array.from({ length: count }, () => openClient(url, sent)));

describe("Facilitator: many connections", function () {
  this.timeout(30_000);
  let server: RunningServer;
  let held: (() => void)[];

  beforeEach(async () => {
    held = [];
    server = await startServer({
      fetch: async (request) => {
        if (new URL(request.url).pathname === "/early") return new Response("early");
        if (new URL(request.url).pathname === "/large") return new Response(LARGE);
        await request.text();
        if (new URL(request.url).pathname === "/held") await new Promise<void>((resolve) => held.push(resolve));
        return new Response("served");
      },
      host: "127.0.0.1",
      port: 0,
      maxConnections: MAX_CONNECTIONS,
      readTimeoutMs: 500,
    });
  });
  afterEach(async () => {
    for (const release of held) release();
    await server.stop(0);
  });

  it("HD10 a stop answers once more on each connection that clients have kept, and says that it closes it", async () => {
    const clients = await openMany(server.url, MAX_CONNECTIONS, "GET /early HTTP/1.1\r\nHost: x\r\n\r\n");
    for (const { text } of clients) await until(async () => text().endsWith("early"), "the first answers");
    const stopped = server.stop(1_000, 10_000);
    for (const { socket } of clients) socket.write("GET /early HTTP/1.1\r\nHost: x\r\n\r\n");
    for (const { text } of clients) {
      await until(async () => text().split("HTTP/1.1 200").length === 3 && text().endsWith("early"), "the second");
      expect(text().split("HTTP/1.1 200")[1]).to.match(/^connection: keep-alive/im);
      expect(text().split("HTTP/1.1 200")[2]).to.match(/^connection: close/im);
    }
    await stopped;
  });

  it("HB9 a connection above the limit gets 503 and a time to come again, also in the middle of its body", async () => {
    const served = await openMany(server.url, MAX_CONNECTIONS, `${HEAD}\r\n{}`);
    await until(async () => held.length === MAX_CONNECTIONS, "all connections are being served");
    const body = " ".repeat(200_000);
    const late = await openClient(server.url, `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n${body}`);
    late.socket.write(body);
    await expectBusy(late);
    for (const release of held) release();
    for (const { text } of served) await until(async () => text().endsWith("served"), "the others are served");
  });

  const sockets = (): number => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;

  it("HB9 each of a storm of connections gets all of its 503, whenever it sends, and nothing of the storm is kept", async () => {
    const before = sockets();
    const served = await openMany(server.url, MAX_CONNECTIONS, `${HEAD}\r\n{}`);
    await until(async () => held.length === MAX_CONNECTIONS, "all connections are being served");
    const quick = await openMany(server.url, STORM, `${HEAD}\r\n{}`);
    const late = await openMany(server.url, STORM, "");
    for (const { text } of late)
      await until(async () => text().endsWith("}"), "the answer is there before the request");
    for (const { socket } of late) socket.write(`${HEAD}\r\n{}`);
    for (const client of [...quick, ...late]) {
      client.socket.end();
      await expectBusy(client);
    }
    for (const release of held) release();
    for (const { text, socket } of served) {
      await until(async () => text().endsWith("served"), "the others are served");
      socket.destroy();
    }
    await until(async () => sockets() <= before, "nothing is kept");
  });

  it("HB9 a client that asks to close gets all of its answer while the rest of its body arrives", async () => {
    const body = "x".repeat(200_000);
    const head = `POST /early HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length * 2}\r\n\r\n`;
    const client = await openClient(server.url, head + body);
    await until(async () => client.text().endsWith("early"), "the answer is whole");
    client.socket.end(body);
    expect(await client.ended, "the connection is closed, not reset").to.equal(undefined);
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

  it("HB9 clients that read nothing of their answers lose their connections, and those that wait for one do not", async () => {
    const waiting = await openClient(server.url, `${HEAD}\r\n{}`);
    await until(async () => held.length === 1, "one is being served");
    const deaf = await openMany(server.url, MAX_CONNECTIONS - 1, "");
    for (const { socket } of deaf) socket.pause().write("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    await until(async () => (await fetch(server.url)).ok, "a client that reads is served");
    for (const release of held) release();
    await until(async () => waiting.text().endsWith("served"), "the one that waited is served");
    for (const { socket } of [waiting, ...deaf]) socket.destroy();
  });

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
