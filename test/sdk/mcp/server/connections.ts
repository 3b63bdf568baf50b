import { randomUUID } from "node:crypto";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { EventStore } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import { paidTool } from "turnpike/mcp/server";
import { createTestProvider } from "turnpike/testing";
import { RESERVING, startSmallFacilitator, testProvider } from "../../../support/gate";
import { call, paying, payloadFor, type ServeOptions, serveTools, textOf } from "../support/served";

/** Keeps a session's events, as servers do whose clients may resume a stream. */
class Events implements EventStore {
  readonly messages: { readonly id: string; readonly streamId: string; readonly message: JSONRPCMessage }[] = [];

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = `${this.messages.length}`;
    this.messages.push({ id, streamId, message });
    return id;
  }

  async replayEventsAfter(lastId: string, { send }: { send: (id: string, message: JSONRPCMessage) => Promise<void> }) {
    const { streamId = "" } = this.messages[Number(lastId)] ?? {};
    const later = this.messages.slice(Number(lastId) + 1).filter((event) => event.streamId === streamId);
    for (const { id, message } of later) await send(id, message);
    return streamId;
  }
}

const ACCEPT = { "content-type": "application/json", accept: "application/json, text/event-stream" };

const bodyOf = (method: string, params: object) => JSON.stringify({ jsonrpc: "2.0", id: 77, method, params });

