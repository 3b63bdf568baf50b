import { request as httpRequest } from "node:http";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { type AcceptEntryWire, checksum } from "turnpike/protocol";
import {
  addressOf,
  headerOf,
  ONE_TIME,
  PAY_TO,
  paidHeaders,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX, type RouteSpec } from "../support/frameworks";

const THROWING = { fetch: true, "a Next.js route handler": true };
const LARGE = 4 * 1_024 * 1_024;

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`the adapter of ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    /** what the handlers did, and what they do next */
    let served: string[];
    let next: () => Handled | Promise<Handled>;
    let release: () => void;

    const at = (path: string) => `${server.url}${PREFIX}${path}`;
    const route = (path: string, more: Partial<RouteSpec> = {}): RouteSpec => ({
      path,
      gate: { pricing: ONE_TIME } as never,
      handle: () => {
        served.push(path);
        return next();
      },
      ...more,
    });

    // What frameworks log of handlers that fail on purpose.
    const log = console.error;
    before(async () => {
      console.error = () => undefined;
      facilitator = await startSmallFacilitator();
      provider = testProvider(facilitator);
      server = await start(provider, [
        route("/paid"),
        route("/dear", { gate: { pricing: [{ type: "one-time", amount: 9_000_000n }] } as never }),
        route("/faulty", {
          gate: {
            pricing: [
              {
                type: "one-time",
                amount: () => {
                  throw new RangeError("no price");
                },
              },
            ],
          } as never,
        }),
        route("/who", {
          handle: ({ payment }) => ({ body: JSON.stringify(payment.kind === "one-time" && payment.payer) }),
        }),
        route("/upload", { handle: async ({ body }) => ({ body: String((await body()).length) }) }),
      ]);
    });
    beforeEach(() => {
      served = [];
      next = () => ({ body: "ok" });
    });
    after(async () => {
      console.error = log;
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    it("requires payment, passes the payer to the handler, and serves once", async () => {
      const headers = await paidHeaders(at("/who?a=1"));
      expect((await send(at("/who?a=1"), { headers })).json).to.equal(addressOf("payer"));
      const again = await send(at("/who?a=1"), { headers });
      expect([again.status, again.json.reason]).to.deep.equal([402, "already_used"]);
    });

    it("C14 releases the payment when the handler throws or returns 500, and not for a 404", async () => {
      const headers = await paidHeaders(at("/paid"));
      next = () => {
        throw new RangeError("broke");
      };
      expect((await send(at("/paid"), { headers })).status).to.equal(500);
      next = () => ({ status: 503, body: "later" });
      expect((await send(at("/paid"), { headers })).text).to.equal("later");
      next = () => ({ status: 404, body: "none" });
      expect((await send(at("/paid"), { headers })).status).to.equal(404);
      expect((await send(at("/paid"), { headers })).json.reason).to.equal("already_used");
    });

    it("C14 releases the payment when the handler throws what is no error", async () => {
      const headers = await paidHeaders(at("/paid"));
      next = () => {
        throw "broke";
      };
      const failed = await send(at("/paid"), { headers }).catch(() => undefined);
      expect(failed?.status ?? 500).to.equal(500);
      next = () => ({ body: "ok" });
      expect((await send(at("/paid"), { headers })).status).to.equal(200);
    });

    it("passes a streamed response on, and uses the payment with its first byte", async () => {
      const headers = await paidHeaders(at("/paid"));
      next = () => ({ body: parts(["one ", "two ", "three"]) });
      const answer = await send(at("/paid"), { headers });
      expect(answer.text).to.equal("one two three");
      expect(answer.headers["cache-control"]).to.equal("private, no-store");
      expect((await send(at("/paid"), { headers })).json.reason).to.equal("already_used");
    });

    it("uses the payment when a stream breaks off, and the client sees the break", async () => {
      const headers = await paidHeaders(at("/paid"));
      next = () => ({ body: parts(["one "], new RangeError("broke off")) });
      const answer = await send(at("/paid"), { headers }).catch((error: Error) => error);
      if ("status" in answer) expect(answer.text).to.not.include("two");
      expect((await send(at("/paid"), { headers })).json.reason).to.equal("already_used");
    });

    it("passes large request and response bodies unchanged", async () => {
      const body = "x".repeat(2_000_000);
      const post = { method: "POST", headers: { "Content-Type": "text/x-large" }, body };
      const paid = { ...post.headers, ...(await paidHeaders(at("/upload"), {}, post)) };
      expect((await send(at("/upload"), { ...post, headers: paid })).text).to.equal("2000000");
      next = () => ({ body: new Uint8Array(LARGE).fill(65) });
      const headers = await paidHeaders(at("/paid"));
      expect((await send(at("/paid"), { headers })).text).to.have.length(LARGE);
    });

    it("uses the payment when the client disconnects, and refuses it meanwhile", async () => {
      const headers = await paidHeaders(at("/paid"));
      const isFree = new Promise<void>((resolve) => {
        release = resolve;
      });
      next = async () => {
        await isFree;
        return { body: "late" };
      };
      const leaving = httpRequest(at("/paid"), { headers, agent: false });
      leaving.on("error", () => undefined).end();
      await until(async () => served.length === 1);
      const barred = await send(at("/paid"), { headers });
      expect(barred.status).to.equal(409);
      expect(Number(barred.headers["retry-after"])).to.be.above(0);
      leaving.destroy();
      release();
      await until(async () => (await send(at("/paid"), { headers })).status === 402);
      expect(served).to.have.length(1);
    });

    it("treats HEAD as its own method", async () => {
      const unpaid = await send(at("/paid"), { method: "HEAD" });
      expect([unpaid.status, unpaid.text]).to.deep.equal([402, ""]);
      const proof = headerOf(proofOf(entryOfHeader(unpaid.headers["payment-required"] as string, at("/paid"))));
      expect((await send(at("/paid"), { headers: proof })).json).to.include({ reason: "memo" });
      const head = await send(at("/paid"), { method: "HEAD", headers: proof });
      expect([head.status, head.text]).to.deep.equal([200, ""]);
      expect((await send(at("/paid"), { method: "HEAD", headers: proof })).status).to.equal(402);
      const ofGet = await paidHeaders(at("/paid"));
      expect((await send(at("/paid"), { method: "HEAD", headers: ofGet })).status).to.equal(402);
      expect(served).to.have.length(1);
    });

    it("C16 answers a preflight without payment, and never passes it to the handler", async () => {
      const answer = await send(at("/paid"), {
        method: "OPTIONS",
        headers: { Origin: "https://a.example", "Access-Control-Request-Method": "GET" },
      });
      expect([answer.status, answer.text]).to.deep.equal([204, ""]);
      expect(answer.headers["access-control-allow-headers"]).to.include("X-PAYMENT");
      const headers = await paidHeaders(at("/paid"));
      expect((await send(at("/paid"), { method: "OPTIONS", headers })).status).to.equal(204);
      expect(served).to.have.length(0);
      expect((await send(at("/paid"), { headers })).status).to.equal(200);
    });

    it("C15 C16 marks responses private and quotes no-store, and lets browsers read all of them", async () => {
      const unpaid = await send(at("/paid"));
      expect(unpaid.headers["cache-control"]).to.equal("no-store");
      expect(unpaid.headers["content-type"]).to.match(/^application\/json/);
      next = () => ({ headers: { "Cache-Control": "public, max-age=60", Vary: "Accept" }, body: "ok" });
      const paid = await send(at("/paid"), { headers: await paidHeaders(at("/paid")) });
      expect(paid.headers["cache-control"]).to.equal("private, no-store");
      expect(paid.headers.vary).to.match(/Accept.*X-PAYMENT.*X-Service-Sub/);
      expect(paid.headers).to.include.keys("x-payment-response", "payment-response");
      const faulty = await send(at("/faulty"));
      expect(faulty.status).to.equal(500);
      // Fetch-style handlers throw on the provider's own fault: the platform returns the 500.
      for (const { headers } of name in THROWING ? [unpaid, paid] : [unpaid, paid, faulty]) {
        expect(headers["access-control-allow-origin"]).to.equal("*");
        expect(headers["access-control-expose-headers"]).to.include("X-PAYMENT-RESPONSE");
      }
    });

    it("C6 fails closed when the price or the Facilitator fails", async () => {
      const headers = await paidHeaders(at("/paid"));
      facilitator.mode = "down";
      const down = await send(at("/paid"), { headers });
      facilitator.mode = "valid";
      expect(down.status).to.equal(503);
      expect(Number(down.headers["retry-after"])).to.be.above(0);
      expect((await send(at("/faulty"), { headers })).status).to.equal(500);
      expect(served).to.have.length(0);
      expect((await send(at("/paid"), { headers })).status).to.equal(200);
    });

    it("C7 C8 refuses credentials with two readings or none", async () => {
      const headers = await paidHeaders(at("/paid"));
      const proof = headers["X-PAYMENT"] as string;
      const twice: Record<string, string | string[]>[] = [
        { "X-PAYMENT": [proof, proof] },
        { "X-PAYMENT": `${proof}, ${proof}` },
        { "X-PAYMENT": [proof, "x"] },
        { "X-PAYMENT": proof, "PAYMENT-SIGNATURE": Buffer.from('{"x402Version":2}').toString("base64") },
        { "X-PAYMENT": "A".repeat(8_193) },
      ];
      for (const bad of twice) expect((await send(at("/paid"), { headers: bad })).status).to.equal(400);
      const json = Buffer.from(proof, "base64").toString();
      const base64 = (text: string) => Buffer.from(text).toString("base64");
      const unreadable = [
        `${proof}=`,
        `=${proof}`,
        `${proof}!`,
        base64(`\ufeff${json}`),
        base64(json.replace("{", '{"__proto__":{},')),
        base64(json.replace("{", '{"version":"1",')),
        base64(`${"[".repeat(500)}${"]".repeat(500)}`),
        base64(json.replace('"version"', '"version\\u0000"')),
        Buffer.from([0xff, 0xfe, 0x7b, 0x7d]).toString("base64"),
      ];
      for (const bad of unreadable) {
        const answer = await send(at("/paid"), { headers: { "X-PAYMENT": bad } });
        expect([answer.status, answer.json.error], bad.slice(0, 40)).to.deep.equal([402, "InvalidPaymentProof"]);
      }
      expect(served).to.have.length(0);
      expect((await send(at("/paid"), { headers })).status).to.equal(200);
    });

    it("C5 no spelling of a path passes the gate unpaid, and a cheap payment buys no expensive route", async () => {
      const cheap = await paidHeaders(at("/paid"));
      for (const path of [...spellings("/paid"), ...spellings("/dear"), ...crossings("/paid", "/dear")]) {
        for (const method of ["GET", "HEAD", "POST"]) {
          const unpaid = await send(server.url, { method, path }).catch(noHttp);
          expect(unpaid.status, `${method} ${path} unpaid`).to.be.within(300, 499);
          // Fetch-style servers resolve a target first: then the resolved target is what was paid for.
          if (method === "GET" && isResolved(path, "/paid")) continue;
          const answer = await send(server.url, { method, path, headers: cheap }).catch(noHttp);
          expect(answer.status, `${method} ${path} with the proof of GET ${PREFIX}/paid`).to.be.within(300, 499);
        }
      }
      expect(served).to.deep.equal([]);
      expect((await send(at("/paid"), { headers: cheap })).status, "the proof is still good").to.equal(200);
    });

    it("C5 two spellings of one handler's path have separate quotes, and a query is part of the resource", async () => {
      const headers = await paidHeaders(at("/paid?a=1&b=2"));
      for (const path of ["?b=2&a=1", "?a=1", "", "?a=1&b=2&", "?a=1&b=%32", "?A=1&b=2"]) {
        expect((await send(at("/paid"), { path: `${PREFIX}/paid${path}`, headers })).status, path).to.equal(402);
      }
      const [entry] = (await quoteOf(server.url, { path: `${PREFIX}/paid?a=1&b=2` })).accepts;
      expect(entry?.resource).to.equal(at("/paid?a=1&b=2"));
      expect((await send(at("/paid?a=1&b=2"), { headers })).status).to.equal(200);
    });
  });
}

/** Fastify's response to a HEAD for an unroutable target has a body, which Node's client rejects as invalid HTTP. */
function noHttp(error: NodeJS.ErrnoException): { readonly status: number } {
  if (error.code?.startsWith("HPE_")) return { status: 400 };
  throw error;
}

/** Returns whether a target is this path once a server has resolved it by the URL standard. */
function isResolved(target: string, path: string): boolean {
  if (target.startsWith("//") || !URL.canParse(target, "http://127.0.0.1")) return false;
  const { pathname, search } = new URL(target, "http://127.0.0.1");
  return pathname === `${PREFIX}${path}` && search === "";
}

async function* parts(texts: readonly string[], fault?: Error): AsyncIterable<string> {
  for (const text of texts) {
    yield text;
    await new Promise(setImmediate);
  }
  if (fault) throw fault;
}

/** Spellings of one path that at least one router accepts as that path. */
function spellings(path: string): string[] {
  const [first = "", rest = ""] = [path.slice(1, 2), path.slice(2)];
  const hex = first.charCodeAt(0).toString(16);
  return [
    `${PREFIX}${path}`,
    `${PREFIX}${path}/`,
    `${PREFIX}${path}?`,
    `${PREFIX}/${path}`,
    `/${PREFIX}${path}`,
    `${PREFIX}//${path}//`,
    `${PREFIX}/%${hex}${rest}`,
    `${PREFIX}/%25${hex}${rest}`,
    `${PREFIX}${path.toUpperCase()}`,
    `${PREFIX.toUpperCase()}${path}`,
    `${PREFIX}/.${path}`,
    `${PREFIX}/x/..${path}`,
    `${PREFIX}/x/%2e%2e${path}`,
    `${PREFIX}/x/.%2E${path}`,
    `${PREFIX}%2f${path.slice(1)}`,
    `${PREFIX}%2F${path.slice(1)}`,
    `${PREFIX}\\${path.slice(1)}`,
    `\\${PREFIX.slice(1)}${path}`,
    `${PREFIX}${path}%20`,
    `${PREFIX}${path}%00`,
    `${PREFIX}${path};a=b`,
    `${PREFIX}${path}%3f`,
    `${PREFIX}${path}%23`,
    `${PREFIX}${path}#x`,
    `http://127.0.0.1${PREFIX}${path}`,
    `http://evil.example${PREFIX}${path}`,
    `//evil.example${PREFIX}${path}`,
    `/@evil.example${PREFIX}${path}`,
  ];
}

/** Targets that begin like one path and lead, for some router, to another. */
function crossings(from: string, to: string): string[] {
  return ["/..", "/%2e%2e", "/.%2e", "%2f..", "\\..", "/../x/..", "//..", "/%252e%252e"].map(
    (step) => `${PREFIX}${from}${step}${to}`,
  );
}

/** HEAD has no body: what version 2 clients read has the same memo. */
function entryOfHeader(header: string, resource: string): AcceptEntryWire {
  const { accepts } = JSON.parse(Buffer.from(header, "base64").toString("utf8"));
  const [{ amount, extra }] = accepts;
  return { network: "local-31337", token: TOKEN, amount, payTo: checksum(PAY_TO), memo: extra.memo, resource } as never;
}
