/** HA20 to HA23: a standard payment that settles after its handler, through every adapter. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import http2 from "node:http2";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { gated, type Provider } from "turnpike/gate";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  type Answer,
  closeServer,
  listen,
  ONE_TIME,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX } from "../support/frameworks";
import { requiredIn, v1Headers, v2Headers } from "../support/standard";

const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };

const refused = (errorReason: string) => ({ success: false, errorReason, transaction: "", network: "local-31337" });

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`payments that settle after the handler, through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let served: number;
    let next: () => Handled | Promise<Handled>;
    let url: string;

    const log = console.error;
    beforeEach(async () => {
      console.error = () => undefined;
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      provider = testProvider(facilitator, { replay: {} });
      served = 0;
      next = () => ({ headers: { "Content-Type": "text/plain", "X-Own": "secret" }, body: "the content" });
      const gate = { pricing: ONE_TIME } as never;
      const handle = () => {
        served++;
        return next();
      };
      server = await start(provider, [
        { path: "/paid", gate, handle },
        { path: "/other", gate, handle },
        { path: "/first", gate: { pricing: ONE_TIME, settle: "before" } as never, handle },
      ]);
      await provider.ready();
      url = `${server.url}${PREFIX}/paid`;
    });
    afterEach(async () => {
      console.error = log;
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    const v1 = async (at = url) => v1Headers((await quoteOf(at)).accepts[0] as AcceptEntryWire);
    const asked = () => facilitator.calls.map(({ path }) => path.replace(/0x[0-9a-f]{64}/, ":id"));
    const receiptIn = ({ headers }: Answer) => {
      const text = headers["payment-response"] ?? headers["x-payment-response"];
      return text && JSON.parse(Buffer.from(String(text), "base64").toString());
    };
    const expectNothingOf = (answer: Answer) => {
      expect(answer.text).not.to.include("the content");
      expect(answer.headers).not.to.have.property("x-own");
      expect(receiptIn(answer)).to.equal(undefined);
    };

    it("names its flow only where it settles first", async () => {
      const after = await send(url);
      expect(after.json.accepts[0].extra).not.to.have.property("paymentFlow");
      expect(requiredIn(after).accepts[0]?.extra).not.to.have.property("paymentFlow");
      const before = await send(`${server.url}${PREFIX}/first`);
      expect(before.json.accepts[0].extra.paymentFlow).to.equal("upfront");
      expect(requiredIn(before).accepts[0]?.extra.paymentFlow).to.equal("upfront");
    });

    it("HA20 reserves, runs the handler, settles, then answers with the receipt", async () => {
      const order: string[] = [];
      const [verify, settle] = [facilitator.verify, facilitator.settle];
      facilitator.verify = (body) => {
        order.push("reserve");
        return verify(body);
      };
      facilitator.settle = (body) => {
        order.push("settle");
        return settle(body);
      };
      next = () => {
        order.push("handler");
        return { headers: { "X-Own": "secret" }, body: "the content" };
      };
      for (const headers of [await v1(), await v2Headers(url)]) {
        order.length = 0;
        const answer = await send(url, { headers });
        expect([answer.status, answer.text, answer.headers["x-own"]]).to.deep.equal([200, "the content", "secret"]);
        expect(order).to.deep.equal(["reserve", "handler", "settle"]);
        expect(receiptIn(answer)).to.include({ success: true, transaction: `0x${"ab".repeat(32)}` });
        expect(answer.headers["cache-control"]).to.equal("private, no-store");
        expect((await send(url, { headers })).json.reason, "a second time").to.equal("already_used");
      }
    });

    it("HA20 charges nothing for a handler that fails, and closes the payment after three runs", async () => {
      const failures: (() => Handled | Promise<Handled>)[] = [
        () => ({ status: 404, headers: { "X-Own": "secret" }, body: "not found" }),
        () => ({ status: 500, body: "broken" }),
        () => {
          throw new TypeError("thrown");
        },
      ];
      const statuses = [404, 500, 500];
      const headers = await v1();
      for (const [i, fail] of failures.entries()) {
        next = fail;
        const answer = await send(url, { headers }).catch(() => undefined);
        if (answer) expect(answer.status).to.equal(statuses[i]);
        if (answer) expect(receiptIn(answer)).to.equal(undefined);
        expect(facilitator.reserved.size, "the reservation has ended").to.equal(0);
      }
      next = () => ({ body: "the content" });
      for (let i = 0; i < 3; i++) {
        const closed = await send(url, { headers });
        expect([closed.status, closed.json.reason]).to.deep.equal([402, "handler_failed"]);
        expect(closed.json.accepts).to.have.length(1);
      }
      expect(served).to.equal(3);
      expect(asked()).not.to.include("/settle");
    });

    it("HA21 gives nothing of an answer whose payment is refused, then gives it without a second run", async () => {
      const headers = await v1();
      facilitator.settlements.push(refused("insufficient_funds"));
      const first = await send(url, { headers });
      expect([first.status, first.json.reason]).to.deep.equal([402, "insufficient_funds"]);
      expect(first.json.accepts).to.have.length(1);
      expect(first.headers).to.have.property("payment-required");
      expectNothingOf(first);
      const second = await send(url, { headers });
      expect([second.status, second.text, second.headers["x-own"]]).to.deep.equal([200, "the content", "secret"]);
      expect(receiptIn(second)).to.include({ success: true });
      expect(served).to.equal(1);
      const third = await send(url, { headers });
      expect(third.json.reason, "a bare payload opens nothing that is used").to.equal("already_used");
    });

    it("HA21 answers 503 while the outcome is unknown, keeps the answer, and replays it to the same client alone", async () => {
      const headers = { ...(await v1()), ...KEY };
      for (let i = 0; i < 5; i++) {
        facilitator.settlements.push(refused("settlement_pending"));
        const pending = await send(url, { headers });
        expect(pending.status).to.equal(503);
        expect(pending.headers).to.have.property("retry-after");
        expectNothingOf(pending);
      }
      const { "Idempotency-Key": _key, ...bare } = headers;
      expect((await send(url, { headers: bare })).json.reason, "a stranger").to.equal("payment_already_granted");
      for (let i = 0; i < 2; i++) expect((await send(url, { headers })).text).to.equal("the content");
      expect((await send(url, { headers: bare })).json.reason).to.equal("already_used");
      expect(served).to.equal(1);
    });

    it("HA21 keeps the answer while the Facilitator is gone, and gives a failure back without it", async () => {
      const headers = await v1();
      next = () => {
        facilitator.mode = "down";
        return { headers: { "X-Own": "secret" }, body: "the content" };
      };
      const pending = await send(url, { headers });
      expect(pending.status).to.equal(503);
      expectNothingOf(pending);
      facilitator.mode = "valid";
      expect((await send(url, { headers })).text).to.equal("the content");
      expect(served).to.equal(1);
      next = () => {
        facilitator.mode = "down";
        return { status: 404, body: "not found" };
      };
      expect((await send(url, { headers: await v1() })).text).to.equal("not found");
    });

    it("HA22 runs one handler for thirty copies, and none for a copy at another resource", async () => {
      let goOn: () => void = () => undefined;
      const isFree = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      let begin: () => void = () => undefined;
      const hasBegun = new Promise<void>((resolve) => {
        begin = resolve;
      });
      next = async () => {
        begin();
        await isFree;
        return { body: "the content" };
      };
      const headers = await v1();
      const first = send(url, { headers });
      await hasBegun;
      const copies = await Promise.all(Array.from({ length: 30 }, () => send(url, { headers })));
      const elsewhere = await send(`${server.url}${PREFIX}/other`, { headers });
      for (const { status } of [...copies, elsewhere]) expect(status).to.equal(409);
      goOn();
      expect((await first).text).to.equal("the content");
      expect([served, asked().filter((path) => path === "/settle").length]).to.deep.equal([1, 1]);
    });

    it("HA21 charges a client that has left nothing until it returns for its answer, which needs no second run", async () => {
      let goOn: () => void = () => undefined;
      const isFree = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      next = async () => {
        await isFree;
        return { body: "the content" };
      };
      const headers = await v1();
      const leaving = request(url, { headers, agent: false });
      leaving.on("error", () => undefined).end();
      await until(async () => served === 1);
      leaving.destroy();
      await until(async () => (await server.connections()) === 0);
      goOn();
      let answer = await send(url, { headers });
      await until(async () => {
        answer = answer.status === 409 ? await send(url, { headers }) : answer;
        return answer.status !== 409;
      });
      expect([answer.text, served]).to.deep.equal(["the content", 1]);
      expect(asked().filter((path) => path === "/settle")).to.have.length(1);
    });

    it("HA22 runs no handler for a payment that another gate has reserved", async () => {
      const headers = await v1();
      facilitator.verify = () => ({ isValid: false, invalidReason: "payment_already_granted" });
      const answer = await send(url, { headers });
      expect([answer.status, answer.json.reason, served]).to.deep.equal([402, "payment_already_granted", 0]);
      expect(asked()).not.to.include("/settle");
    });

    it("HA22 has the settlement decide about a payment that the chain took back", async () => {
      const headers = await v1();
      facilitator.verify = () => ({ isValid: false, invalidReason: "invalid_transaction_state" });
      facilitator.status = "reversed";
      expect([(await send(url, { headers })).status, served]).to.deep.equal([200, 1]);
      expect(asked()).to.include("/settle");
    });

    it("HA20 serves nothing where the amount is not reserved, or nobody answers", async () => {
      const headers = await v1();
      facilitator.verify = () => ({ isValid: true, payer: `0x${"11".repeat(20)}` });
      expect((await send(url, { headers })).status).to.equal(503);
      facilitator.mode = "down";
      expect((await send(url, { headers })).status).to.equal(503);
      expect(served).to.equal(0);
    });

    it("HA23 settles a stream before its first byte leaves, and gives nothing of one that is refused", async () => {
      for (const [type, part, times] of [
        ["text/event-stream", "data: one\n\n", 3],
        ["application/octet-stream", "x".repeat(65_536), 20],
      ] as const) {
        next = () => ({ headers: { "Content-Type": type, "X-Own": "secret" }, body: parts(part, times) });
        facilitator.settlements.push(refused("insufficient_funds"));
        const without = await send(url, { headers: await v1() });
        expect([without.status, without.json.reason], type).to.deep.equal([402, "insufficient_funds"]);
        expectNothingOf(without);
        const answer = await send(url, { headers: await v1() });
        expect([answer.status, answer.text.length], type).to.deep.equal([200, part.length * times]);
        expect(receiptIn(answer)).to.include({ success: true });
      }
    });

    it("HA20 refuses a payload that was quoted to settle after, where the route settles before", async () => {
      const first = `${server.url}${PREFIX}/first`;
      const headers = await v2Headers(first);
      const payload = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"], "base64").toString());
      delete payload.accepted.extra.paymentFlow;
      const without = { "PAYMENT-SIGNATURE": Buffer.from(JSON.stringify(payload)).toString("base64") };
      expect((await send(first, { headers: without })).json.reason).to.equal("flow");
      expect((await send(first, { headers })).status).to.equal(200);
    });
  });
}

describe("responses that node:http withholds", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let handle: (request: IncomingMessage, response: ServerResponse) => unknown;
  const closers: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { replay: {}, publicUrl: "https://api.example" });
    await provider.ready();
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
    await provider.close();
    await facilitator.stop();
  });

  const listener = () => gated(provider.paymentGate({ pricing: ONE_TIME }), (...both) => handle(...both));
  async function serve(): Promise<string> {
    const server = createServer(listener());
    closers.push(() => closeServer(server));
    return `${await listen(server)}/paid`;
  }
  const payFor = async (url: string) => v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
  const settles = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
  const pay = async (url: string) => send(url, { headers: await payFor(url) });

  it("HA20 cost nothing when the handler fails after it began to write, and end as they would without a gate", async () => {
    const url = await serve();
    handle = async (_request, response) => {
      response.writeHead(200, { "X-Own": "secret", "Content-Length": 100 });
      response.write("the first part");
      await new Promise(setImmediate);
      throw new TypeError("midway");
    };
    expect(await pay(url).catch((error: { code: string }) => error.code)).to.equal("ECONNRESET");
    handle = () => {
      throw new TypeError("before its head");
    };
    const failed = await pay(url);
    expect([failed.status, failed.json.error]).to.deep.equal([500, "Internal"]);
    expect(facilitator.reserved.size, "every reservation has ended").to.equal(0);
    expect(settles()).to.equal(0);
    handle = (_request, response) => {
      response.write("the first part");
      response.statusCode = 503;
      response.end("unavailable");
    };
    const changed = await pay(url);
    expect([changed.status, changed.text], "its head was sent").to.deep.equal([200, "the first partunavailable"]);
    expect(settles(), "the whole answer left under the status of its head").to.equal(1);
  });

  for (const [way, give] of Object.entries<(request: IncomingMessage, response: ServerResponse) => void>({
    "its error handler destroys the socket": ({ socket }) => void socket.destroy(),
    "it destroys the response": (_, response) => void response.destroy(),
    "it throws": () => {
      throw new TypeError("midway");
    },
  })) {
    it(`HA20 release the payment at once when ${way} after its client has left`, async () => {
      const url = await serve();
      const headers = await payFor(url);
      const sockets: Socket[] = [];
      handle = async (request, response) => {
        sockets.push(request.socket);
        response.writeHead(200, { "Content-Length": 100 });
        response.write("the first part");
        await once(response, "close");
        return give(request, response);
      };
      const leaving = request(url, { headers, agent: false });
      leaving.on("error", () => undefined).end();
      await until(async () => sockets.length === 1);
      leaving.destroy();
      await until(async () => facilitator.reserved.size === 0, 15_000);
      handle = (_request, response) => response.end("the content");
      const again = await send(url, { headers });
      expect([again.status, again.text]).to.deep.equal([200, "the content"]);
      expect(settles()).to.equal(1);
    });
  }

  it("HA23 settle before what is flushed leaves, and cut a stream that fails afterwards", async () => {
    const url = await serve();
    let settledBefore = 0;
    let hasHead: () => void = () => undefined;
    handle = async (_request, response) => {
      response.setHeader("Content-Type", "text/plain");
      response.flushHeaders();
      expect(response.headersSent).to.equal(true);
      await new Promise<void>((resolve) => {
        hasHead = resolve;
      });
      response.end("the content");
    };
    const asking = request(url, { headers: await payFor(url), agent: false }).end();
    const [answer] = (await once(asking, "response")) as [IncomingMessage];
    settledBefore = settles();
    hasHead();
    expect([await text(answer), settledBefore]).to.deep.equal(["the content", 1]);
    expect(answer.headers).to.have.property("x-payment-response");
    let isHeld: boolean | undefined;
    handle = async (_request, response) => {
      response.setHeader("Content-Type", "text/event-stream");
      isHeld = response.write("data: one\n\n");
      await once(response, "drain");
      settledBefore = settles();
      response.end();
    };
    expect((await pay(url)).text).to.equal("data: one\n\n");
    expect([isHeld, settledBefore], "the first event waits for its settlement alone").to.deep.equal([false, 2]);
    handle = (_request, response) => {
      response.flushHeaders();
      response.write("one");
      throw new TypeError("in the stream");
    };
    expect(await pay(url).catch((error: { code: string }) => error.code)).to.equal("ECONNRESET");
  });

  it("HA21 leave over HTTP/2 once they are settled, and not before", async () => {
    const handler = listener();
    const server = http2.createServer((request, response) => handler(request as never, response as never));
    const session = http2.connect(await listen(server as never));
    closers.push(
      () => new Promise((resolve) => server.close(resolve)),
      async () => session.destroy(),
    );
    handle = (_request, response) => {
      response.setHeader("X-Own", "secret");
      response.write("the ");
      response.end("content");
    };
    const ask = (headers: Record<string, string>) => session.request({ ":path": "/paid", ...headers });
    const pays = async () => v1Headers(JSON.parse(await text(ask({}))).accepts[0] as AcceptEntryWire);
    expect(await text(ask(await pays()))).to.equal("the content");
    facilitator.settlements.push(refused("insufficient_funds"));
    const withheld = ask(await pays());
    const head = new Promise<http2.IncomingHttpHeaders>((resolve) => withheld.once("response", resolve));
    expect(JSON.parse(await text(withheld)).reason).to.equal("insufficient_funds");
    expect(await head)
      .to.include({ ":status": 402 })
      .and.not.have.property("x-own");
  });
});

async function* parts(part: string, times: number): AsyncIterable<string> {
  for (let i = 0; i < times; i++) {
    yield part;
    await new Promise(setImmediate);
  }
}
