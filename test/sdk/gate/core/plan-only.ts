import { expect } from "chai";
import { createAgent, walletFromKey } from "turnpike/agent";
import type { GateOptions } from "turnpike/gate";
import {
  type AcceptEntryWire,
  encodeJsonHeader,
  type Hex,
  keccakText,
  paymentRequiredSchema,
  signDigest,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { addressOf, FRAMEWORKS, type Framework, keyOf, send, type TestServer, TOKEN } from "../../../support/gate";

const PLAN = `0x${"5a".repeat(32)}` as const;
const SMALL = `0x${"5b".repeat(32)}` as const;
const PRICE = 5_000_000n;

interface V2Required {
  readonly accepts: Record<string, unknown>[];
  readonly extensions: Record<
    string,
    { readonly info: Record<string, unknown>; readonly supportedChains?: { chainId: string }[] }
  >;
}

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`HB6 plans in a 402 of ${framework}`, () => {
    const test = createTestProvider();
    let server: TestServer;

    before(async () => {
      test.addPlan({ planId: PLAN, amount: PRICE });
      test.addPlan({ planId: SMALL, amount: 2_000_000n });
      const plan = { type: "subscription", plan: PLAN } as const;
      const small = { type: "subscription", plan: SMALL } as const;
      const one = { type: "one-time", amount: 500_000 } as const;
      const same = { type: "one-time", amount: Number(PRICE) } as const;
      const gates: Record<string, GateOptions<never>> = {
        "/only": { pricing: [plan] },
        "/plans": { pricing: [plan, small] },
        "/mixed": { pricing: [plan, small, one] },
        "/same": { pricing: [plan, same] },
        "/singly": { pricing: [plan], sellSingleAtPlanPrice: true },
        "/body-only": { pricing: [plan], x402v2: false },
      };
      const routes = Object.entries(gates).map(([path, gate]) => ({ path, gate }));
      server = await FRAMEWORKS[framework](test.provider, routes);
      await test.provider.ready();
    });
    after(() => server.stop());

    const required = async (path: string) => {
      const answer = await send(`${server.url}${path}`);
      expect(answer.status, answer.text).to.equal(402);
      const header = answer.headers["payment-required"];
      const v2 = header && (JSON.parse(Buffer.from(String(header), "base64").toString("utf8")) as V2Required);
      return { body: paymentRequiredSchema.parse(answer.json), raw: answer.json, v2: v2 as V2Required };
    };

    it("HB6 sends plans alone as entries of the scheme `subscription`, in header and body", async () => {
      const { body, raw, v2 } = await required("/only");
      expect(v2.accepts).to.have.length(1);
      expect(v2.accepts[0]).to.deep.include({ scheme: "subscription", amount: PRICE.toString(), extra: {} });
      const supported = v2.extensions["sign-in-with-x"]?.supportedChains?.map(({ chainId }) => chainId);
      expect(supported).to.include(v2.accepts[0]?.network);
      expect(body.accepts).to.have.length(1);
      expect(raw.accepts[0]).to.deep.include({
        scheme: "subscription",
        amount: PRICE.toString(),
        maxAmountRequired: PRICE.toString(),
        resource: `${server.url}/only`,
        extra: { kind: "subscription" },
      });
      expect(raw.accepts[0].hoodlayer).to.deep.include({ planId: PLAN, subscriptionScheme: true });
      expect(raw.accepts[0].memo).to.be.a("string");
      expect(body.plans?.map(({ planId }) => planId)).to.deep.equal([PLAN]);
    });

    it("HB6 sends every plan, the cheapest first, and fits the header with its sign-in", async () => {
      const { body, v2 } = await required(`/plans?q=${"x".repeat(400)}`);
      expect(body.accepts.map(({ amount }) => amount)).to.deep.equal([2_000_000n, PRICE]);
      expect(v2.accepts.length).to.be.within(1, 2);
      expect(v2.extensions).to.have.property("sign-in-with-x");
    });

    it("HB6 sends one-time entries alone where there are any, each naming the first plan", async () => {
      const { body, raw, v2 } = await required("/mixed");
      expect(raw.accepts).to.have.length(1);
      expect(raw.accepts[0]).to.deep.include({ scheme: "exact", amount: "500000" });
      expect(raw.accepts[0].hoodlayer).to.deep.include({ planId: SMALL, subscriptionScheme: true });
      expect(raw.accepts[0].extra).to.have.all.keys("name", "version");
      expect(body.plans?.map(({ planId }) => planId)).to.deep.equal([SMALL, PLAN]);
      expect(v2.accepts.map(({ scheme, amount }) => [scheme, amount])).to.deep.equal([["exact", "500000"]]);
    });

    it("HB6 names no plan in an entry at the plan's own price", async () => {
      const { raw } = await required("/same");
      expect(raw.accepts).to.have.length(1);
      expect(raw.accepts[0].hoodlayer).to.have.all.keys("facilitator");
    });

    it("HB6 sends a plan's price as `exact` only where `sellSingleAtPlanPrice` asks for it", async () => {
      for (const path of ["/only", "/plans", "/mixed", "/body-only"]) {
        const { raw, v2 } = await required(path);
        const entries = [...raw.accepts, ...(v2?.accepts ?? [])] as { scheme: string; amount: string }[];
        const exact = entries.filter(({ scheme }) => scheme === "exact").map(({ amount }) => amount);
        expect(
          exact.every((amount) => amount === "500000"),
          path,
        ).to.equal(true);
      }
      const { raw, v2 } = await required("/singly");
      expect(raw.accepts[0]).to.deep.include({ scheme: "exact", amount: PRICE.toString() });
      expect(raw.accepts[0].extra).to.include({ kind: "subscription" });
      expect(v2.accepts[0]).to.deep.include({ scheme: "exact", amount: PRICE.toString() });
    });

    it("HB6 settles no version 1 payload at a plan's price", async () => {
      const { raw } = await required("/only");
      const answer = await send(`${server.url}/only`, { headers: paid(raw.accepts[0], test.clock.nowSec()) });
      expect([answer.status, answer.json.reason]).to.deep.equal([402, "terms"]);
    });

    it("HB6 quotes the same form again and again", async () => {
      for (const path of ["/only", "/mixed"]) {
        const [first, second] = [await required(path), await required(path)];
        const shape = ({ raw }: typeof first) => JSON.stringify(raw).replaceAll(/"memo":"[^"]*"/g, "");
        expect(shape(second)).to.equal(shape(first));
        expect(second.raw.accepts[0].memo).not.to.equal(first.raw.accepts[0].memo);
      }
    });

    it("HB6 the agent finds the plans by body and by header alone, and pays no plan by a transfer", async () => {
      const agent = agentOf();
      for (const [path, plans] of [
        ["/only", [PLAN]],
        ["/mixed", [SMALL, PLAN]],
        ["/singly", [PLAN]],
      ] as const) {
        for (const method of ["GET", "HEAD"]) {
          const quote = await agent.quote(`${server.url}${path}`, { method });
          const found = quote.options.flatMap((option) => (option.kind === "one-time" ? [] : [option.planId]));
          expect(found, `${method} ${path}`).to.deep.equal(plans);
        }
      }
      for (const path of ["/only", "/singly"]) {
        const refusal = await agent.pay(`${server.url}${path}`).catch((error: { reason?: string }) => error.reason);
        expect(refusal, path).to.equal("subscription_only");
      }
      await agent.close();
    });
  });
}

/** Builds a version 1 payload that pays an entry unchanged. */
function paid(entry: AcceptEntryWire, nowSec: number): Record<string, string> {
  const [from, token] = [addressOf("payer"), entry.token as Hex];
  const transfer = {
    from,
    to: entry.payTo as Hex,
    value: BigInt(entry.amount ?? "0"),
    validAfter: 0n,
    validBefore: BigInt(nowSec + 300),
    nonce: keccakText("a nonce of this test"),
  };
  const domain = { chainId: 31_337, token: token as never, name: "Test USD", version: "1" };
  const signature = signDigest(typedDataDigest(transferTypedData(domain, transfer as never)), keyOf("payer"));
  const authorization = Object.fromEntries(Object.entries(transfer).map(([name, value]) => [name, String(value)]));
  const payload = { signature, authorization };
  return { "X-PAYMENT": encodeJsonHeader({ x402Version: 1, scheme: "exact", network: entry.network, payload }) };
}

function agentOf() {
  return createAgent({
    wallet: walletFromKey(keyOf("payer")),
    policy: { perPayment: 10_000_000n, perDay: 10_000_000n, tokens: [TOKEN] },
    facilitators: ["http://127.0.0.1:1"],
  });
}
