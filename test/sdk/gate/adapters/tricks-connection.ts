/** Connection attacks: pipelined and nested requests, and clients that disconnect before their payment is judged. */
import { createServer, type RequestListener } from "node:http";
import { connect } from "node:net";
import { expect } from "chai";
import { gated, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { outcomeOf } from "../../../hostile/support/tricks/outcome";
import { exchange, type RawRequest, requestText } from "../../../hostile/support/tricks/wire";
import {
  closeServer,
  listen,
  ONE_TIME,
  paidHeaders,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, express4, PREFIX } from "../support/frameworks";
import { PAID_ROUTE, tricked } from "../support/tricked";

const TARGET = `${PREFIX}/paid`;
const { "a Next.js route handler": _next, ...FRAMEWORKS } = ADAPTERS;
/** Frameworks whose gate can detect that the client has disconnected. Fetch-style handlers cannot. */
const DETECTS_DISCONNECTS = ["Express 5", "Express 4", "Fastify", "node:http"];

for (const [name, start] of Object.entries(FRAMEWORKS)) {
  describe(`connection attacks through ${name}`, function () {
    this.timeout(60_000);
    const at = tricked(start, { routes: { ...PAID_ROUTE, "/other": ONE_TIME } });

    const url = () => `${at.server.url}${TARGET}`;
    const payment = async (sent = {}) => `X-PAYMENT: ${(await paidHeaders(url(), {}, sent))["X-PAYMENT"]}`;
    const text = (request: RawRequest) => requestText(new URL(at.server.url).host, request);
    const outcomes = async (...requests: readonly string[]) =>
      (await exchange(at.server.url, requests.join(""))).map(outcomeOf);

    it("C1 checks each pipelined request by its own credentials", async () => {
      const [paid, other] = [await payment(), await payment()];
      const keepAlive = true;
      const seen = await outcomes(
        text({ target: TARGET, lines: [paid], keepAlive }),
        text({ target: TARGET, keepAlive }),
        text({ target: TARGET.replace("paid", "other"), lines: [other], keepAlive }),
        text({ target: TARGET, lines: ["X-PAYMENT: garbage"], keepAlive }),
        text({ target: TARGET, lines: [other] }),
      );
      expect(seen).to.deep.equal(["served", "asked", "refused", "malformed", "served"]);
      expect(at.served).to.equal(2);
    });

    it("C1 grants one of several identical pipelined requests", async () => {
      const paid = await payment();
      const requests = [true, true, true, false].map((keepAlive) => text({ target: TARGET, lines: [paid], keepAlive }));
      const seen = await outcomes(...requests);
      expect(seen.filter((outcome) => outcome === "served")).to.have.length(1);
      expect(seen.filter((outcome) => outcome === "used" || outcome === "in flight")).to.have.length(3);
    });

    it("parses no request from another request's body", async () => {
      const paid = await payment();
      const inner = text({ target: TARGET, lines: [paid] });
      const FRAMED: readonly (readonly [what: string, lines: readonly string[], body: string])[] = [
        ["with its length", [`Content-Length: ${inner.length}`], inner],
        ["in chunks", ["Transfer-Encoding: chunked"], `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`],
        ["in a chunk's extension", ["Transfer-Encoding: chunked"], `1;${paid.slice(0, 60)}\r\nx\r\n0\r\n\r\n`],
        ["as trailers", ["Transfer-Encoding: chunked", "Trailer: X-PAYMENT"], `1\r\nx\r\n0\r\n${paid}\r\n\r\n`],
        ["behind two lengths", ["Content-Length: 0", `Content-Length: ${inner.length}`], inner],
        ["behind a length with a sign", [`Content-Length: +${inner.length}`], inner],
        ["behind length and chunks", ["Content-Length: 4", "Transfer-Encoding: chunked"], `0\r\n\r\n${inner}`],
        ["behind chunks and length", ["Transfer-Encoding: chunked", "Content-Length: 4"], `0\r\n\r\n${inner}`],
        ["behind chunks twice", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], `0\r\n\r\n${inner}`],
        ["behind chunks in disguise", ["Transfer-Encoding: xchunked"], `0\r\n\r\n${inner}`],
        ["behind a space and chunks", ["Transfer-Encoding : chunked"], `0\r\n\r\n${inner}`],
        ["behind chunks of a strange size", ["Transfer-Encoding: chunked"], `0x0\r\n\r\n${inner}`],
        ["in a GET", [`Content-Length: ${inner.length}`], inner],
      ];
      for (const [what, lines, body] of FRAMED) {
        const method = what === "in a GET" ? "GET" : "POST";
        const seen = await outcomes(text({ method, target: TARGET, lines, body }));
        expect(
          seen.filter((outcome) => outcome !== "asked" && outcome !== "no HTTP"),
          what,
        ).to.deep.equal([]);
      }
      expect(at.served).to.equal(0);
      expect(await outcomes(text({ target: TARGET, lines: [paid] }))).to.deep.equal(["served"]);
    });

    it("answers Expect: 100-continue like any request, and serves no other expectation", async () => {
      const post = { method: "POST", target: TARGET, body: "hello" };
      const length = "Content-Length: 5";
      const paid = await payment({ method: "POST" });
      const expecting = "Expect: 100-continue";
      expect(await outcomes(text({ ...post, lines: [length, expecting] }))).to.deep.equal(["asked"]);
      expect(await outcomes(text({ ...post, lines: [length, "Expect: payment", paid] }))).to.deep.equal(["no HTTP"]);
      expect(at.served).to.equal(0);
      expect(await outcomes(text({ ...post, lines: [length, expecting, paid] }))).to.deep.equal(["served"]);
    });

    if (DETECTS_DISCONNECTS.includes(name)) {
      it("does not charge a client that disconnected before its payment was judged", async () => {
        const paid = await payment();
        const release = hold(at.facilitator);
        const leaving = connect(Number(new URL(at.server.url).port), "127.0.0.1");
        leaving.on("error", () => undefined).write(text({ target: TARGET, lines: [paid] }));
        await until(() => at.facilitator.calls.length === 1);
        leaving.destroy();
        await until(async () => (await at.server.connections()) === 0);
        release();
        await until(async () => (await outcomes(text({ target: TARGET, lines: [paid] })))[0] === "served");
        expect(at.served).to.equal(1);
      });
    }
  });
}