describe("mcp > server > connections", () => {
  const { provider } = createTestProvider();
  const price = { type: "one-time", price: "$0.05" } as const;
  const slow = { provider, serverId: "https://tools.example/mcp", pricing: [price] };
  let runs = 0;
  /** of the tool, which returns once this is resolved */
  let released: Promise<void> = Promise.resolve();
  let onRun: () => void = () => undefined;
  let fails = false;
  let onBroken: () => void = () => undefined;

  function register(server: McpServer): void {
    paidTool(server, "slow", slow, async () => {
      runs++;
      onRun();
      await released;
      if (fails) throw new Error("midway");
      return { content: [{ type: "text", text: "done" }] };
    });
  }

  beforeEach(() => {
    runs = 0;
    released = Promise.resolve();
    onRun = () => undefined;
  });

  /** Calls the tool on a client's session, and closes the connection while the tool runs. */
  async function callAndLeave(url: string, client: Client, meta: object, version = "2025-06-18"): Promise<void> {
    const leaving = new AbortController();
    onRun = () => leaving.abort();
    released = new Promise((resolve) => {
      onBroken = resolve;
    });
    const sessionId = (client.transport as { sessionId?: string }).sessionId ?? "";
    const headers = { ...ACCEPT, "mcp-session-id": sessionId, "mcp-protocol-version": version };
    const body = bodyOf("tools/call", { name: "slow", arguments: {}, _meta: meta });
    const left = fetch(url, { method: "POST", headers, body, signal: leaving.signal }).then((it) => it.text());
    expect(await left.catch((error: Error) => error.name)).to.equal("AbortError");
    await released;
  }

  /** Repeats a call until the first one has ended. */
  async function repeated(client: Client, meta: Record<string, unknown>) {
    let result = await call(client, { tool: "slow", meta });
    for (let i = 0; i < 200 && result._meta?.["turnpike/error"] !== undefined; i++) {
      result = await call(client, { tool: "slow", meta });
    }
    return result;
  }

  const kinds: Record<string, ServeOptions> = {
    "a stream of events": {},
    "one JSON response": { enableJsonResponse: true },
    "a stream of events that this client cannot resume": { eventStore: new Events() },
  };
  for (const [kind, options] of Object.entries(kinds)) {
    it(`MC10 keeps the result of ${kind} whose connection breaks, and charges when the call is repeated`, async () => {
      const served = await serveTools(register, { ...options, onBroken: () => onBroken() });
      try {
        const client = await served.connect();
        const meta = await paying(client, { tool: "slow" });
        await callAndLeave(served.url, client, meta);
        const result = await repeated(await served.connect(), meta);
        expect(textOf(result)).to.equal("done");
        expect(result._meta).to.deep.include({ "turnpike/replayed": true });
        expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
        expect(runs).to.equal(1);
        const stored = JSON.stringify((options.eventStore as Events | undefined)?.messages ?? []);
        expect(stored.match(/"done"/g) ?? [], "what nobody had paid for").to.have.length(options.eventStore ? 1 : 0);
      } finally {
        await served.close();
      }
    });
  }

  it("MC10 sends progress while a payment settles, and keeps the result for a client that gives up meanwhile", async () => {
    const facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    let settle = (): void => undefined;
    facilitator.holds = (path) => path === "/settle";
    facilitator.held = new Promise((resolve) => {
      settle = () => resolve(undefined);
    });
    const small = testProvider(facilitator, { replay: {} });
    const sold = { ...slow, provider: small, pricing: [{ type: "one-time", amount: 50_000n }] } as const;
    const served = await serveTools((server) => {
      paidTool(server, "slow", sold, () => {
        runs++;
        return { content: [{ type: "text", text: "done" }] };
      });
    });
    try {
      const client = await served.connect();
      const meta = await paying(client, { tool: "slow" });
      const leaving = new AbortController();
      const left = call(client, { tool: "slow", meta, signal: leaving.signal, onprogress: () => leaving.abort() });
      expect(await left.catch((error: Error) => error)).to.be.instanceOf(Error);
      settle();
      const result = await repeated(await served.connect(), meta);
      expect(textOf(result)).to.equal("done");
      expect(result._meta).to.deep.include({ "turnpike/replayed": true });
      expect([runs, facilitator.calls.filter(({ path }) => path === "/settle").length]).to.deep.equal([1, 1]);
    } finally {
      await served.close();
      await small.close();
      await facilitator.stop();
    }
  });

  it("HA20 gives the payment back at once where the tool fails after its client has left", async () => {
    const served = await serveTools(register, { onBroken: () => onBroken() });
    try {
      const client = await served.connect();
      const meta = await paying(client, { tool: "slow" });
      fails = true;
      await callAndLeave(served.url, client, meta);
      fails = false;
      const result = await repeated(await served.connect(), meta);
      expect(textOf(result)).to.equal("done");
      expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
      expect(runs).to.equal(2);
    } finally {
      fails = false;
      await served.close();
    }
  });

  it("charges for a result that the client can fetch by resuming its stream", async () => {
    const eventStore = new Events();
    const served = await serveTools(register, { eventStore, onBroken: () => onBroken() });
    try {
      const client = await served.connect();
      const meta = await paying(client, { tool: "slow" });
      await callAndLeave(served.url, client, meta, "2025-11-25");
      const again = await repeated(client, meta);
      expect(again._meta).to.deep.include({ "turnpike/replayed": true });
      expect(runs).to.equal(1);
      const texts = eventStore.messages.map(({ message }) => JSON.stringify(message));
      const results = texts.filter((text) => text.includes('"done"') && !text.includes("turnpike/replayed"));
      expect(results).to.have.length(1);
      expect(results[0]).to.include('"success":true');
    } finally {
      await served.close();
    }
  });

  it("MC10 keeps the result where a platform of the Fetch standard cancels the response", async () => {
    const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
    const server = new McpServer({ name: "tools", version: "1.0.0" });
    register(server);
    await server.connect(transport);
    const post = (method: string, params: object) => {
      const session = { "mcp-session-id": transport.sessionId ?? "" };
      const headers = { ...ACCEPT, ...(transport.sessionId && session) };
      return transport.handleRequest(
        new Request("https://tools.example/mcp", { method: "POST", headers, body: bodyOf(method, params) }),
      );
    };
    const clientInfo = { name: "buyer", version: "1.0.0" };
    await post("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    const resultOf = async (response: Response) => {
      const data = /^data: (.*)$/m.exec(await response.text())?.[1] ?? "{}";
      return (JSON.parse(data) as { result: Parameters<typeof textOf>[0] }).result;
    };
    const asked = await resultOf(await post("tools/call", { name: "slow", arguments: {} }));
    const params = { name: "slow", arguments: {}, _meta: { "x402/payment": await payloadFor(asked) } };
    let release = (): void => undefined;
    released = new Promise((resolve) => {
      release = resolve;
    });
    const running = new Promise<void>((resolve) => {
      onRun = resolve;
    });
    const response = await post("tools/call", params);
    await running;
    await response.body?.cancel();
    release();
    let result = await resultOf(await post("tools/call", params));
    for (let i = 0; i < 200 && result._meta?.["turnpike/error"] !== undefined; i++) {
      result = await resultOf(await post("tools/call", params));
    }
    expect(textOf(result)).to.equal("done");
    expect(result._meta).to.deep.include({ "turnpike/replayed": true });
    expect(runs).to.equal(1);
  });
});
