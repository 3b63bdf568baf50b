/** The agent's client of `@modelcontextprotocol/client` at this project's own paid tools, with a small Facilitator. */
import { createServer } from "node:http";
import { Client, StreamableHTTPClientTransport, type VersionNegotiationMode } from "@modelcontextprotocol/client";
import { acceptedContent, inputRequired } from "@modelcontextprotocol/server";
import { expect } from "chai";
import { memoryClaims, type Provider } from "turnpike/gate";
import { type McpPaymentOptions, receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client/v2";
import { paidTool } from "turnpike/mcp/server/v2";
import * as z from "zod";
import {
  closeServer,
  listen,
  NOW,
  OVER_PERMIT2,
  type SmallFacilitator,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { rejection } from "../../agent/support/rejection";
import { agentFor } from "../../agent/support/world";
import { textOf } from "../support/served";
import { REVISION, type ServedReplicas, serveReplicas } from "../support/served-v2";

const ABC = { name: "quote", arguments: { symbol: "ABC" } };

describe("an agent's client of @modelcontextprotocol/client", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let served: ServedReplicas;
  let runs = 0;
  const open: { close(): Promise<unknown> }[] = [];

  beforeEach(async () => {
    runs = 0;
    facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
    const token = { address: TOKEN, name: "Test USD", version: "1", transferMethod: "permit2" as const };
    provider = testProvider(facilitator, { token, claims: memoryClaims({ warn: false }), replay: {} });
    const shared = {
      provider,
      serverId: "https://tools.example/mcp",
      pricing: [{ type: "one-time", amount: 50_000n }],
    } as const;
    const quote = {
      ...shared,
      inputSchema: z.object({ symbol: z.string() }),
      outputSchema: z.object({ price: z.number() }),
    };
    const confirmed = { ...shared };
    served = await serveReplicas([
      (server) => {
        paidTool(server, "quote", quote, ({ symbol }) => {
          runs++;
          return { content: [{ type: "text", text: `${symbol}: 7` }], structuredContent: { price: 7 } };
        });
        paidTool(server, "confirmed", confirmed, (_args, { mcpReq }) => {
          runs++;
          if (acceptedContent(mcpReq.inputResponses, "ok")) return { content: [{ type: "text", text: "done" }] };
          const requestedSchema = z.object({ ok: z.boolean() });
          return inputRequired({ inputRequests: { ok: inputRequired.elicit({ message: "Sure?", requestedSchema }) } });
        });
      },
    ]);
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
    await served.close();
    await provider.close();
    await facilitator.stop();
  });

  function agentHere() {
    const policy = { perPayment: 100_000n, perDay: 1_000_000n, tokens: [TOKEN], methods: ["permit2"] as const };
    return agentFor("http://127.0.0.1:1", { policy, clock: { nowSec: () => NOW }, sleep: async () => {} });
  }

  function payingBy(client: Client, subject = agentHere(), more: Partial<McpPaymentOptions> = {}) {
    return { subject, paying: wrapMcpClientWithPayment(client, subject.agent, { server: served.url, ...more }) };
  }

  const settles = (): number => facilitator.calls.filter(({ path }) => path === "/settle").length;

  const MODES: Record<string, VersionNegotiationMode> = {
    "the new revision": { pin: REVISION },
    "whichever revision the server has": "auto",
    "a revision before": "legacy",
  };
  for (const [name, mode] of Object.entries(MODES)) {
    it(`pays for a listed tool once in ${name}, and MB8 counts it`, async () => {
      const client = await served.connect(mode);
      const { subject, paying } = payingBy(client);
      expect((await paying.listTools()).tools.map((tool) => tool.name)).to.include("quote");
      const result = await paying.callTool(ABC);
      expect([textOf(result as never), result.structuredContent]).to.deep.equal(["ABC: 7", { price: 7 }]);
      expect(receiptOf(result)).to.include({ amount: 50_000n, resumed: false });
      expect([runs, settles(), (await subject.agent.budget()).spent]).to.deep.equal([1, 1, 50_000n]);
    });
  }

  it("MB2 a call that times out while its payment settles is pending, and the next one gets its result", async () => {
    const { subject, paying } = payingBy(await served.connect());
    facilitator.holds = (path) => path === "/settle";
    let settle = (): void => undefined;
    facilitator.held = new Promise((resolve) => {
      settle = () => resolve(undefined);
    });
    const error = await rejection(paying.callTool(ABC, { timeout: 500 }));
    expect([error.code, error.reason]).to.deep.equal(["PaymentPending", "timeout"]);
    settle();
    const again = await paying.callTool(ABC);
    expect([textOf(again as never), receiptOf(again)?.resumed]).to.deep.equal(["ABC: 7", true]);
    expect(again._meta?.["turnpike/replayed"]).to.equal(true);
    expect([runs, settles(), subject.signed.length]).to.deep.equal([1, 1, 1]);
  });

  it("pays once for a tool that asks for input meanwhile", async () => {
    const mode = { pin: REVISION };
    const client = new Client(
      { name: "buyer", version: "1.0.0" },
      { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
    );
    client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { ok: true } }));
    const { subject, paying } = payingBy(await served.connect(mode, client));
    const result = await paying.callTool({ name: "confirmed" });
    expect(textOf(result as never)).to.equal("done");
    expect([runs, settles(), subject.signed.length]).to.deep.equal([2, 1, 1]);
  });

  it("MB1 pays once for a tool whose input the caller brings by another call", async () => {
    const mode = { pin: REVISION };
    const client = new Client(
      { name: "buyer", version: "1.0.0" },
      {
        versionNegotiation: { mode },
        inputRequired: { autoFulfill: false },
        capabilities: { elicitation: { form: {} } },
      },
    );
    const { subject, paying } = payingBy(await served.connect(mode, client));
    const asked = await paying.callTool({ name: "confirmed" }, { allowInputRequired: true });
    expect(asked).to.include({ resultType: "input_required" });
    expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["signed"]);
    const bringing = { name: "confirmed", inputResponses: { ok: { action: "accept", content: { ok: true } } } };
    const result = await paying.callTool(bringing);
    expect([textOf(result as never), receiptOf(result)?.resumed]).to.deep.equal(["done", true]);
    expect([runs, settles(), subject.signed.length]).to.deep.equal([2, 1, 1]);
  });

  it("signs nothing for a call that bears a payment of its own in a header", async () => {
    const { subject, paying } = payingBy(await served.connect());
    for (const name of ["PAYMENT-SIGNATURE", "x-payment"]) {
      const error = await rejection(paying.callTool(ABC, { headers: { [name]: "e30=" } }));
      expect([error.code, error.message]).to.deep.equal([
        "InvalidRequest",
        `headers["${name}"]: leave it out; the agent pays for the call.`,
      ]);
    }
    expect([subject.signed, runs]).to.deep.equal([[], 0]);
  });

  it("MB4 the limit of the call and of the server hold beside the policy", async () => {
    const client = await served.connect();
    for (const [given, call, reason] of [
      [{ maxAmount: 49_999n }, {}, "max_amount"],
      [{}, { maxAmount: 49_999n }, "max_amount"],
      [{ tools: ["other"] }, {}, "tool"],
    ] as const) {
      const { subject, paying } = payingBy(client, agentHere(), given);
      const error = await rejection(paying.callTool(ABC, call));
      expect([error.code, error.reason, subject.signed]).to.deep.equal(["PolicyRefused", reason, []]);
    }
  });

  it("D7 a redirect of a paid call to another origin gets no call", async () => {
    const { paying: elsewhere } = payingBy(await served.connect());
    await elsewhere.callTool(ABC);
    const seen: string[] = [];
    const thief = createServer((request, response) => {
      seen.push(String(request.method));
      response.writeHead(500).end();
    });
    const stolen = await listen(thief);
    open.push({ close: () => closeServer(thief) });
    const front = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      if (body.includes('"tools/call"')) return void response.writeHead(307, { location: stolen }).end();
      const headers = Object.fromEntries(Object.entries(request.headers).map(([key, value]) => [key, String(value)]));
      const { host: _, "content-length": __, connection: ___, ...sent } = headers;
      const answer = await fetch(served.url, { method: "POST", headers: sent, body });
      response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
      response.end(await answer.text());
    });
    const url = await listen(front);
    open.push({ close: () => closeServer(front) });
    const client = new Client({ name: "buyer", version: "1" }, { versionNegotiation: { mode: { pin: REVISION } } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { redirectPolicy: "follow" }));
    open.push(client);
    const subject = agentHere();
    const paying = wrapMcpClientWithPayment(client, subject.agent, { server: url });
    const error = await rejection(paying.callTool(ABC));
    expect([error.code, error.reason, subject.signed, seen]).to.deep.equal(["PolicyRefused", "redirect", [], []]);
  });
});
