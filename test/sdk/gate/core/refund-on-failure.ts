/** HA25: a payment that has settled before its handler failed is refunded, and its purchase is closed. */
import { createServer, request, type ServerResponse } from "node:http";
import { pipeline, Readable } from "node:stream";
import { expect } from "chai";
import { ConfigError } from "turnpike";
import { type ClaimStore, gated, memoryClaims, type Provider, type ProviderOptions } from "turnpike/gate";
import { nextGate } from "turnpike/gate/next";
import type { AcceptEntryWire, PaymentRequiredWire } from "turnpike/protocol";
import {
  type Answer,
  closeServer,
  headerOf,
  listen,
  ONE_TIME,
  paidHeaders,
  proofOf,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  SUPPORTED,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX } from "../support/frameworks";
import { v1Headers } from "../support/standard";

const REFUNDS_KEY = "tpk_of_this_test";
const PLAN = `0x${"11".repeat(32)}` as const;

const SETTLED = {
  status: 200,
  json: {
    refundId: `0x${"1".repeat(64)}`,
    refundedId: `0x${"2".repeat(64)}`,
    transaction: `0x${"3".repeat(64)}`,
    blockNumber: 9,
    settledAt: 1_800_000_000,
  },
};
const OUTAGE = { status: 503, json: { error: "Unavailable", message: "later" } };

