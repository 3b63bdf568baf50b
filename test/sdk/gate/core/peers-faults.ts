import { expect } from "chai";
import { ConfigError } from "turnpike";
import type { Provider } from "turnpike/gate";
import {
  FRAMEWORKS,
  type Framework,
  headerOf,
  ONE_TIME,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { requiredIn, v1Headers, v2Headers } from "../support/standard";

// Faults found in the reference packages of x402.
for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`faults of other x402 servers, not shared through ${framework}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;
    let url: string;
    const AMOUNTS = [1n, 29n, 100_001n, 1_150_000n, 4_350_000n, 10n ** 17n + 1n, 10n ** 30n];

    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
      provider = testProvider(facilitator);
      const priced = AMOUNTS.map((amount) => ({
        path: `/costs-${amount}`,
        gate: { pricing: [{ type: "one-time", amount }] as const },
      }));
      server = await FRAMEWORKS[framework](provider, [{ path: "/report", gate: { pricing: ONE_TIME } }, ...priced]);
      url = `${server.url}/report`;
    });
    afterEach(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    const settlements = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
    const entryOf = async () => {
      const [entry] = (await quoteOf(url)).accepts;
      if (!entry) throw new TypeError("nothing is offered");
      return entry;
    };
    const headersOf = {
      1: async () => v1Headers(await entryOf()),
      2: async () => v2Headers(url),
    } as const;

    for (const version of [1, 2] as const) {
      it(`C1 a replayed payload of version ${version} runs the handler once and settles once`, async () => {
        const headers = await headersOf[version]();
        const at_once = await Promise.all(Array.from({ length: 20 }, () => send(url, { headers })));
        const later = await Promise.all(Array.from({ length: 5 }, () => send(url, { headers })));
        const granted = [...at_once, ...later].filter(({ status }) => status === 200);
        expect([granted.length, server.served.get("/report"), settlements()]).to.deep.equal([1, 1, 1]);
      });
    }

    it("C1b a payment is not settled again through the other version's header", async () => {
      const first = await headersOf[1]();
      expect((await send(url, { headers: first })).status).to.equal(200);
      const { authorization } = JSON.parse(Buffer.from(first["X-PAYMENT"], "base64").toString()).payload;
      const second = await v2Headers(url, {}, { nonce: authorization.nonce });
      expect((await send(url, { headers: second })).json.reason).to.equal("already_used");
      expect(settlements()).to.equal(1);
    });

    it("prices are the configured digits in every field that contains them", async () => {
      for (const amount of AMOUNTS) {
        const answer = await send(`${server.url}/costs-${amount}`);
        const [entry] = answer.json.accepts;
        const [accepted] = requiredIn(answer).accepts;
        expect([entry.amount, entry.maxAmountRequired, accepted?.amount]).to.deep.equal(Array(3).fill(`${amount}`));
      }
      for (const amount of [0.1, 1.15e6 + 0.5, Number.NaN, 2 ** 53, -1n, "0.1"]) {
        const pricing = [{ type: "one-time", amount: amount as bigint }] as const;
        expect(() => provider.gate({ pricing }), String(amount)).to.throw(ConfigError);
      }
    });

    it("a Facilitator that is down at the start or returns garbage does not stop the provider", async () => {
      const faults: unknown[] = [];
      const note = (fault: unknown) => faults.push(fault);
      process.on("unhandledRejection", note);
      try {
        for (const mode of ["down", "broken"] as const) {
          facilitator.mode = mode;
          const other = testProvider(facilitator);
          await other.ready();
          const started = await FRAMEWORKS[framework](other, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
          expect((await send(`${started.url}/report`)).status).to.equal(402);
          await started.stop();
          await other.close();
        }
        expect((await send(url)).status).to.equal(402);
      } finally {
        process.off("unhandledRejection", note);
      }
      expect(faults).to.deep.equal([]);
    });

    it("C8 a parser's message is never returned", async () => {
      const texts = [
        "{",
        "not json",
        '{"x402Version":1,}',
        "[1,2",
        "\u0000",
        '{"x402Version":1,"payload":null}',
        "null",
      ];
      const values = ["%%%", "====", ...texts.map((text) => Buffer.from(text).toString("base64"))];
      for (const name of ["X-PAYMENT", "PAYMENT-SIGNATURE", "SIGN-IN-WITH-X"]) {
        for (const value of values) {
          const answer = await send(url, { headers: { [name]: value } });
          expect(answer.status, `${name}: ${value}`).to.equal(402);
          expect(answer.text).to.not.match(
            /unexpected|position|token '|JSON\.parse|SyntaxError|ZodError|expected \w+,|at \w+ \(/i,
          );
        }
      }
      expect(facilitator.calls).to.deep.equal([]);
    });

    it("D1 an outage never returns a 402, for any payment kind, and the same payment serves afterwards", async () => {
      const native = async () => headerOf(proofOf(await entryOf()));
      for (const make of [headersOf[1], headersOf[2], native] as (() => Promise<Record<string, string>>)[]) {
        for (const mode of ["down", "broken"] as const) {
          facilitator.mode = "valid";
          const headers = await make();
          facilitator.mode = mode;
          const answer = await send(url, { headers });
          expect([answer.status, answer.json.error]).to.deep.equal([503, "Unavailable"]);
          expect(answer.headers).to.have.property("retry-after");
          expect(answer.headers).to.not.have.property("payment-required");
          facilitator.mode = "valid";
          expect((await send(url, { headers })).status).to.equal(200);
        }
      }
    });
  });
}
