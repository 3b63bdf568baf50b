import { inspect } from "node:util";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import { type PaidToolExtra, type PaidToolOptions, paidTool } from "turnpike/mcp/server";
import { encodeJsonHeader, HEADER, type PaymentRequiredWire } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import * as z from "zod";
import { exactPayload } from "../../gate/support/standard";
import { askOf, call, paying, payloadFor, type ServedTools, serveTools, textOf } from "../support/served";

const PRICE = { type: "one-time", price: "$0.05" } as const;

describe("mcp > server > one-time", () => {
  const world = createTestProvider();
  const { provider } = world;
  const runs: string[] = [];
  /** of the tool `gated` */
  let mayBeServed: Promise<boolean> = Promise.resolve(true);
  let onAsked = (): void => undefined;
  /** of the tool `slow` */
  let released: Promise<unknown> = Promise.resolve();
  let onRun: (extra: PaidToolExtra) => void = () => undefined;
  /** of the tool `fails` */
  let failure: "isError" | "throw" | "no JSON" | undefined;

  const shared = { provider, serverId: "https://tools.example/mcp", pricing: [PRICE] };
  const symbol = { symbol: z.string(), days: z.number().default(1) };
  const quote: PaidToolOptions<typeof symbol> = { ...shared, description: "A share's price", inputSchema: symbol };
  const report = { ...shared, inputSchema: symbol, outputSchema: { price: z.number() } };
  const slow = { ...shared };
  const fails = { ...shared };
  const gated = {
    ...shared,
    authorize: () => {
      onAsked();
      return mayBeServed;
    },
  };
  const other = { ...quote, serverId: "https://other.example/mcp" };

  function register(server: McpServer): void {
    paidTool(server, "quote", quote, ({ symbol, days }, { payment }) => {
      runs.push(`quote ${symbol} ${days}`);
      return { content: [{ type: "text", text: `${symbol} ${days} ${payment.kind}` }] };
    });
    paidTool(server, "copy", { ...quote }, async () => {
      runs.push("copy");
      return { content: [] };
    });
    paidTool(server, "report", report, ({ symbol }) => {
      runs.push(`report ${symbol}`);
      const structuredContent = symbol === "BAD" ? { price: "none" } : { price: 7 };
      return { content: [], structuredContent } as never;
    });
    paidTool(server, "slow", slow, async (_args, extra) => {
      runs.push("slow");
      onRun(extra);
      await released;
      return { content: [{ type: "text", text: "done" }] };
    });
    paidTool(server, "fails", fails, async () => {
      runs.push("fails");
      if (failure === "throw") throw new Error("the source is down");
      if (failure === "no JSON") return { content: [{ type: "text", text: "x" }], size: 1n } as never;
      return { isError: failure === "isError", content: [{ type: "text", text: "as returned" }] };
    });
    paidTool(server, "gated", gated, () => {
      runs.push("gated");
      return { content: [] };
    });
  }

  let served: ServedTools;
  let elsewhere: ServedTools;
  let client: Client;

  before(async () => {
    served = await serveTools(register);
    elsewhere = await serveTools((server) => {
      paidTool(server, "quote", other, () => {
        runs.push("other");
        return { content: [] };
      });
    });
    client = await served.connect();
  });
  beforeEach(() => {
    runs.length = 0;
    failure = undefined;
  });
  after(async () => {
    await served.close();
    await elsewhere.close();
  });

  const ABC = { tool: "quote", args: { symbol: "ABC" } };

  it("asks for the price in every form that clients read, and runs nothing", async () => {
    const result = await call(client, ABC);
    expect(result.isError).to.equal(true);
    expect(result.structuredContent).to.deep.equal(JSON.parse(textOf(result)));
    expect(result.structuredContent).to.deep.equal(result._meta?.["x402/error"]);
    const { required, quote } = askOf(result);
    expect(required).to.deep.include({ x402Version: 2, error: "PaymentRequired" });
    expect(required.resource).to.deep.include({ url: "mcp://tool/quote", description: "A share's price" });
    expect(required.accepts[0]).to.deep.include({ scheme: "exact", amount: "50000", network: "eip155:31337" });
    expect(quote).to.deep.include({ version: "1", error: "PaymentRequired" });
    expect(runs).to.deep.equal([]);
  });

  const forms = {
    "a payload as an object": async () => ({ "x402/payment": await payloadFor(await call(client, ABC)) }),
    "a payload as base64": async () => ({
      "x402/payment": encodeJsonHeader(await payloadFor(await call(client, ABC))),
    }),
    "a payload of version 1": async () => {
      const { accepts } = askOf(await call(client, ABC)).quote as unknown as PaymentRequiredWire;
      const [entry] = accepts;
      const payload = await exactPayload({ to: entry?.payTo ?? "", value: BigInt(entry?.amount ?? 0) });
      const text = { x402Version: 1, scheme: "exact", network: entry?.network, payload };
      return { "x402.payment": encodeJsonHeader(text) };
    },
    "a proof of the Facilitator": async () => {
      const { quote } = askOf(await call(client, ABC));
      return { "x402/payment": world.pay(quote as unknown as PaymentRequiredWire)[HEADER.payment] };
    },
  };
  for (const [form, meta] of Object.entries(forms)) {
    it(`S2 serves a call that is paid by ${form}, and returns the receipt`, async () => {
      const result = await call(client, { ...ABC, meta: await meta() });
      expect(result.isError, textOf(result)).to.equal(undefined);
      expect(textOf(result)).to.equal("ABC 1 one-time");
      expect(result._meta?.["x402/payment-response"]).to.include({ success: true, network: "eip155:31337" });
      expect(result._meta?.["x402.payment-response"]).to.include({ success: true, network: "local-31337" });
      expect(runs).to.deep.equal(["quote ABC 1"]);
    });
  }

  const repeatable = {
    "a payload as stock clients send it": forms["a payload as an object"],
    "a payload with a payment-identifier": async () => {
      const info = { id: "one-purchase-of-mine" };
      const payload = await payloadFor(await call(client, ABC));
      return { "x402/payment": { ...payload, extensions: { "payment-identifier": { info } } } };
    },
    "a proof of the Facilitator": forms["a proof of the Facilitator"],
  };
  for (const [form, metaOf] of Object.entries(repeatable)) {
    it(`MC1 runs the tool once for ${form}, and returns its result however often the call is repeated`, async () => {
      const meta = await metaOf();
      const first = await call(client, { ...ABC, meta });
      const again = await call(await served.connect(), { ...ABC, meta });
      expect(again.content).to.deep.equal(first.content);
      expect(again._meta).to.deep.equal({ ...first._meta, "turnpike/replayed": true });
      expect(runs).to.deep.equal(["quote ABC 1"]);
    });
  }

  it("MC1 runs the tool once for a payment that somebody copies from the chain, and keeps its result from them", async () => {
    const paid = await payloadFor(await call(client, ABC));
    expect(textOf(await call(client, { ...ABC, meta: { "x402/payment": paid } }))).to.equal("ABC 1 one-time");
    // The chain shows what was signed, and not the quote's memo.
    const copied = { ...(await payloadFor(await call(client, ABC))), payload: paid.payload };
    const again = await call(client, { ...ABC, meta: { "x402/payment": copied } });
    expect(askOf(again).quote).to.include({ error: "PaymentAlreadyUsed" });
    expect(runs).to.deep.equal(["quote ABC 1"]);
  });

  it("MC1 runs the tool once for one payment that is sent many times at once", async () => {
    const meta = await paying(client, { tool: "slow" });
    let release = (): void => undefined;
    released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const running = new Promise<void>((resolve) => {
      onRun = () => resolve();
    });
    const first = call(client, { tool: "slow", meta });
    await running;
    const others = await Promise.all([1, 2, 3].map(() => call(client, { tool: "slow", meta })));
    release();
    expect(textOf(await first)).to.equal("done");
    for (const each of others) {
      expect(each._meta?.["turnpike/error"]).to.deep.include({ error: "ProofInFlight", retryable: true });
    }
    expect(runs).to.deep.equal(["slow"]);
  });

  it("MC2 refuses a payment of one call for other arguments, another tool and another server", async () => {
    const meta = await paying(client, ABC);
    const otherServer = await elsewhere.connect();
    for (const [from, called] of [
      [client, { args: { symbol: "ABC", days: 2 } }],
      [client, { args: { symbol: "ABD" } }],
      [client, { tool: "copy", args: { symbol: "ABC" } }],
      [otherServer, ABC],
    ] as const) {
      const refused = askOf(await call(from, { ...called, meta }));
      expect(refused.quote, JSON.stringify(called)).to.include({ error: "InvalidPaymentProof" });
    }
    expect(runs).to.deep.equal([]);
    expect(textOf(await call(client, { ...ABC, meta }))).to.equal("ABC 1 one-time");
  });

  it("MC2 refuses two payments for one call", async () => {
    const [one, two] = [await paying(client, ABC), await paying(client, ABC)];
    const meta = { ...one, "x402.payment": encodeJsonHeader(two["x402/payment"]) };
    const refused = await call(client, { ...ABC, meta });
    expect(refused._meta?.["turnpike/error"]).to.deep.include({ error: "AmbiguousCredentials" });
    expect(runs).to.deep.equal([]);
  });

  it("MC2 serves one payment that a call has under both keys of _meta, once", async () => {
    const one = await paying(client, ABC);
    const both = { ...one, "x402.payment": encodeJsonHeader(one["x402/payment"]) };
    expect(textOf(await call(client, { ...ABC, meta: both }))).to.equal("ABC 1 one-time");
    await call(client, { ...ABC, meta: both });
    expect(runs).to.have.length(1);
  });

  for (const kind of ["isError", "throw", "no JSON"] as const) {
    it(`MC3 charges nothing for a tool that fails (${kind}), and its payment buys the next attempt`, async () => {
      const meta = await paying(client, { tool: "fails" });
      failure = kind;
      const failed = await call(client, { tool: "fails", meta });
      expect(failed.isError).to.equal(true);
      expect(failed._meta ?? {}).to.not.have.property("x402/payment-response");
      if (kind === "throw") expect(textOf(failed)).to.equal("the source is down");
      failure = undefined;
      const result = await call(client, { tool: "fails", meta });
      expect(textOf(result)).to.equal("as returned");
      expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
      expect(runs).to.deep.equal(["fails", "fails"]);
    });
  }

  it("MC3 charges nothing for structured content that the tool's own schema refuses", async () => {
    const bad = { tool: "report", args: { symbol: "BAD" } };
    const failed = await call(client, { ...bad, meta: await paying(client, bad) });
    expect(failed.isError).to.equal(true);
    expect(textOf(failed)).to.include("that its outputSchema refuses");
    expect(failed._meta ?? {}).to.not.have.property("x402/payment-response");
  });

  it("lets a client that listed a tool with an output schema read the ask, and the paid result", async () => {
    const listed = await served.connect();
    const { tools } = await listed.listTools();
    expect(tools.find(({ name }) => name === "report")?.outputSchema?.required).to.deep.equal(["price"]);
    const called = { tool: "report", args: { symbol: "ABC" } };
    const asked = await call(listed, called);
    expect(asked).to.not.have.property("structuredContent");
    const result = await call(listed, { ...called, meta: { "x402/payment": await payloadFor(asked) } });
    expect(result.structuredContent).to.deep.equal({ price: 7 });
  });

  it("MC4 charges nothing for a call that is cancelled before its tool ran", async () => {
    const meta = await paying(client, { tool: "gated" });
    let decide = (_may: boolean): void => undefined;
    mayBeServed = new Promise((resolve) => {
      decide = resolve;
    });
    const asked = new Promise<void>((resolve) => {
      onAsked = resolve;
    });
    const aborting = new AbortController();
    const cancelled = call(client, { tool: "gated", meta, signal: aborting.signal }).catch((error: Error) => error);
    await asked;
    aborting.abort("changed my mind");
    expect(await cancelled).to.be.instanceOf(Error);
    // A later request on the same session: the cancellation has arrived.
    await client.ping();
    decide(true);
    // Until the cancelled call has given its payment back, it is in use.
    let result = await call(client, { tool: "gated", meta });
    for (let i = 0; i < 200 && result._meta?.["turnpike/error"] !== undefined; i++) {
      result = await call(client, { tool: "gated", meta });
    }
    expect(result._meta, "run by this call, not by the cancelled one").to.not.have.property("turnpike/replayed");
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
    expect(runs).to.deep.equal(["gated"]);
  });

  it("MC4 keeps the result of a call that was cancelled while its tool ran, for the same payment", async () => {
    const meta = await paying(client, { tool: "slow" });
    const aborting = new AbortController();
    released = new Promise<void>((resolve) => {
      onRun = ({ signal }) => {
        signal.addEventListener("abort", () => resolve());
        aborting.abort();
      };
    });
    await call(client, { tool: "slow", meta, signal: aborting.signal }).catch((error: Error) => error);
    await released;
    let result = await call(client, { tool: "slow", meta });
    for (let i = 0; i < 200 && result._meta?.["turnpike/error"] !== undefined; i++) {
      result = await call(client, { tool: "slow", meta });
    }
    expect(textOf(result)).to.equal("done");
    expect(result._meta).to.deep.include({ "turnpike/replayed": true });
    expect(result._meta?.["x402/payment-response"]).to.include({ success: true });
    expect(runs).to.deep.equal(["slow"]);
  });

  it("passes progress through, and MC5 gives the handler no credential", async () => {
    const meta = await paying(client, { tool: "slow" });
    let seen: PaidToolExtra | undefined;
    let release = (): void => undefined;
    released = new Promise<void>((resolve) => {
      release = resolve;
    });
    onRun = (extra) => {
      seen = extra;
      const progressToken = extra._meta?.progressToken ?? 0;
      void extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress: 3 } });
    };
    const result = await call(client, {
      tool: "slow",
      meta,
      onprogress: ({ progress }) => {
        if (progress === 3) release();
      },
    });
    expect(textOf(result)).to.equal("done");
    expect(Object.keys(seen?._meta ?? {})).to.deep.equal(["progressToken"]);
    const { signature } = (meta["x402/payment"] as { payload: { signature: string } }).payload;
    expect(inspect([seen, result], { depth: 20 })).to.not.include(signature);
  });

  it("MC8 refuses arguments that are nested too deeply, or too large", async () => {
    const small = { ...shared, inputSchema: { any: z.any() }, maxArgumentBytes: 200 };
    const tools = await serveTools((server) => {
      paidTool(server, "any", small, () => ({ content: [] }));
    });
    try {
      const buyer = await tools.connect();
      const deep = JSON.parse(`${"[".repeat(70)}${"]".repeat(70)}`);
      const nested = await call(buyer, { tool: "any", args: { any: deep } });
      expect(nested._meta?.["turnpike/error"]).to.deep.include({ error: "InvalidRequest" });
      const large = await call(buyer, { tool: "any", args: { any: "x".repeat(300) } });
      expect(large._meta?.["turnpike/error"]).to.deep.include({ error: "PayloadTooLarge" });
    } finally {
      await tools.close();
    }
  });

  it("refuses a tool that could not be charged as it is written", () => {
    const server = { registerTool: () => expect.fail("registered") } as unknown as McpServer;
    const handler = () => ({ content: [] });
    const added = (options: object, name = "a") => paidTool(server, name, { ...shared, ...options }, handler);
    expect(() => added({ serverId: undefined })).to.throw("serverId is not set: use 1 to 255 characters");
    expect(() => added({ serverId: "" })).to.throw("serverId");
    expect(() => added({ pricing: [] })).to.throw("pricing is empty");
    expect(() => added({}, "a b")).to.throw("the tool's name is");
    expect(() => added({ maxArgumentBytes: 0 })).to.throw("maxArgumentBytes is 0");
  });
});