const refundIn = ({ headers }: Answer) => {
  const text = headers["payment-refund"];
  return text && JSON.parse(Buffer.from(String(text), "base64").toString());
};
const facilitatorOf = ({ url, signer }: SmallFacilitator) => ({ url, signers: [signer], refundsKey: REFUNDS_KEY });

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`refunds of failed requests, through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let served: number;
    let next: () => Handled | Promise<Handled>;
    let refunds: { id: string; authorization: string | undefined }[];
    let answered: ReturnType<SmallFacilitator["refund"]> | undefined;
    let url: string;

    const log = console.error;
    beforeEach(async () => {
      console.error = () => undefined;
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      refunds = [];
      answered = undefined;
      const pending = facilitator.refund;
      facilitator.refund = (id, authorization) => {
        refunds.push({ id, authorization });
        return answered ?? pending(id, authorization);
      };
      provider = testProvider(facilitator, { facilitator: facilitatorOf(facilitator), replay: {} });
      served = 0;
      const gate = { pricing: ONE_TIME, refundOnFailure: true, settle: "before" } as never;
      const handle = () => {
        served++;
        return next();
      };
      const unkept = { pricing: ONE_TIME, refundOnFailure: true, settle: "before", replay: false } as never;
      server = await start(provider, [
        { path: "/paid", gate, handle },
        { path: "/unkept", gate: unkept, handle },
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

    const payments = {
      "a native proof": () => paidHeaders(url),
      "a standard payload": async () => v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire),
    };
    for (const [what, pay] of Object.entries(payments)) {
      it(`HA25 ${what} buys one failure, is refunded, and is never served afterwards`, async () => {
        for (const status of [400, 404, 500]) {
          const headers = await pay();
          next = () => ({ status, headers: { "Content-Type": "text/plain" }, body: "it failed" });
          const failed = await send(url, { headers });
          expect([failed.status, failed.text]).to.deep.equal([status, "it failed"]);
          await until(async () => refunds.length === 1);
          const [{ id, authorization } = { id: "", authorization: "" }] = refunds;
          expect(authorization).to.equal(`Bearer ${REFUNDS_KEY}`);
          expect(refundIn(failed)).to.include({ status: "pending", paymentId: id, amount: "500000" });

          next = () => ({ body: "the content" });
          const ran = served;
          const again = await Promise.all(Array.from({ length: 3 }, () => send(url, { headers })));
          for (const answer of again) {
            expect([answer.status, answer.json.error, answer.json.reason]).to.deep.equal([
              ...[402, "PaymentAlreadyUsed", "refund_pending"],
            ]);
          }
          answered = SETTLED;
          expect((await send(url, { headers })).json.reason).to.equal("refunded");
          expect(served, "the handler does not run for it again").to.equal(ran);
          expect([...new Set(refunds.map((each) => each.id))]).to.deep.equal([id]);
          refunds.length = 0;
          answered = undefined;
        }
      });
    }

    it("HA25 refunds what a handler throws, and nothing that is served", async () => {
      next = () => {
        throw new Error("it broke");
      };
      const headers = await paidHeaders(url);
      expect((await send(url, { headers })).status).to.equal(500);
      await until(async () => refunds.length === 1);
      expect((await send(url, { headers })).json.reason).to.equal("refund_pending");
      next = () => ({ status: 302, headers: { Location: "/elsewhere" }, body: "" });
      const fine = await send(url, { headers: await paidHeaders(url) });
      expect([fine.status, refundIn(fine)]).to.deep.equal([302, undefined]);
      next = () => ({ body: "the content" });
      const content = await paidHeaders(url);
      expect((await send(url, { headers: content })).text).to.equal("the content");
      expect((await send(url, { headers: content })).text, "its kept answer").to.equal("the content");
      expect([...new Set(refunds.map(({ id }) => id))]).to.have.length(1);
    });

    it("HA25 twenty copies of a request that fails are one run and one refund", async () => {
      next = () => ({ status: 500, body: "it failed" });
      const headers = await paidHeaders(url);
      const answers = await Promise.all(Array.from({ length: 20 }, () => send(url, { headers })));
      expect(served).to.equal(1);
      expect(answers.filter(({ status }) => status === 500)).to.have.length(1);
      await until(async () => refunds.length > 0);
      expect([...new Set(refunds.map(({ id }) => id))]).to.have.length(1);
    });

    it("HA25 refunds what fails after its client has left", async () => {
      let fail: (error: Error) => void = () => undefined;
      next = () => new Promise((_, reject) => (fail = reject));
      const unkept = `${server.url}${PREFIX}/unkept`;
      const headers = await paidHeaders(unkept);
      const leaving = request(unkept, { headers, agent: false });
      leaving.on("error", () => undefined).end();
      await until(async () => served === 1);
      leaving.destroy();
      await until(async () => (await server.connections()) === 0);
      expect(refunds).to.deep.equal([]);
      fail(new Error("it broke"));
      await until(async () => refunds.length === 1);
      const again = await send(unkept, { headers });
      expect([again.json.reason, served]).to.deep.equal(["refund_pending", 1]);
    });

    it("HA25 asks again after an outage, when the payer does", async () => {
      answered = OUTAGE;
      next = () => ({ status: 500, body: "it failed" });
      const headers = await paidHeaders(url);
      await send(url, { headers });
      await until(async () => refunds.length === 1);
      expect((await send(url, { headers })).json.reason).to.equal("refund_pending");
      answered = SETTLED;
      expect((await send(url, { headers })).json.reason).to.equal("refunded");
      expect(served).to.equal(1);
    });
  });
}

describe("refunds of failed requests", () => {
  let facilitator: SmallFacilitator;
  const providers: Provider[] = [];
  const servers: AdapterServer[] = [];

  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  after(async () => {
    for (const server of servers) await server.stop();
    for (const provider of providers) await provider.close();
    await facilitator.stop();
  });
  const providerOf = (more: ProviderOptions = {}) => {
    const provider = testProvider(facilitator, { facilitator: facilitatorOf(facilitator), ...more });
    providers.push(provider);
    return provider;
  };

  for (const adapter of ["node:http", "fetch"] as const) {
    it(`HA25 nothing is refunded by ${adapter} while the purchase cannot be closed, and the failed answer stays here`, async () => {
      const claims = memoryClaims({ warn: false });
      let isDown = true;
      const failing: ClaimStore = {
        ...claims,
        apply: async (id, act, answer) => {
          if (isDown && act.act === "refund") throw new Error("the store is away");
          return claims.apply(id, act, answer);
        },
      };
      const asked: string[] = [];
      facilitator.refund = (id) => {
        asked.push(id);
        return SETTLED;
      };
      const gate = { pricing: ONE_TIME, refundOnFailure: true } as never;
      const handle = () => ({ status: 500, body: "it failed" });
      const start = ADAPTERS[adapter] as (typeof ADAPTERS)[string];
      const server = await start(providerOf({ claims: failing }), [{ path: "/paid", gate, handle }]);
      servers.push(server);
      const url = `${server.url}${PREFIX}/paid`;
      const headers = await paidHeaders(url);
      // A cut connection is no answer either.
      const answer = await send(url, { headers }).catch(() => undefined);
      expect(answer?.text ?? "").not.to.include("it failed");
      expect(answer && refundIn(answer)).to.equal(undefined);
      expect(asked).to.deep.equal([]);
      isDown = false;
      expect((await send(url, { headers: await paidHeaders(url) })).status).to.equal(500);
      await until(async () => asked.length === 1);
    });
  }

  it("HA25 what destroys its response before the first byte has failed, and nothing later", async () => {
    const asked: string[] = [];
    facilitator.refund = (id) => {
      asked.push(id);
      return SETTLED;
    };
    let handle: (response: ServerResponse) => void = () => undefined;
    const gate = providerOf().paymentGate({ pricing: ONE_TIME, refundOnFailure: true });
    const server = createServer(gated(gate, (_request, response) => handle(response)));
    const url = await listen(server);
    const broken = () =>
      Readable.from([]).on("resume", function (this: Readable) {
        this.destroy(new Error("the upstream broke"));
      });
    const cuts: readonly (typeof handle)[] = [
      (response) => response.destroy(),
      (response) => response.destroy(new Error("it broke")),
      (response) => pipeline(broken(), response, () => undefined),
    ];
    for (const [index, cut] of cuts.entries()) {
      handle = cut;
      const headers = await paidHeaders(url);
      expect(await send(url, { headers }).catch(() => "cut"), `cut ${index}`).to.equal("cut");
      await until(async () => asked.length === index + 1);
    }
    handle = (response) => {
      response.write("a first byte", () => response.destroy(new Error("it broke")));
    };
    const headers = await paidHeaders(url);
    await send(url, { headers }).catch(() => undefined);
    expect((await send(url, { headers })).json.reason).to.equal("already_used");
    expect(asked).to.have.length(cuts.length);
    await closeServer(server);
  });

  it("HA25 what Next.js throws as a redirect is served and not refunded; what it throws as 404 is refunded once", async () => {
    const asked: string[] = [];
    facilitator.refund = (id) => {
      asked.push(id);
      return SETTLED;
    };
    let digest = "NEXT_REDIRECT;replace;/elsewhere;307;";
    const provider = providerOf({ publicUrl: "https://api.example" });
    const handle = nextGate(provider.gate({ pricing: ONE_TIME, refundOnFailure: true }))(() => {
      throw Object.assign(new Error("control flow"), { digest });
    });
    const url = "https://api.example/paid";
    const pay = async () => {
      const { accepts } = (await (await handle(new Request(url))).json()) as PaymentRequiredWire;
      const headers = headerOf(proofOf(accepts[0] as AcceptEntryWire));
      await handle(new Request(url, { headers })).catch(() => undefined);
      return ((await (await handle(new Request(url, { headers }))).json()) as PaymentRequiredWire).reason;
    };
    expect(await pay(), "the redirect was served").to.equal("already_used");
    expect(asked).to.deep.equal([]);
    digest = "NEXT_HTTP_ERROR_FALLBACK;404";
    expect(await pay()).to.equal("refunded");
    expect([...new Set(asked)]).to.have.length(1);
  });

  it("are refused as a setting where they cannot be done", async () => {
    const gateOf = (provider: Provider, more: object) => provider.gate({ pricing: ONE_TIME, ...more } as never);
    const withoutKey = providerOf({ facilitator: { url: facilitator.url, signers: [facilitator.signer] } });
    expect(() => gateOf(withoutKey, { refundOnFailure: true })).to.throw(ConfigError, "TURNPIKE_REFUNDS_KEY");
    expect(() => gateOf(providerOf(), { refundOnFailure: "yes" })).to.throw(ConfigError, "use true");
    const pricing = [{ type: "subscription", plan: PLAN }];
    expect(() =>
      gateOf(providerOf({ rpcUrl: "http://127.0.0.1:1", turnpike: SUPPORTED.turnpike }), {
        pricing,
        refundOnFailure: true,
      }),
    ).to.throw(...[ConfigError, "one-time price"]);
  });
});
