import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { HEADER, paymentRequiredSchema } from "turnpike/protocol";
import {
  addressOf,
  FRAMEWORKS,
  type Framework,
  headerOf,
  NOW,
  ONE_TIME,
  PAY_TO,
  paidHeaders,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  TOKEN,
  testProvider,
} from "../../../support/gate";

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`one-time payments through ${framework}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;
    let fails = 0;

    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
      provider = testProvider(facilitator);
      fails = 0;
      server = await FRAMEWORKS[framework](provider, [
        { path: "/report", gate: { pricing: ONE_TIME } },
        { path: "/dear", gate: { pricing: [{ type: "one-time", amount: 9_000_000n }] } },
        {
          path: "/flaky",
          gate: { pricing: ONE_TIME },
          handle: () => (fails-- > 0 ? { status: 503, body: "{}" } : { status: 200 }),
        },
        {
          path: "/throws",
          gate: { pricing: ONE_TIME },
          handle: () => {
            if (fails-- > 0) throw new RangeError("handler broke");
            return {};
          },
        },
        {
          path: "/public",
          gate: { pricing: ONE_TIME },
          handle: () => ({ headers: { "Cache-Control": "public, max-age=60" } }),
        },
        { path: "/missing", gate: { pricing: ONE_TIME }, handle: () => ({ status: 404, body: "{}" }) },
      ]);
    });
    afterEach(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    it("answers an unpaid request with 402 and terms that native and stock v1 clients read", async () => {
      const answer = await send(`${server.url}/report?q=1`);
      expect(answer.status).to.equal(402);
      expect(answer.headers["content-type"]).to.match(/^application\/json/);
      expect(paymentRequiredSchema.safeParse(answer.json).success).to.equal(true);
      expect(answer.json).to.include({ version: "1", x402Version: 1, error: "PaymentRequired" });
      expect(answer.json.message).to.be.a("string");
      expect(answer.json.accepts).to.have.length(1);
      const [entry] = answer.json.accepts;
      expect(entry).to.deep.include({
        scheme: "exact",
        network: "local-31337",
        token: TOKEN,
        amount: "500000",
        payTo: PAY_TO,
        hoodlayer: { facilitator: facilitator.url },
        maxAmountRequired: "500000",
        asset: TOKEN,
        resource: `${server.url}/report?q=1`,
        extra: { name: "Test USD", version: "1", paymentFlow: "upfront" },
      });
      expect(entry).to.not.have.property("outputSchema");
      expect(server.served.size).to.equal(0);
    });

    it("sends x402 version 2 clients the same terms in PAYMENT-REQUIRED", async () => {
      const answer = await send(`${server.url}/report`);
      const header = answer.headers[HEADER.paymentRequiredV2.toLowerCase()] as string;
      expect(header.length).to.be.at.most(3 * 1_024);
      const required = JSON.parse(Buffer.from(header, "base64").toString("utf8"));
      expect(required.x402Version).to.equal(2);
      expect(required.resource.url).to.equal(`${server.url}/report`);
      expect(required.accepts[0]).to.deep.include({
        network: "eip155:31337",
        amount: "500000",
        asset: TOKEN,
        payTo: PAY_TO,
      });
      expect(required.accepts[0].extra.memo).to.equal(answer.json.accepts[0].memo);
    });

    it("serves the paid retry and returns the transaction", async () => {
      const answer = await send(`${server.url}/report`, { headers: await paidHeaders(`${server.url}/report`) });
      expect(answer.status).to.equal(200);
      expect(answer.json).to.deep.equal({ kind: "one-time", payer: addressOf("payer") });
      const receipt = JSON.parse(
        Buffer.from(answer.headers["x-payment-response"] as string, "base64").toString("utf8"),
      );
      expect(receipt).to.include({ success: true, transaction: `0x${"cd".repeat(32)}`, payer: addressOf("payer") });
      expect(facilitator.calls.map(({ path }) => path)).to.deep.equal(["/proofs/verify"]);
    });

    it("C1 grants one of many parallel requests with one proof", async () => {
      const headers = await paidHeaders(`${server.url}/report`);
      const answers = await Promise.all(Array.from({ length: 20 }, () => send(`${server.url}/report`, { headers })));
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).to.have.length(1);
      expect(statuses.filter((status) => status === 402 || status === 409)).to.have.length(19);
      for (const { status, json, headers: answered } of answers) {
        if (status === 402) expect(json).to.include({ error: "PaymentAlreadyUsed", reason: "already_used" });
        if (status === 409) expect(answered["retry-after"]).to.match(/^[1-9]/);
      }
      expect(server.served.get("/report")).to.equal(1);
    });

    it("grants both of two payers of one memo", async () => {
      const [entry] = (await quoteOf(`${server.url}/report`)).accepts;
      for (const payer of ["first", "second"]) {
        const headers = headerOf(proofOf(entry as never, { payer: addressOf(payer) }));
        expect((await send(`${server.url}/report`, { headers })).status).to.equal(200);
        expect((await send(`${server.url}/report`, { headers })).json.reason).to.equal("already_used");
      }
    });

    it("C2 refuses a proof on another route, query, method, chain or token, with a new quote", async () => {
      const [entry] = (await quoteOf(`${server.url}/report?a=1&b=2`)).accepts;
      const headers = headerOf(proofOf(entry as never));
      const elsewhere: [string, string, object][] = [
        ["GET", "/dear", headers],
        ["GET", "/report", headers],
        ["GET", "/report?b=2&a=1", headers],
        ["GET", "/report?a=1&b=2&c=3", headers],
        ["POST", "/report?a=1&b=2", headers],
        ["GET", "/report?a=1&b=2", headerOf(proofOf(entry as never, { network: "local-31338" }))],
        ["GET", "/report?a=1&b=2", headerOf(proofOf(entry as never, { network: "base-mainnet" }))],
        ["GET", "/report?a=1&b=2", headerOf(proofOf(entry as never, { token: addressOf("decoy token") }))],
        ["GET", "/report?a=1&b=2", headerOf(proofOf(entry as never, { payTo: addressOf("other payee") }))],
        ["GET", "/report?a=1&b=2", headerOf(proofOf(entry as never, { amount: 499_999n }))],
      ];
      for (const [method, path, sent] of elsewhere) {
        const answer = await send(`${server.url}${path}`, { method, headers: sent as Record<string, string> });
        expect(answer.status, `${method} ${path}`).to.equal(402);
        expect(answer.json.error).to.equal("InvalidPaymentProof");
        expect(answer.json.accepts[0].memo).to.not.equal((entry as { memo: string }).memo);
      }
      expect(server.served.size).to.equal(0);
      expect((await send(`${server.url}/report?a=1&b=2`, { headers })).status).to.equal(200);
    });

    it("C3 refuses a memo that is edited, swapped or expired", async () => {
      const [entry] = (await quoteOf(`${server.url}/report`)).accepts;
      const [other] = (await quoteOf(`${server.url}/dear`)).accepts;
      const memo = (entry as { memo: string }).memo;
      const [ref, keyId, expiry, mac] = memo.split(".");
      const edited = [
        `${ref}.${keyId}.${Number(expiry) + 1}.${mac}`,
        `${(other as { memo: string }).memo.split(".")[0]}.${keyId}.${expiry}.${mac}`,
        (other as { memo: string }).memo,
        `${ref}.${keyId}.${expiry}.AAAAAAAAAAAAAAAAAAAAAA`,
        `${ref}.other.${expiry}.${mac}`,
        "free",
      ];
      for (const memo of edited) {
        const answer = await send(`${server.url}/report`, { headers: headerOf(proofOf(entry as never, { memo })) });
        expect(answer.json, memo).to.include({ error: "InvalidPaymentProof", reason: "memo" });
      }
      const late = headerOf(proofOf(entry as never, { settledAt: NOW + 601 }));
      expect((await send(`${server.url}/report`, { headers: late })).json.reason).to.equal("memo_expired");
      const lapsed = headerOf(proofOf(entry as never, { settledAt: NOW - 604_801, expiresAt: NOW - 1 }));
      expect((await send(`${server.url}/report`, { headers: lapsed })).json.reason).to.equal("expired");
    });

    it("C17 refuses proofs of a Facilitator that is unknown or claims to be a trusted one", async () => {
      const [entry] = (await quoteOf(`${server.url}/report`)).accepts;
      const unknown = headerOf(proofOf(entry as never, { signedBy: "mallory" }));
      expect((await send(`${server.url}/report`, { headers: unknown })).json.reason).to.equal("facilitator");
      const impostor = headerOf(
        proofOf(entry as never, { signedBy: "mallory", facilitator: addressOf("facilitator") }),
      );
      expect((await send(`${server.url}/report`, { headers: impostor })).json.reason).to.equal("signature");
      expect(facilitator.calls).to.have.length(0);
    });

    for (const path of ["/flaky", "/throws"]) {
      it(`C14 accepts the same proof again after the handler of ${path} failed, three times`, async () => {
        const headers = await paidHeaders(`${server.url}${path}`);
        fails = 3;
        for (let i = 0; i < 3; i++)
          expect((await send(`${server.url}${path}`, { headers })).status).to.be.at.least(500);
        expect((await send(`${server.url}${path}`, { headers })).status).to.equal(200);
        expect((await send(`${server.url}${path}`, { headers })).json.reason).to.equal("already_used");
      });

      it(`C14 does not run a failing handler of ${path} without limit`, async () => {
        const headers = await paidHeaders(`${server.url}${path}`);
        fails = 100;
        for (let i = 0; i < 4; i++)
          expect((await send(`${server.url}${path}`, { headers })).status).to.be.at.least(500);
        expect((await send(`${server.url}${path}`, { headers })).json.reason).to.equal("already_used");
      });
    }

    it("uses a payment when the handler returns 404", async () => {
      const headers = await paidHeaders(`${server.url}/missing`);
      expect((await send(`${server.url}/missing`, { headers })).status).to.equal(404);
      expect((await send(`${server.url}/missing`, { headers })).json.reason).to.equal("already_used");
    });

    it("C15 marks paid responses private, even if the handler sets otherwise, and 402 no-store", async () => {
      const unpaid = await send(`${server.url}/public`);
      expect(unpaid.headers["cache-control"]).to.equal("no-store");
      expect(unpaid.headers.vary).to.include("X-PAYMENT");
      const paid = await send(`${server.url}/public`, { headers: await paidHeaders(`${server.url}/public`) });
      expect(paid.status).to.equal(200);
      expect(paid.headers["cache-control"]).to.equal("private, no-store");
      expect(paid.headers.vary).to.include("X-PAYMENT, PAYMENT-SIGNATURE, X-Service-Sub");
    });

    it("C16 sets CORS on 402, on errors and on grants, and answers a preflight without the handler", async () => {
      const preflight = await send(`${server.url}/report`, {
        method: "OPTIONS",
        headers: { Origin: "https://app.example" },
      });
      expect(preflight.status).to.equal(204);
      for (const name of [
        "X-PAYMENT",
        "PAYMENT-SIGNATURE",
        "X-Service-Sub",
        "Idempotency-Key",
        "Access-Control-Expose-Headers",
      ]) {
        expect(preflight.headers["access-control-allow-headers"]).to.include(name);
      }
      const headers = await paidHeaders(`${server.url}/report`);
      const answers = [
        await send(`${server.url}/report`),
        await send(`${server.url}/report`, { headers: { "X-PAYMENT": "a, b" } }),
        await send(`${server.url}/report`, { headers }),
      ];
      expect(answers.map(({ status }) => status)).to.deep.equal([402, 400, 200]);
      for (const { headers: answered } of answers) {
        expect(answered["access-control-allow-origin"]).to.equal("*");
        for (const name of ["X-PAYMENT-RESPONSE", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE"]) {
          expect(answered["access-control-expose-headers"]).to.include(name);
        }
      }
      expect(server.served.get("/report")).to.equal(1);
    });

    it("C7 refuses duplicate, joined and doubled credentials with 400", async () => {
      const { "X-PAYMENT": proof } = await paidHeaders(`${server.url}/report`);
      const both = Buffer.from(JSON.stringify({ version: "1", x402Version: 1 })).toString("base64");
      const ambiguous: Record<string, string | string[]>[] = [
        { "X-PAYMENT": [proof, proof] },
        { "X-PAYMENT": `${proof},${proof}` },
        { "X-PAYMENT": proof, "PAYMENT-SIGNATURE": both },
        { "X-PAYMENT": proof, "PAYMENT-SIGNATURE": Buffer.from('{"version":"1"}').toString("base64") },
        { "X-Service-Sub": [`0x${"11".repeat(52)}`, `0x${"22".repeat(52)}`] },
        { "X-PAYMENT": both },
        { "X-PAYMENT": "A".repeat(8_193) },
      ];
      for (const headers of ambiguous) {
        const answer = await send(`${server.url}/report`, { headers });
        expect(answer.status, JSON.stringify(headers).slice(0, 60)).to.equal(400);
        expect(answer.json.error).to.equal("AmbiguousCredentials");
      }
      expect((await send(`${server.url}/report`, { headers: { "X-PAYMENT": proof } })).status).to.equal(200);
    });

    it("C8 answers hostile encodings with 402 in bounded time", async () => {
      const { "X-PAYMENT": proof } = await paidHeaders(`${server.url}/report`);
      const b64 = (text: string | Buffer) => Buffer.from(text).toString("base64");
      const wire = Buffer.from(proof, "base64").toString("utf8");
      const hostile = [
        "",
        "null",
        "%%%",
        b64("null"),
        b64("[]"),
        b64("{}"),
        b64(Buffer.from([0xff, 0xfe, 0x7b])),
        b64(`\ufeff${wire}`),
        b64(wire.replace('"version":"1"', '"version":"1","version":"1"')),
        b64(wire.replace('"version":"1"', '"version":"1","__proto__":{"x":1}')),
        b64(wire.replace('"memo":"', '"memo":"\\u0000')),
        b64("[".repeat(2_000)),
        `${proof.slice(0, -4)}====`,
        b64(wire.replace('"amount":"500000"', '"amount":"5e5"')),
        b64(wire.replace('"amount":"500000"', '"amount":500000')),
        b64(wire.replace('"amount":"500000"', '"amount":"-1"')),
      ];
      for (const value of hostile) {
        const startedMs = performance.now();
        const answer = await send(`${server.url}/report`, { headers: { "X-PAYMENT": value } });
        expect(answer.status, value.slice(0, 40)).to.equal(402);
        expect(performance.now() - startedMs).to.be.below(30_000);
      }
      expect(server.served.size).to.equal(0);
    });
  });
}