describe("a gate whose application responds before it", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator);
  });
  afterEach(async () => {
    await provider.close();
    await facilitator.stop();
  });

  const LISTENERS: Record<string, (provider: Provider, handle: () => string) => RequestListener> = {
    "node:http": (provider, handle) =>
      gated(provider.paymentGate({ pricing: ONE_TIME }), (_request, response) => response.end(handle())),
    "Express 4": (provider, handle) =>
      express4().use(expressGate(provider.gate({ pricing: ONE_TIME })), (_request, response) => response.end(handle())),
  };

  for (const [name, listener] of Object.entries(LISTENERS)) {
    for (const mode of ["valid", "reversed", "down"] as const) {
      it(`charges no payer and keeps working, through ${name}, with a Facilitator that is ${mode}`, async () => {
        let served = 0;
        let isLimited = false;
        const gate = listener(provider, () => String(++served));
        const server = createServer((request, response) => {
          gate(request, response);
          // Like an application's timeout: it responds while the payment is judged.
          if (isLimited) void until(() => facilitator.calls.length === 1).then(() => response.writeHead(504).end());
        });
        const url = await listen(server);
        try {
          const headers = await paidHeaders(`${url}/x`);
          const release = hold(facilitator);
          isLimited = true;
          facilitator.mode = mode;
          expect((await send(`${url}/x`, { headers })).status).to.equal(504);
          isLimited = false;
          release();
          facilitator.mode = "valid";
          await until(async () => (await send(`${url}/x`, { headers })).status === 200);
          expect(served).to.equal(1);
        } finally {
          await closeServer(server);
        }
      });
    }
  }
});

/** @returns what lets it answer again */
function hold(facilitator: SmallFacilitator): () => void {
  let release: () => void = () => undefined;
  facilitator.calls.length = 0;
  facilitator.held = new Promise<void>((resolve) => {
    release = resolve;
  });
  return () => {
    facilitator.held = undefined;
    release();
  };
}
