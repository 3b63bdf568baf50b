import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import express, { type Express } from "express";
import { paymentGate } from "turnpike/gate/express";
import type { Hex } from "turnpike/protocol";
import { createTestProvider, type TestProvider } from "turnpike/testing";
import { startLlmProxy } from "../../../../examples/llm-proxy";
import { closeServer, listen } from "../../../support/gate";

const GUIDE = readFileSync("docs/guides/streaming.md", "utf8");

const TOKENS = 40;

/** what the model was asked for */
const received: Record<string, unknown>[] = [];

/** A model with OpenAI's interface that answers with `TOKENS` tokens, in a stream or whole. */
async function answerAsModel(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const asked = JSON.parse(await text(request));
  received.push(asked);
  const usage = { prompt_tokens: 1_000, prompt_tokens_details: { cached_tokens: 400 }, completion_tokens: TOKENS };
  const isKnown = request.headers.authorization === "Bearer model key";
  if (!isKnown) return void response.writeHead(401).end("{}");
  if (!asked.stream) {
    response.writeHead(200, { "Content-Type": "application/json" });
    return void response.end(JSON.stringify({ choices: [{ message: { content: "word ".repeat(TOKENS) } }], usage }));
  }
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for (let i = 0; i < TOKENS && !response.destroyed; i++) {
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "word " } }] })}\n\n`);
  }
  if (asked.stream_options?.include_usage) response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
  response.end("data: [DONE]\n\n");
}

describe("The example that sells a model's tokens", () => {
  let world: TestProvider;
  let model: Server;
  let proxy: Awaited<ReturnType<typeof startLlmProxy>>;
  let plan: Hex;

  before(async () => {
    world = createTestProvider();
    ({ planId: plan } = world.addPlan({}));
    model = createServer((request, response) => void answerAsModel(request, response));
    const upstream = { url: await listen(model), key: "model key" };
    proxy = await startLlmProxy({ provider: world.provider, plan, upstream, port: 0 });
  });
  after(async () => {
    await proxy.stop();
    await closeServer(model);
  });

  const ask = (headers: Record<string, string>, stream: unknown, more: object = {}): Promise<Response> =>
    fetch(proxy.url, {
      method: "POST",
      headers: { ...headers, "Content-Type": "application/json" },
      body: JSON.stringify({ model: "large", stream, messages: [], ...more }),
    });

  const cost = 600n * 3n + (400n * 3n) / 10n + BigInt(TOKENS) * 15n;

  for (const stream of [true, false]) {
    it(`charges the tokens of an answer, by its plan's subscribers' caps: ${stream ? "a stream" : "whole"}`, async () => {
      const { id, headers } = world.subscribe({ planId: plan, maxOverage: 1_000_000n });
      const answer = await ask(headers, stream);
      expect(answer.status).to.equal(200);
      expect((await answer.text()).split("word ")).to.have.length(TOKENS + 1);
      expect(world.spentOf(id)).to.equal(cost);
    });
  }

  it("SM12 passes on what it names, and asks each stream for its usage", async () => {
    const { id, headers } = world.subscribe({ planId: plan, maxOverage: 1_000_000n });
    const more = { temperature: 0, service_tier: "priority", store: true, stream_options: { include_usage: false } };
    for (const stream of [1, "yes", {}]) {
      received.splice(0);
      const before = world.spentOf(id);
      await (await ask(headers, stream, more)).text();
      const passed = { model: "large", messages: [], temperature: 0, stream: true };
      expect(received).to.deep.equal([{ ...passed, stream_options: { include_usage: true } }]);
      expect(world.spentOf(id) - before).to.equal(cost);
    }
  });

  it("SM12 sells the models of its list alone, each at its own prices", async () => {
    const { id, headers } = world.subscribe({ planId: plan, maxOverage: 1_000_000n });
    received.splice(0);
    for (const model of ["dearest", "constructor", "__proto__", 1, null, ["large"]]) {
      const answer = await ask(headers, true, { model });
      expect([answer.status, await answer.text()]).to.deep.equal([
        400,
        '{"error":{"message":"model: use one of large, small"}}',
      ]);
    }
    expect([received.length, world.spentOf(id)]).to.deep.equal([0, 0n]);
    await (await ask(headers, true, { model: "small" })).text();
    expect(world.spentOf(id)).to.equal(150n + 100n + BigInt(TOKENS) * 2n);
  });

  it("SM12 answers a body that is no JSON with 400", async () => {
    const { headers } = world.subscribe({ planId: plan, maxOverage: 1_000_000n });
    expect((await fetch(proxy.url, { method: "POST", headers, body: "{}" })).status).to.equal(400);
  });

  it("ends a stream at the cap, and refuses the next one", async () => {
    const { id, headers } = world.subscribe({ planId: plan, maxOverage: 100n });
    const words = (await (await ask(headers, true)).text()).split("word ");
    expect(words).to.have.length(1 + 7);
    expect(words.at(-1)).to.contain("AllowanceExhausted");
    expect(world.spentOf(id)).to.equal(100n);
    expect((await ask(headers, true)).status).to.equal(402);
    expect((await ask({}, true)).status).to.equal(402);
  });

  it("is what the guide shows", () => {
    const example = readFileSync("examples/llm-proxy.ts", "utf8");
    const [, section = ""] = GUIDE.split("## Sell a model's tokens\n");
    const code = (section.split("```")[1] ?? "").split("\n").slice(1);
    // The example imports more.
    const lines = code.filter((line) => !line.startsWith("import "));
    expect(lines.length).to.be.greaterThan(10);
    for (const line of lines) expect(example).to.contain(line.trim());
  });
});

describe("The guide's handler that meters a stream", () => {
  const world = createTestProvider();
  const { planId: plan } = world.addPlan({});
  const worked: string[] = [];
  let server: Server;
  let url: string;

  /** Words, and the tokens of each. */
  async function* tokensOf({ query }: { readonly query: { readonly words?: string } }) {
    for (const text of (query.words ?? "").split(",")) {
      worked.push(text);
      yield { text, tokens: text.length };
    }
  }

  before(async () => {
    const code = /```js\n([\s\S]*?)```/.exec(GUIDE)?.[1]?.replace(/^import .*$/gm, "") ?? "";
    const bound = (options: object) => paymentGate({ provider: world.provider, ...options } as never);
    const run = new Function("express", "paymentGate", "plan", "tokensOf", `${code}; return app;`);
    const app: Express = run(express, bound, plan, tokensOf);
    server = createServer(app);
    url = await listen(server);
  });
  after(() => closeServer(server));
  beforeEach(() => void worked.splice(0));

  const ask = (headers: Record<string, string>) => fetch(`${url}/complete?words=four,sixsix,two`, { headers });

  it("charges what it sends", async () => {
    const { id, headers } = world.subscribe({ planId: plan, maxOverage: 1_000n });
    expect(await (await ask(headers)).text()).to.equal("foursixsixtwo");
    expect(world.spentOf(id)).to.equal(13n * 3n);
  });

  it("ends at the cap, and refuses the next one", async () => {
    const { id, headers } = world.subscribe({ planId: plan, maxOverage: 20n });
    expect(await (await ask(headers)).text()).to.equal("foursixsix");
    expect(worked, "no more work").to.deep.equal(["four", "sixsix"]);
    expect(world.spentOf(id)).to.equal(20n);
    expect((await ask(headers)).status).to.equal(402);
  });
});
