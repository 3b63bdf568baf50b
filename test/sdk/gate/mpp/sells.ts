/** A route that is sold by x402 and by MPP at once: what its 402 says, and what paid answers report. */
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { createProvider, type Payment, type Provider, type ProviderOptions } from "turnpike/gate";
import {
  addressOf,
  CHAIN_ID,
  FRAMEWORKS,
  NOW,
  ONE_TIME,
  PAY_TO,
  paidHeaders,
  RESERVING,
  type RouteSpec,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import {
  challengeOf,
  challengesIn,
  chargeIn,
  credentialOf,
  decoded,
  headerOf,
  paying,
  receiptIn,
} from "../support/mpp";
import { requiredIn, v1Headers, v2Headers } from "../support/standard";

const SECOND_TOKEN = { address: `0x${"90".repeat(20)}`, name: "Second USD", version: "1" };

for (const framework of ["express", "hono"] as const) {
  describe(`a gate that sells by MPP beside x402, through ${framework}`, () => {
    let facilitator: SmallFacilitator;
    const open: { stop?(): Promise<void>; close?(): Promise<void> }[] = [];

    before(async () => {
      facilitator = await startSmallFacilitator();
    });
    beforeEach(() => {
      facilitator.calls.length = 0;
      facilitator.supported = RESERVING;
    });
    after(async () => {
      for (const each of open) await (each.stop ?? each.close)?.call(each);
      await facilitator.stop();
    });

    async function start(gate: object = {}, options: ProviderOptions = {}, handle?: RouteSpec["handle"]) {
      const provider: Provider = testProvider(facilitator, { mpp: "Authorization", ...options });
      const routes = [{ path: "/report", gate: { pricing: ONE_TIME, ...gate } as never, ...(handle && { handle }) }];
      const server: TestServer = await FRAMEWORKS[framework](provider, routes);
      open.push(server, provider);
      await provider.ready();
      return { server, url: `${server.url}/report` };
    }

    it("adds one challenge to the 402, and leaves the rest as it is", async () => {
      const both = await start();
      const plain = await start({}, { mpp: undefined });
      const answer = await send(both.url);
      expect(answer.status).to.equal(402);
      const [challenge, ...others] = challengesIn(answer);
      expect(others).to.deep.equal([]);
      expect(challenge).to.include({ realm: new URL(both.url).host, method: "evm", intent: "charge" });
      expect(challenge).to.have.all.keys("id", "realm", "method", "intent", "request", "expires", "opaque");
      expect(Date.parse(challenge?.expires ?? "")).to.equal((NOW + 300) * 1_000);
      expect(Buffer.from(challenge?.request ?? "", "base64url").toString("utf8")).to.equal(
        `{"amount":"500000","currency":"${TOKEN}","methodDetails":{"chainId":${CHAIN_ID},"credentialTypes":["authorization"]},"recipient":"${PAY_TO}"}`,
      );
      const flat = Object.values(decoded(challenge?.opaque ?? "") as object);
      expect(flat.every((value) => typeof value === "string")).to.equal(true);
      expect(answer.headers.vary).to.include("Authorization").and.include("Payment-Authorization");
      expect(answer.headers["access-control-expose-headers"])
        .to.include("WWW-Authenticate")
        .and.include("Payment-Receipt");
      expect(answer.headers["content-type"]).to.match(/^application\/json/);

      const other = await send(plain.url);
      expect(other.headers).to.not.have.property("www-authenticate");
      const shape = ({ json }: typeof other) => [Object.keys(json), Object.keys(json.accepts[0])];
      expect(shape(answer)).to.deep.equal(shape(other));
      expect(requiredIn(answer).accepts[0]).to.have.all.keys(Object.keys(requiredIn(other).accepts[0] ?? {}));
    });

    it("names the token's decimals where they are known", async () => {
      const token = { address: TOKEN, name: "Test USD", version: "1", decimals: 6 };
      const { url } = await start({}, { token });
      expect(chargeIn(await challengeOf(url)).methodDetails.decimals).to.equal(6);
    });

    it("is paid in every dialect, one transfer each", async () => {
      const { url, server } = await start();
      const entry = (await send(url)).json.accepts[0];
      for (const headers of [
        await paying(url),
        await v1Headers(entry),
        await v2Headers(url),
        await paidHeaders(url),
        await paying(url, {}, { payer: "another payer" }),
      ]) {
        const answer = await send(url, { headers });
        expect(answer.status, answer.text).to.equal(200);
        expect(answer.headers).to.have.property("headers" in headers ? "payment-receipt" : "cache-control");
      }
      expect(server.served.get("/report")).to.equal(5);
      const settled = facilitator.calls.filter(({ path }) => path === "/settle");
      expect(settled).to.have.length(4);
      const nonces = settled.map(({ body }) => (body as never as Settled).paymentPayload.payload.authorization.nonce);
      expect(new Set(nonces).size).to.equal(4);
    });

    it("names its dialect in the payment that handlers and hooks get", async () => {
      const seen: unknown[] = [];
      const note = (payment: Payment) => (payment.kind === "one-time" ? seen.push(payment.dialect) : 0);
      const authorize = (payment: Payment) => note(payment) > 0;
      const { url } = await start({ authorize }, {}, (payment) => {
        note(payment);
        return {};
      });
      for (const headers of [await paying(url), await v2Headers(url), await paidHeaders(url)]) {
        expect((await send(url, { headers })).status).to.equal(200);
      }
      expect(seen).to.deep.equal(["mpp", "mpp", "x402", "x402", "turnpike", "turnpike"]);
    });

    for (const [order, gate] of [
      ["after", { settle: "after" }],
      ["before", { settle: "before" }],
    ] as const) {
      it(`reports a payment that settles ${order} the handler in Payment-Receipt`, async () => {
        const { url } = await start(gate);
        const challenge = await challengeOf(url);
        const answer = await send(url, { headers: headerOf(await credentialOf(challenge)) });
        expect(answer.status, answer.text).to.equal(200);
        expect(receiptIn(answer)).to.deep.equal({
          method: "evm",
          challengeId: challenge.id,
          reference: `0x${"ab".repeat(32)}`,
          status: "success",
          timestamp: new Date(NOW * 1_000).toISOString().replace(".000Z", "Z"),
          chainId: CHAIN_ID,
        });
        expect(answer.headers).to.not.have.property("payment-response");
        expect(answer.headers).to.not.have.property("www-authenticate");
        expect(answer.headers["cache-control"]).to.include("private");
      });

      it(`sends no receipt with what is no 2xx, of a payment that settles ${order} the handler`, async () => {
        for (const status of [302, 404, 500]) {
          const headers: Record<string, string> = status === 302 ? { Location: "/elsewhere" } : {};
          const { url } = await start(gate, { replay: {} }, () => ({ status, headers }));
          const key = { "Idempotency-Key": `no-receipt-of-status-${status}` };
          const paid = await paying(url, { headers: key });
          for (const answer of [await send(url, { headers: paid }), await send(url, { headers: paid })]) {
            expect([answer.status, receiptIn(answer)]).to.deep.equal([status, undefined]);
          }
        }
      });
    }

    it("takes the credential in Payment-Authorization where the application reads Authorization itself", async () => {
      const { url } = await start({}, { mpp: "Payment-Authorization" });
      const own = { Authorization: "Bearer of-the-application" };
      const challenge = await challengeOf(url, { headers: own });
      expect(challenge.header).to.equal("Payment-Authorization");
      const credential = await credentialOf(challenge);
      const wrong = await send(url, { headers: headerOf(credential) });
      expect([wrong.status, wrong.json.error]).to.deep.equal([402, "PaymentRequired"]);
      const answer = await send(url, { headers: { ...own, ...headerOf(credential, "Payment-Authorization") } });
      expect(answer.status, answer.text).to.equal(200);
    });

    it("leaves Authorization to the application, whatever else it holds", async () => {
      const { url } = await start();
      for (const value of [
        "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
        "Basic dTpw",
        "Paymenty abc",
        'Digest a="1", b="2"',
      ]) {
        const answer = await send(url, { headers: { Authorization: value } });
        expect([answer.status, answer.json.error], value).to.deep.equal([402, "PaymentRequired"]);
      }
      const off = await start({}, { mpp: undefined });
      const credential = headerOf(await credentialOf(await challengeOf(url)));
      expect((await send(off.url, { headers: credential })).json.error).to.equal("PaymentRequired");
    });

    it("says why in the members of RFC 9457, to clients of MPP alone", async () => {
      const { url } = await start();
      const plain = await send(url, { headers: { "Accept-Payment": "evm/charge" } });
      expect(plain.headers["content-type"]).to.equal("application/problem+json");
      expect(plain.json).to.include({ type: "https://paymentauth.org/problems/payment-required", status: 402 });
      expect(plain.json.accepts).to.have.length(1);
      const malformed = await send(url, { headers: { Authorization: "Payment e30" } });
      expect(malformed.json.type).to.equal("https://paymentauth.org/problems/malformed-credential");
      expect(malformed.json.detail).to.equal(malformed.json.message);
      expect(challengesIn(malformed)).to.have.length(1);
      expect((await send(url)).json).to.not.have.property("type");
    });

    it("sells a route of several tokens by one challenge each, the cheapest first", async () => {
      const prices = [{ amount: 700_000n }, { amount: 600_000n, token: SECOND_TOKEN }];
      const pricing = [{ type: "one-time", prices }];
      const { url } = await start({ pricing });
      const challenges = challengesIn(await send(url));
      expect(challenges.map((each) => chargeIn(each).amount)).to.deep.equal(["600000", "700000"]);
      expect(new Set(challenges.map(({ id }) => id)).size).to.equal(2);
      const [, second] = challenges;
      const answer = await send(url, { headers: headerOf(await credentialOf(second as never)) });
      expect(answer.status, answer.text).to.equal(200);
      const settled = facilitator.calls.at(-1)?.body as Settled | undefined;
      expect(settled?.paymentRequirements.asset).to.equal(TOKEN);
    });

    it("keeps all headers of a 402 below 4 KiB, and PAYMENT-REQUIRED payable", async () => {
      const prices = [1, 2, 3, 4, 5, 6].map((n) => ({
        amount: BigInt(n) * 100_000n,
        ...(n > 1 && { token: { ...SECOND_TOKEN, address: `0x${String(n).repeat(40)}` } }),
      }));
      const pricing = [{ type: "one-time", prices }];
      const description = "A report of the day, in as many words as nobody will ever read. ".repeat(40);
      const token = { address: TOKEN, name: "Test USD", version: "1", decimals: 6 };
      const page = { description, page: true };
      for (const gate of [{ description }, { pricing, description }, { pricing }, page]) {
        const { url } = await start(gate, { token });
        const long = `${url}?${"q=a-long-query&".repeat(60)}`;
        for (const each of [url, long]) {
          const { bytes, head } = await headOf(each);
          expect(bytes, each).to.be.below(4_096);
          expect(challengesIn({ headers: head } as never), each).to.not.have.length(0);
          expect(requiredIn({ headers: head } as never).accepts, each).to.not.have.length(0);
        }
      }
    });

    it("warns with the bytes that PAYMENT-REQUIRED may take beside its challenges", async () => {
      const description = `Cut in a test of ${framework}. `.repeat(200);
      const warned: Error[] = [];
      const note = (warning: Error) => warned.push(warning);
      process.on("warning", note);
      const { url } = await start({ description });
      const { headers } = await send(url);
      // Warnings are emitted in a turn of their own.
      await new Promise(setImmediate);
      process.off("warning", note);
      const text = warned.map(({ message }) => message).find((each) => each.startsWith("PAYMENT-REQUIRED"));
      const stated = Number(/may take (\d+) bytes/.exec(text ?? "")?.[1]);
      const sent = String(headers["payment-required"]).length;
      expect(stated).to.be.below(3_072);
      expect(sent).to.be.within(stated - 200, stated);
    });

    it("sells by x402 alone what MPP cannot: prices as used, tokens over Permit2, plain http to other machines", async () => {
      const elsewhere = await start({}, { publicUrl: "http://api.example" });
      expect((await send(elsewhere.url)).headers).to.not.have.property("www-authenticate");
      const tls = await start({}, { publicUrl: "https://api.example" });
      expect(await challengeOf(tls.url)).to.include({ realm: "api.example" });
    });
  });
}

describe("the option mpp", () => {
  it("names the headers that there are", () => {
    const options = { network: "local-31337", payTo: addressOf("treasury"), secret: "s".repeat(32) };
    expect(() => createProvider({ ...options, mpp: "X-Payment" } as never)).to.throw(/mpp.*Payment-Authorization/);
  });
});

interface Settled {
  readonly paymentPayload: { readonly payload: { readonly authorization: { readonly nonce: string } } };
  readonly paymentRequirements: { readonly asset: string };
}

/** The head of an answer as it is on the wire. */
async function headOf(url: string): Promise<{ readonly bytes: number; readonly head: Record<string, string> }> {
  const { hostname, port, pathname, search } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.end(
    `GET ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAccept: text/html\r\nConnection: close\r\n\r\n`,
  );
  const [head = ""] = (await text(socket)).split("\r\n\r\n");
  const lines = head.split("\r\n").slice(1);
  return {
    bytes: head.length + 4,
    head: Object.fromEntries(
      lines.map((line) => [line.split(": ", 1)[0]?.toLowerCase(), line.replace(/^[^:]*: /, "")]),
    ),
  };
}
