import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect } from "chai";
import { type McpPaymentOptions, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { type Hex, parseSubscriptionId } from "turnpike/protocol";
import { rejection } from "../../agent/support/rejection";
import { PRICE, type Relay, startRelay } from "../../agent/support/relay";
import { closeAll, serve } from "../../agent/support/servers";
import { type AgentUnderTest, addressOf, agentFor, CHAIN_ID, Chain, NETWORK } from "../../agent/support/world";
import { connectInMemory, serveOverHttp, specServer } from "../support/spec-server";

const KEY = "turnpike/subscription";
const report = { name: "report", arguments: {} };

describe("an agent's MCP client with subscriptions", () => {
  let relay: Relay;
  let planId: Hex;
  let subject: AgentUnderTest;
  const open: { close(): Promise<void> }[] = [];

  beforeEach(async () => {
    relay = await startRelay();
    planId = await relay.createPlan();
    await relay.fund(addressOf("payer"));
    subject = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
    });
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
    await closeAll();
  });

  /** A server that sells by a plan alone, and asks as this project's servers do. @param refuse the code of every ask */
  function planServer({ refuse }: { readonly refuse?: string } = {}) {
    const ask = (error: string) => {
      const plan = { planId, amount: PRICE.toString(), interval: 2_592_000, token: relay.addresses.token };
      const entry = {
        scheme: "subscription",
        network: NETWORK,
        token: relay.addresses.token,
        amount: PRICE.toString(),
        payTo: addressOf("treasury"),
        hoodlayer: { planId, subscriptionScheme: true, facilitator: relay.url },
      };
      const quote = { version: "1", accepts: [entry], plans: [plan], error, message: "Subscribe." };
      const required = { x402Version: 2, error: "Subscribe.", resource: { url: "mcp://tool/report" }, accepts: [] };
      return {
        isError: true,
        content: [{ type: "text", text: "Subscribe." }],
        structuredContent: required,
        _meta: { "turnpike/payment-required": quote },
      };
    };
    const ids: Hex[] = [];
    const server = specServer(new Chain(), {
      answer(meta) {
        const parsed = parseSubscriptionId(meta[KEY] as string | undefined);
        if (parsed) ids.push(parsed.idHash);
        if (!parsed || refuse !== undefined) return ask(refuse ?? "PaymentRequired");
        return { content: [{ type: "text", text: "report" }] };
      },
    });
    return Object.assign(server, { ids });
  }

  async function clientOf(server: ReturnType<typeof planServer>, options: Partial<McpPaymentOptions> = {}) {
    const client = await connectInMemory(server);
    open.push(client);
    return wrapMcpClientWithPayment(client, subject.agent, { server: "reports", ...options });
  }

  it("uses one that is recorded for the server, and pays nothing", async () => {
    const { idHash } = await subject.agent.subscribe({ planId, origins: ["stdio:reports"] });
    const server = planServer();
    const result = await (await clientOf(server)).callTool(report);
    expect([result.content, server.ids]).to.deep.equal([[{ type: "text", text: "report" }], [idHash]]);
    expect(await subject.agent.payments()).to.deep.equal([]);
  });

  it("subscribes to a plan that the user has named for the server, once, and uses it from then on", async () => {
    const server = planServer();
    const client = await clientOf(server, { subscribe: { plans: [planId] } });
    await client.callTool(report);
    await client.callTool(report);
    const subscriptions = await subject.agent.list();
    expect(subscriptions.map(({ origins }) => origins)).to.deep.equal([["stdio:reports"]]);
    expect(server.ids).to.deep.equal(Array(2).fill(subscriptions[0]?.idHash));
  });

  it("MB6 sends no id to a server that names a stranger's plan, and emits which origin is unknown", async () => {
    await subject.agent.subscribe({ planId, origins: ["stdio:reports"] });
    const server = planServer();
    const other = await clientOf(server, { server: "stranger" });
    expect((await rejection(other.callTool(report))).reason).to.equal("subscription_only");
    expect(server.metas.map((meta) => meta[KEY])).to.deep.equal([undefined]);
    const unknown = subject.events.filter(({ type }) => type === "subscription.origin_unknown");
    expect(unknown).to.have.length(1);
  });

  it("D7 sends no id to another origin, also where the transport follows redirects", async () => {
    await subject.agent.subscribe({ planId, origins: ["https://reports.test"] });
    const stranger = await serve(() => ({ status: 200 }));
    const server = planServer();
    const http = await serveOverHttp(server);
    let ids = 0;
    const front: typeof fetch = async (_url, init) => {
      if (!String(init?.body).includes(KEY)) return fetch(http.url, init);
      ids++;
      // With `redirect: "follow"` the platform's fetch sends the body on, also over plain HTTP.
      if (init?.redirect !== "manual") return fetch(`${stranger.url}/steal`, init);
      return new Response(null, { status: 307, headers: { location: `${stranger.url}/steal` } });
    };
    const client = new Client({ name: "test", version: "1" });
    open.push(client, http);
    const transport = new StreamableHTTPClientTransport(new URL("https://reports.test/mcp"), {
      fetch: front,
      redirectPolicy: "follow",
    });
    await client.connect(transport as Parameters<Client["connect"]>[0]);
    const paying = wrapMcpClientWithPayment(client, subject.agent, { server: "https://reports.test/mcp" });
    const error = await rejection(paying.callTool(report));
    expect([error.code, error.reason, ids, stranger.seen]).to.deep.equal(["PolicyRefused", "redirect", 1, []]);
  });

  it("MB6 sends no id over plain HTTP, also to an origin that is recorded", async () => {
    const server = planServer();
    const http = await serveOverHttp(server);
    const client = new Client({ name: "test", version: "1" });
    open.push(client, http);
    await client.connect(new StreamableHTTPClientTransport(new URL(http.url)) as Parameters<Client["connect"]>[0]);
    await subject.agent.subscribe({ planId, origins: [http.url] });
    const options = { server: http.url, subscribe: { plans: [planId] } };
    const paying = wrapMcpClientWithPayment(client, subject.agent, options);
    expect((await rejection(paying.callTool(report))).reason).to.equal("subscription_only");
    expect(server.metas.map((meta) => meta[KEY])).to.deep.equal([undefined]);
  });

  it("MB6 a client that is connected elsewhere than its options say sends nothing", async () => {
    const server = planServer();
    const http = await serveOverHttp(server);
    const client = new Client({ name: "test", version: "1" });
    open.push(client, http);
    await client.connect(new StreamableHTTPClientTransport(new URL(http.url)) as Parameters<Client["connect"]>[0]);
    await subject.agent.subscribe({ planId, origins: ["stdio:reports", "https://reports.test"] });
    for (const named of ["reports", "https://reports.test/mcp", `${http.url}/other`]) {
      const paying = wrapMcpClientWithPayment(client, subject.agent, { server: named });
      expect((await rejection(paying.callTool(report))).code).to.equal("ConfigError");
    }
    expect(server.metas).to.deep.equal([]);
  });

  it("MB4 a subscription whose cap is reached stays a refusal, with the server's code", async () => {
    await subject.agent.subscribe({ planId, origins: ["stdio:reports"] });
    const error = await rejection((await clientOf(planServer({ refuse: "AllowanceExhausted" }))).callTool(report));
    expect([error.code, error.reason]).to.deep.equal(["PolicyRefused", "AllowanceExhausted"]);
  });

  it("MB4 subscribes to nothing that the policy or the user's list does not allow", async () => {
    const server = planServer();
    const strict = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: PRICE - 1n, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
    });
    const client = await connectInMemory(server);
    open.push(client);
    for (const [agent, plan] of [
      [strict.agent, planId],
      [subject.agent, `0x${"77".repeat(32)}`],
    ] as const) {
      const paying = wrapMcpClientWithPayment(client, agent, { server: "reports", subscribe: { plans: [plan] } });
      expect((await rejection(paying.callTool(report))).reason).to.equal("subscription_only");
    }
    // The root of an agent's own secrets is sent to nobody.
    const signed = [...strict.signed, ...subject.signed].filter((type) => type !== "TurnpikeRoot");
    expect([signed, server.ids]).to.deep.equal([[], []]);
  });

  it("names a plan id that is none", async () => {
    expect((await rejection(clientOf(planServer(), { subscribe: { plans: ["0x12"] } }))).code).to.equal("ConfigError");
  });
});
