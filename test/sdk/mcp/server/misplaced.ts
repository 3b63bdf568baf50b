/** Payments that come in other places than `_meta`: in a header of the HTTP request, or among the tool's arguments. */
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import { paidTool } from "turnpike/mcp/server";
import { encodeJsonHeader, HEADER, type JsonObject, type PaymentRequiredWire } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import * as z from "zod";
import { askIn, type CallResult } from "../../../../sdk/src/mcp/wire";
import { askOf, call, payloadFor, type ServedTools, serveTools, textOf } from "../support/served";

describe("mcp > server > a payment in another place", () => {
  const world = createTestProvider();
  let runs = 0;
  let served: ServedTools;
  let client: Client;

  function register(server: McpServer): void {
    const options = {
      provider: world.provider,
      serverId: "https://tools.example/mcp",
      pricing: [{ type: "one-time", price: "$0.05" } as const],
    };
    paidTool(server, "quote", options, () => {
      runs++;
      return { content: [{ type: "text", text: "done" }] };
    });
    paidTool(server, "long", options, () => {
      runs++;
      return { content: [{ type: "text", text: "long ".repeat(400_000) }] };
    });
    paidTool(server, "loose", { ...options, inputSchema: z.looseObject({}) }, () => {
      runs++;
      return { content: [{ type: "text", text: "done" }] };
    });
  }

  before(async () => {
    served = await serveTools(register);
    client = await served.connect();
  });
  after(() => served.close());
  beforeEach(() => {
    runs = 0;
  });

  const callOf = (id: number, meta?: object) => ({
    jsonrpc: "2.0",
    id,
    method: "tools/call",
    params: { name: "quote", arguments: {}, ...(meta && { _meta: meta }) },
  });

  /** Posts to the client's session as it is. @returns the results, in the order of the calls */
  async function post(body: object, headers: Record<string, string>): Promise<readonly CallResult[]> {
    const { sessionId = "" } = client.transport as { sessionId?: string };
    const response = await fetch(served.url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-session-id": sessionId,
        "mcp-protocol-version": "2025-03-26",
        ...headers,
      },
      body: JSON.stringify(body),
    });
    const messages = [...(await response.text()).matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
    return messages.sort((a, b) => a.id - b.id).map(({ result }) => result);
  }

  const refusalIn = ({ _meta }: CallResult = {}) => _meta?.["turnpike/error"] as JsonObject | undefined;
  const isServed = (result: CallResult | undefined) => result?.isError === undefined && result?._meta !== undefined;

  const version2 = async () => encodeJsonHeader(await payloadFor(await call(client, {})));
  const proof = async () => {
    const { quote } = askOf(await call(client, {}));
    return String(world.pay(quote as unknown as PaymentRequiredWire)[HEADER.payment]);
  };

  for (const [name, payment] of [
    ["PAYMENT-SIGNATURE", version2],
    ["X-PAYMENT", proof],
  ] as const) {
    it(`pays one call by ${name} of its HTTP request, once`, async () => {
      const headers = { [name]: await payment() };
      const [result] = await post(callOf(1), headers);
      expect(isServed(result), JSON.stringify(result)).to.equal(true);
      expect(result?._meta?.["x402/payment-response"]).to.include({ success: true });
      await post(callOf(2), headers);
      expect(runs).to.equal(1);
    });

    it(`refuses ${name} on a batch, runs nothing and uses no payment`, async () => {
      const headers = { [name]: await payment() };
      const results = await post([callOf(1), callOf(2)], headers);
      expect(results).to.have.length(2);
      for (const result of results) {
        expect(refusalIn(result)).to.include({ error: "AmbiguousCredentials" });
        expect(refusalIn(result)?.message).to.include("several messages").and.include('_meta["x402/payment"]');
      }
      expect(runs).to.equal(0);
      const [single] = await post([callOf(3)], headers);
      expect(isServed(single), "a batch of one is one call").to.equal(true);
    });
  }

  it("takes a payment in _meta and header as one where it is the same, and refuses two", async () => {
    const [first, second] = [await payloadFor(await call(client, {})), await payloadFor(await call(client, {}))];
    const reordered = Object.fromEntries(Object.entries(first).reverse());
    const twice = await post(callOf(1, { "x402/payment": first }), { "PAYMENT-SIGNATURE": encodeJsonHeader(second) });
    expect(refusalIn(twice[0])).to.include({ error: "AmbiguousCredentials" });
    expect(refusalIn(twice[0])?.message).to.include("pays twice");
    expect(runs).to.equal(0);
    const [same] = await post(callOf(2, { "x402/payment": first }), {
      "PAYMENT-SIGNATURE": encodeJsonHeader(reordered),
    });
    expect(isServed(same), JSON.stringify(same)).to.equal(true);
    expect(runs).to.equal(1);
  });

  it("says where a payment belongs that is in another header, and uses it there", async () => {
    const payment = await version2();
    const elsewhere: Record<string, string>[] = [
      { authorization: `Bearer ${payment}` },
      { "X-PAYMENT-SIGNATURE": payment },
    ];
    for (const headers of elsewhere) {
      const [result] = await post(callOf(1), headers);
      const [name = ""] = Object.keys(headers);
      const { message } = askOf(result as never).quote;
      expect(message).to.match(new RegExp(`the payload is in ${name}, .*; send it in _meta\\["x402/payment"\\]`, "i"));
    }
    expect(runs).to.equal(0);
    const [paid] = await post(callOf(2), { "PAYMENT-SIGNATURE": payment, authorization: "Bearer a.token.of-a-server" });
    expect(isServed(paid), JSON.stringify(paid)).to.equal(true);
    const [free] = await post(callOf(3), { authorization: "Bearer a.token.of-a-server" });
    expect(askOf(free as never).quote).to.include({ error: "PaymentRequired" });
  });

  it("says where a payment belongs that is among the arguments, and uses it there", async () => {
    const payment = await payloadFor(await call(client, { tool: "loose" }));
    for (const args of [
      { payment },
      { "x402/payment": encodeJsonHeader(payment) },
      { _meta: { "x402/payment": payment } },
    ]) {
      const result = await call(client, { tool: "loose", args });
      expect(askIn(result as CallResult)?.required.accepts, "a 402 that can be paid").to.have.length(1);
      expect(JSON.parse(textOf(result)).error)
        .to.include('_meta["x402/payment"]')
        .and.include("argument");
      expect(askOf(result).quote.message).to.include('_meta["x402/payment"]');
    }
    expect(runs).to.equal(0);
    expect((await call(client, { tool: "loose", meta: { "x402/payment": payment } })).isError).to.equal(undefined);
    const plain = await call(client, { tool: "loose", args: { city: "Oslo", nested: { memo: "a", payer: "b" } } });
    expect(askOf(plain).quote.message).to.not.include("argument");
  });

  it("returns the kept result of a streamed call that is repeated, and says of one that is too long that none is kept", async () => {
    const streamed = async (name: string, meta: object) => {
      const seen: { type: string; result?: unknown }[] = [];
      const params = { name, arguments: {}, _meta: { ...meta } };
      for await (const message of client.experimental.tasks.callToolStream(params)) seen.push(message);
      expect(seen.map(({ type }) => type)).to.deep.equal(["result"]);
      return seen[0]?.result as Awaited<ReturnType<typeof call>>;
    };
    for (const [tool, isKept] of [
      ["quote", true],
      ["long", false],
    ] as const) {
      const payload = await payloadFor(await call(client, { tool }));
      const extensions = { "payment-identifier": { info: { id: `a_streamed_call_of_${tool}` } } };
      const meta = { "x402/payment": { ...payload, extensions } };
      const first = await streamed(tool, meta);
      expect(first.isError, textOf(first)).to.equal(undefined);
      const again = await streamed(tool, meta);
      if (isKept) expect([textOf(again), again._meta?.["turnpike/replayed"]]).to.deep.equal([textOf(first), true]);
      else expect(askOf(again).quote.message).to.include("its answer is not available");
    }
    expect(runs).to.equal(2);
  });

  it("charges nothing for a streamed call that asks for a task, and serves its payment without", async () => {
    const meta = { "x402/payment": await payloadFor(await call(client, {})) };
    const seen = [];
    const params = { name: "quote", arguments: {}, _meta: meta };
    const stream = client.experimental.tasks.callToolStream(params, undefined, { task: { ttl: 1_000 } });
    for await (const message of stream) seen.push(message.type);
    expect(seen).to.deep.equal(["error"]);
    expect(runs).to.equal(0);
    const results = [];
    for await (const message of client.experimental.tasks.callToolStream(params)) results.push(message);
    expect(results.map(({ type }) => type)).to.deep.equal(["result"]);
    expect(runs).to.equal(1);
  });
});
