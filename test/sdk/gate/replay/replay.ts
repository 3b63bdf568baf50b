/** HA6: an answer that was paid for and lost is sent again, by every adapter, to a client that holds its secret. */
import { request as httpRequest } from "node:http";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import {
  addressOf,
  NOW,
  ONE_TIME,
  paidHeaders,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX, type RouteSpec } from "../support/frameworks";
import { identified, v1Headers, v2Headers } from "../support/standard";

const KEY = { "Idempotency-Key": "one purchase of this test".replaceAll(" ", "-") };
const LIMIT = 64 * 1_024;

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`replays through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let served: number;
    let next: () => Handled | Promise<Handled>;
    const clock = { sec: NOW, nowSec: () => clock.sec };

    const at = (path: string) => `${server.url}${PREFIX}${path}`;
    const route = (path: string, gate: object = {}): RouteSpec => ({
      path,
      gate: { pricing: ONE_TIME, ...gate } as never,
      handle: () => {
        served++;
        return next();
      },
    });

    const log = console.error;
    before(async () => {
      console.error = () => undefined;
      facilitator = await startSmallFacilitator();
      provider = testProvider(facilitator, { replay: {}, clock });
      server = await start(provider, [
        route("/paid"),
        route("/other"),
        route("/forgets", { replay: false }),
        route("/refuses", { authorize: ({ payer }: { payer: string }) => payer !== refused }),
      ]);
    });
    let refused = "";
    beforeEach(() => {
      served = 0;
      refused = "";
      facilitator.calls.length = 0;
      next = () => ({ status: 201, headers: { "Content-Type": "text/plain", "X-Own": "kept" }, body: "the content" });
    });
    after(async () => {
      console.error = log;
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    const expectReplay = async (url: string, headers: Record<string, string>, body = "the content") => {
      const again = await send(url, { headers });
      expect([again.status, again.text, again.headers["idempotency-replayed"]]).to.deep.equal([201, body, "true"]);
      return again;
    };
    const expectUsed = async (url: string, headers: Record<string, string>) => {
      const again = await send(url, { headers });
      expect([again.status, again.json.error, again.json.reason], again.text).to.deep.equal([
        402,
        "PaymentAlreadyUsed",
        "already_used",
      ]);
      expect(again.json.message).to.not.match(/pay (?:the|a) fresh quote/i);
      expect(again.json.accepts).to.have.length(1);
    };

    it("HA6 gives the answer of a native proof again, marked, and runs and asks nothing", async () => {
      const headers = await paidHeaders(at("/paid"));
      const first = await send(at("/paid"), { headers });
      expect([first.status, first.text]).to.deep.equal([201, "the content"]);
      expect(first.headers).to.not.have.property("idempotency-replayed");
      const asked = facilitator.calls.length;
      for (let i = 0; i < 3; i++) {
        const again = await expectReplay(at("/paid"), headers);
        expect(again.headers).to.include({ "x-own": "kept", "content-type": first.headers["content-type"] });
        expect(again.headers["x-payment-response"]).to.equal(first.headers["x-payment-response"]);
        expect(again.headers["cache-control"]).to.equal("private, no-store");
        expect(again.headers.vary).to.include("X-PAYMENT");
        expect(again.headers["access-control-expose-headers"]).to.include("Idempotency-Replayed");
      }
      expect([served, facilitator.calls.length]).to.deep.equal([1, asked]);
    });

    it("HA6 gives it to a client that kept only its Idempotency-Key, with the proof of a later quote", async () => {
      const sent = { headers: KEY };
      const headers = { ...KEY, ...(await paidHeaders(at("/paid"), {}, sent)) };
      expect((await send(at("/paid"), { headers })).status).to.equal(201);
      clock.sec += 2;
      const later = { ...KEY, ...(await paidHeaders(at("/paid"), {}, sent)) };
      clock.sec = NOW;
      expect(later["X-PAYMENT"], "another memo").to.not.equal(headers["X-PAYMENT"]);
      await expectReplay(at("/paid"), later);
      const other = { "Idempotency-Key": "another purchase of this test".replaceAll(" ", "-") };
      const unrelated = await paidHeaders(at("/paid"), {}, { headers: other });
      expect((await send(at("/paid"), { headers: unrelated })).text, "another purchase").to.equal("the content");
      expect(served).to.equal(2);
    });

    it("HA6 keeps no cookie", async () => {
      next = () => ({ status: 201, headers: { "Set-Cookie": "session=secret", "X-Own": "kept" }, body: "the content" });
      const headers = await paidHeaders(at("/paid"));
      expect((await send(at("/paid"), { headers })).headers["set-cookie"]).to.deep.equal(["session=secret"]);
      const again = await expectReplay(at("/paid"), headers);
      expect(again.headers).to.include({ "x-own": "kept" }).and.not.have.property("set-cookie");
    });

    it("HA6 gives a standard payment's answer again to its Idempotency-Key or identifier, never to a bare one", async () => {
      const [entry] = (await quoteOf(at("/paid"))).accepts;
      const v1 = await v1Headers(entry as never);
      const v2 = await v2Headers(at("/paid"));
      for (const bare of [v1, v2]) {
        expect((await send(at("/paid"), { headers: { ...bare, ...KEY } })).status).to.equal(201);
        await expectReplay(at("/paid"), { ...bare, ...KEY });
        await expectUsed(at("/paid"), bare);
        await expectUsed(at("/paid"), { ...bare, "Idempotency-Key": "another-key-of-this-test" });
      }
      const named = await v2Headers(
        at("/paid"),
        identified(`pay_of_${name.replaceAll(/[^a-z0-9]/gi, "_")}_`.padEnd(20, "0")),
      );
      expect((await send(at("/paid"), { headers: named })).status).to.equal(201);
      await expectReplay(at("/paid"), named);
      const bare = await v1Headers(entry as never);
      expect((await send(at("/paid"), { headers: bare })).status).to.equal(201);
      await expectUsed(at("/paid"), bare);
      await expectUsed(at("/paid"), { ...bare, ...KEY });
      expect(served).to.equal(4);
    });

    it("HA6 gives nothing to another method, resource or query", async () => {
      const [entry] = (await quoteOf(at("/paid"))).accepts;
      const headers = { ...(await v1Headers(entry as never)), ...KEY };
      expect((await send(at("/paid"), { headers })).status).to.equal(201);
      for (const path of ["/other", "/paid?a=1"]) await expectUsed(at(path), headers);
      const posted = await send(at("/paid"), { headers, method: "POST" });
      expect(posted.json.error).to.equal("PaymentAlreadyUsed");
      expect(served).to.equal(1);
      await expectReplay(at("/paid"), headers);
    });

    it("HA6 asks authorize again before it gives an answer", async () => {
      const headers = await paidHeaders(at("/refuses"));
      expect((await send(at("/refuses"), { headers })).status).to.equal(201);
      await expectReplay(at("/refuses"), headers);
      refused = addressOf("payer");
      expect((await send(at("/refuses"), { headers })).status).to.equal(403);
    });

    it("HA6 keeps nothing of a route that says so", async () => {
      const headers = await paidHeaders(at("/forgets"));
      expect((await send(at("/forgets"), { headers })).status).to.equal(201);
      await expectUsed(at("/forgets"), headers);
    });

    it("HA6 keeps a body up to the limit, whole, and nothing beyond it", async () => {
      for (const [size, isKept] of [
        [LIMIT, true],
        [LIMIT + 1, false],
      ] as const) {
        next = () => ({ status: 201, body: new Uint8Array(size).fill(65) });
        const headers = await paidHeaders(at("/paid"));
        expect((await send(at("/paid"), { headers })).text).to.have.length(size);
        if (isKept) await expectReplay(at("/paid"), headers, "A".repeat(size));
        else await expectUsed(at("/paid"), headers);
      }
    });

    it("HA6 keeps an empty answer, a 204 and a 404, and never a failure", async () => {
      for (const status of [200, 204, 404] as const) {
        next = () => ({ status, body: status === 204 ? "" : "x".repeat(status - 200) });
        const headers = await paidHeaders(at("/paid"));
        const first = await send(at("/paid"), { headers });
        expect(first.status).to.equal(status);
        const again = await send(at("/paid"), { headers });
        expect([again.status, again.text, again.headers["idempotency-replayed"]]).to.deep.equal([
          status,
          first.text,
          "true",
        ]);
      }
      next = () => ({ status: 503, body: "later" });
      const headers = await paidHeaders(at("/paid"));
      expect((await send(at("/paid"), { headers })).status).to.equal(503);
      next = () => ({ status: 201, body: "the content" });
      const served = await send(at("/paid"), { headers });
      expect([served.status, served.headers["idempotency-replayed"]]).to.deep.equal([201, undefined]);
      await expectReplay(at("/paid"), headers);
    });

    it("HA6 passes a short stream on as it comes, and keeps it once it is whole", async () => {
      let goOn: () => void = () => undefined;
      const isFree = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      next = () => ({ status: 201, body: inTwo("one ", isFree, "two") });
      const headers = await paidHeaders(at("/paid"));
      const first = await new Promise<string>((resolve, reject) => {
        httpRequest(at("/paid"), { headers, agent: false }, (response) => {
          let text = "";
          response.on("data", (chunk: Buffer) => {
            text += chunk.toString();
            // The second part is not made before the first has arrived.
            if (text === "one ") goOn();
          });
          response.on("end", () => resolve(text));
          response.on("error", reject);
        })
          .on("error", reject)
          .end();
      });
      expect(first).to.equal("one two");
      await expectReplay(at("/paid"), headers, "one two");
    });

    it("HA6 keeps no event stream, none that breaks off, and none that grows too large", async () => {
      const streams: (() => Handled)[] = [
        () => ({ headers: { "Content-Type": "text/event-stream" }, body: "data: 1\n\n" }),
        () => ({ body: repeated("x".repeat(1_024), 65) }),
        () => ({ body: repeated("x", 3, new RangeError("broke off")) }),
      ];
      for (const make of streams) {
        next = make;
        const headers = await paidHeaders(at("/paid"));
        await send(at("/paid"), { headers }).catch(() => undefined);
        await until(async () => (await send(at("/paid"), { headers })).status !== 409);
        await expectUsed(at("/paid"), headers);
      }
    });

    it("HA6 gives the answer to a client that was killed while the handler ran", async () => {
      let goOn: () => void = () => undefined;
      const isFree = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      next = async () => {
        await isFree;
        return { status: 201, body: "the content" };
      };
      const headers = await paidHeaders(at("/paid"));
      const leaving = httpRequest(at("/paid"), { headers, agent: false });
      leaving.on("error", () => undefined).end();
      await until(async () => served === 1);
      leaving.destroy();
      expect((await send(at("/paid"), { headers })).status, "the handler still runs").to.equal(409);
      goOn();
      await until(async () => (await send(at("/paid"), { headers })).status !== 409);
      await expectReplay(at("/paid"), headers);
      expect(served).to.equal(1);
    });

    it("HA6 gives the answer to a client that was killed in the middle of it", async () => {
      let goOn: () => void = () => undefined;
      const isFree = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      next = () => ({ status: 201, body: inTwo("one ", isFree, "two") });
      const headers = await paidHeaders(at("/paid"));
      await new Promise<void>((resolve) => {
        const leaving = httpRequest(at("/paid"), { headers, agent: false }, (response) => {
          response.on("error", () => undefined);
          response.once("data", () => leaving.destroy());
        });
        leaving.on("error", () => undefined).on("close", () => resolve());
        leaving.end();
      });
      goOn();
      await until(async () => (await send(at("/paid"), { headers })).status !== 409);
      await expectReplay(at("/paid"), headers, "one two");
      expect(served).to.equal(1);
    });
  });
}

async function* inTwo(first: string, between: Promise<void>, second: string): AsyncIterable<string> {
  yield first;
  await between;
  yield second;
}

async function* repeated(text: string, times: number, fault?: Error): AsyncIterable<string> {
  for (let i = 0; i < times; i++) {
    yield text;
    await new Promise(setImmediate);
  }
  if (fault) throw fault;
}
