import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import { type PaidToolExtra, paidTool } from "turnpike/mcp/server";
import { encodeJsonHeader, HEADER } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { type SmallFacilitator, startSmallFacilitator, testProvider } from "../../../support/gate";
import { askOf, call, paying, type ServedTools, serveTools, textOf } from "../support/served";

const SERVER = "https://tools.example/mcp";

describe("mcp > server > subscriptions, metering and upto", () => {
  const world = createTestProvider({ publicUrl: SERVER });
  const { planId } = world.addPlan({});
  const plan = { type: "subscription", plan: planId } as const;
  const shared = { provider: world.provider, serverId: SERVER };
  const planned = { ...shared, pricing: [plan, { type: "one-time", price: "$0.05" } as const] };
  const metered = { ...shared, pricing: [plan], metered: true };
  const upto = { ...shared, pricing: [{ type: "upto", max: "$0.50" } as const] };
  let seen: PaidToolExtra | undefined;
  let charges: readonly string[] = [];
  let mayFail = false;

  function register(server: McpServer): void {
    paidTool(server, "planned", planned, (_args, extra) => {
      seen = extra;
      return { content: [{ type: "text", text: extra.payment.kind }] };
    });
    paidTool(server, "metered", metered, async (_args, { payment }) => {
      const { remaining } = await payment.deduct(400_000n);
      return { content: [{ type: "text", text: `${remaining}` }] };
    });
    paidTool(server, "upto", upto, (_args, { payment }) => {
      for (const amount of charges) payment.charge(amount);
      return { isError: mayFail, content: [{ type: "text", text: "tokens" }] };
    });
  }

  let served: ServedTools;
  let client: Client;

  before(async () => {
    served = await serveTools(register);
    client = await served.connect();
  });
  after(() => served.close());

  const subscribed = (maxOverage = 0n) => {
    const { id } = world.subscribe({ planId, maxOverage });
    return { id, meta: { "turnpike/subscription": id } };
  };

  it("serves a subscriber, and a one-time payment of the same tool", async () => {
    const { meta } = subscribed();
    expect(textOf(await call(client, { tool: "planned", meta }))).to.equal("subscription");
    const once = await paying(client, { tool: "planned" });
    expect(textOf(await call(client, { tool: "planned", meta: once }))).to.equal("one-time");
  });

  it("MC5 shows a subscription's secret id neither to the handler nor in a result", async () => {
    const { id, meta } = subscribed();
    const result = await call(client, { tool: "planned", meta: { ...meta, trace: 7 } });
    expect(seen?._meta).to.deep.equal({ trace: 7 });
    expect(JSON.stringify(result)).to.not.include(id);
    world.change(id, { cancelled: true });
    const refused = await call(client, { tool: "planned", meta });
    expect(askOf(refused).quote).to.include({ error: "SubscriptionNotActive" });
    expect(JSON.stringify(refused)).to.not.include(id);
  });

  it("MC7 lists the plans, and asks no wallet to sign in to a host that is no host", async () => {
    const { required, quote } = askOf(await call(client, { tool: "metered" }));
    expect(quote.plans).to.have.length(1);
    expect(required.extensions).to.have.property("hoodlayer");
    expect(required.extensions).to.not.have.property("sign-in-with-x");
  });

  it("charges a metered call to the allowance, and asks when it is spent", async () => {
    const { id, meta } = subscribed(800_000n);
    expect(textOf(await call(client, { tool: "metered", meta }))).to.equal("400000");
    expect(textOf(await call(client, { tool: "metered", meta }))).to.equal("0");
    const exhausted = await call(client, { tool: "metered", meta });
    expect(exhausted.isError).to.equal(true);
    expect(askOf(exhausted).quote).to.include({ error: "AllowanceExhausted" });
    expect(world.spentOf(id)).to.equal(800_000n);
  });

  const uptoMeta = async () => {
    const { required } = askOf(await call(client, { tool: "upto" }));
    const headers = world.payUpto(encodeJsonHeader(required));
    return { "x402/payment": headers[HEADER.paymentSignatureV2] };
  };

  it("charges what the handler charges of a maximum, and names it in the receipt", async () => {
    charges = ["$0.30", "$0.12"];
    const result = await call(client, { tool: "upto", meta: await uptoMeta() });
    expect(textOf(result)).to.equal("tokens");
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true, amount: "120000" });
  });

  it("MC3 charges nothing of a maximum where the tool fails, or charges more than it may", async () => {
    charges = ["$0.10"];
    mayFail = true;
    const meta = await uptoMeta();
    const failed = await call(client, { tool: "upto", meta });
    mayFail = false;
    expect(failed.isError).to.equal(true);
    expect(failed._meta ?? {}).to.not.have.property("x402/payment-response");
    charges = ["$0.60"];
    const more = await call(client, { tool: "upto", meta: await uptoMeta() });
    expect(more.isError).to.equal(true);
    expect(textOf(more)).to.not.include("tokens");
    expect(more._meta ?? {}).to.not.have.property("x402/payment-response");
  });

  describe("over http", () => {
    const id = "a subscription's secret id";
    let facilitator: SmallFacilitator;

    before(async () => {
      facilitator = await startSmallFacilitator();
    });
    after(() => facilitator.stop());

    /** @returns what a session answers to a call that carries the id */
    async function answered(settings: { publicUrl?: string; trustProxy?: boolean }, headers: Record<string, string>) {
      const provider = testProvider(facilitator, settings);
      const options = { provider, serverId: SERVER, pricing: [{ type: "one-time", amount: 1n } as const] };
      const tools = await serveTools((server) => {
        paidTool(server, "a", options, () => ({ content: [] }));
      });
      try {
        const session = await tools.connect(headers);
        return await call(session, { tool: "a", meta: { "turnpike/subscription": id } });
      } finally {
        await tools.close();
        await provider.close();
      }
    }

    const refused: readonly [string, { publicUrl?: string; trustProxy?: boolean }, Record<string, string>][] = [
      ["plain http, without settings", {}, {}],
      ["plain http, whatever a client claims of a proxy", {}, { "x-forwarded-proto": "https" }],
      ["a public address that is http", { publicUrl: "http://tools.example" }, {}],
      ["a proxy that took the call over http", { trustProxy: true }, { "x-forwarded-proto": "http" }],
      ["a proxy that names no protocol", { trustProxy: true }, {}],
    ];
    for (const [what, settings, headers] of refused) {
      it(`MC6 refuses a subscription's secret id over ${what}, and does not look at it`, async () => {
        const result = await answered(settings, headers);
        expect(result._meta?.["turnpike/error"]).to.deep.include({ error: "InvalidRequest" });
        expect(textOf(result)).to.include("is accepted over stdio or https alone");
        expect(JSON.stringify(result)).to.not.include(id);
      });
    }

    const accepted: typeof refused = [
      ["a public address that is https", { publicUrl: SERVER }, {}],
      ["a proxy that took the call over https", { trustProxy: true }, { "x-forwarded-proto": "https, http" }],
    ];
    for (const [what, settings, headers] of accepted) {
      it(`reads a subscription's secret id over ${what}`, async () => {
        const result = await answered(settings, headers);
        // Judged, and found to be none.
        expect(askOf(result).quote.error).to.equal("SubscriptionNotActive");
      });
    }
  });

  it("refuses an id that is no text", async () => {
    const result = await call(client, { tool: "planned", meta: { "turnpike/subscription": { id: 1 } } });
    expect(result._meta?.["turnpike/error"]).to.deep.include({ error: "InvalidRequest" });
  });
});
