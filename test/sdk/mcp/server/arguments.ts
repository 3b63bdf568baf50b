import { inspect } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import { paidTool } from "turnpike/mcp/server";
import { HEADER, type PaymentRequiredWire } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import * as z from "zod";
import { askOf, call, payloadFor, type ServedTools, serveTools, textOf } from "../support/served";

describe("mcp > server > arguments", () => {
  const world = createTestProvider();
  const shared = {
    provider: world.provider,
    serverId: "https://tools.example/mcp",
    pricing: [{ type: "one-time", price: "$0.05" } as const],
  };
  let count = 0;
  const text = z.string();
  /** what each yields is another value for each call, or has no JSON form */
  const schemas = {
    "a default that changes": [z.string().default(() => `${count++}`), undefined, "mine"],
    "the time of the call": [text.transform((value) => ({ value, at: count++ })), "a", "b"],
    "an argument that the schema changes in place": [
      z.any().transform((value: { n?: number }) => Object.assign(value, { n: count++ })),
      { a: 1 },
      { a: 2 },
    ],
    "a Date": [z.coerce.date(), "2026-01-01", "2026-01-02"],
    "a bigint": [z.coerce.bigint(), "12345678901234567890", "12345678901234567891"],
    "a Set": [z.array(text).transform((value) => new Set(value)), ["a"], ["b"]],
    "a Map": [z.record(text, text).transform((value) => new Map(Object.entries(value))), { a: "1" }, { b: "1" }],
    "a URL": [text.transform((value) => new URL(value)), "http://a/", "http://b/"],
    "a function": [text.transform((value) => () => value), "a", "b"],
    "an object with private fields": [text.transform((value) => new Secret(value)), "a", "b"],
  } as const satisfies Record<string, readonly [z.ZodType, unknown, unknown]>;

  function register(server: McpServer): void {
    for (const [i, [schema]] of Object.values(schemas).entries()) {
      paidTool(server, `tool-${i}`, { ...shared, inputSchema: { value: schema as z.ZodType } }, ({ value }) => ({
        content: [{ type: "text", text: inspect(value) }],
      }));
    }
    paidTool(server, "loose", { ...shared, inputSchema: z.looseObject({}) }, (args) => ({
      content: [{ type: "text", text: Object.keys(args).join() }],
    }));
  }

  let served: ServedTools;
  let client: Client;

  before(async () => {
    served = await serveTools(register);
    client = await served.connect();
  });
  after(() => served.close());

  for (const [i, [what, [, sent, other]]] of Object.entries(schemas).entries()) {
    it(`MC9 serves a paid call whose schema yields ${what}, and refuses the payment for other arguments`, async () => {
      const called = { tool: `tool-${i}`, args: sent === undefined ? {} : { value: sent } };
      const asked = await call(client, called);
      const proof = world.pay(askOf(asked).quote as unknown as PaymentRequiredWire)[HEADER.payment];
      for (const payment of [proof, await payloadFor(asked)]) {
        const meta = { "x402/payment": payment };
        const refused = await call(client, { ...called, args: { value: other }, meta });
        expect(askOf(refused).quote).to.include({ error: "InvalidPaymentProof" });
        const result = await call(client, { ...called, meta });
        expect(result.isError, textOf(result)).to.equal(undefined);
        expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
      }
    });
  }

  it("sells one call for its members in any order", async () => {
    const asked = await call(client, { tool: "loose", args: { a: { x: 1, y: 2 }, b: 1 } });
    const meta = { "x402/payment": await payloadFor(asked) };
    const result = await call(client, { tool: "loose", args: { b: 1, a: { y: 2, x: 1 } }, meta });
    expect(textOf(result)).to.equal("b,a");
  });

  /** Connects a client in this process. */
  async function connectHere(server: McpServer): Promise<Client> {
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    await server.connect(theirs);
    const buyer = new Client({ name: "buyer", version: "1.0.0" });
    await buyer.connect(ours);
    return buyer;
  }

  it("MC9 binds what was sent to a tool that is added to a connected server, and by a tool that calls another", async () => {
    const inner = new McpServer({ name: "inner", version: "1.0.0" });
    register(inner);
    const innerClient = await connectHere(inner);
    const outer = new McpServer({ name: "outer", version: "1.0.0" }, { capabilities: { tools: {} } });
    const buyer = await connectHere(outer);
    const inputSchema = { value: z.string().default(() => `${count++}`) };
    paidTool(outer, "tool-0", { ...shared, inputSchema }, async () => {
      const asked = await call(innerClient, { tool: "tool-0", args: { value: "inner" } });
      const meta = { "x402/payment": await payloadFor(asked) };
      return call(innerClient, { tool: "tool-0", args: { value: "inner" }, meta });
    });
    const meta = { "x402/payment": await payloadFor(await call(buyer, { tool: "tool-0" })) };
    expect(textOf(await call(buyer, { tool: "tool-0", meta }))).to.equal("'inner'");
  });
});

class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  get(): string {
    return this.#value;
  }
}
