import { expect } from "chai";
import fc from "fast-check";
import {
  anthropicUsage,
  type MeterEvent,
  type MeterStreamOptions,
  meterStream,
  openAiUsage,
  type Payment,
  type UsageMeterOptions,
} from "turnpike/gate";
import { type FetchGate, paymentGate } from "turnpike/gate/fetch";
import type { Hex } from "turnpike/protocol";
import { createTestProvider, type TestProvider } from "turnpike/testing";
import { freePayment } from "../../../../sdk/src/gate/core/payment";
import { until } from "../../../support/subscriptions";

const PRICES = { input: { amount: "$3", per: 1_000_000 }, output: { amount: "$15", per: 1_000_000 } } as const;
const URL_OF_STREAM = "http://gate.test/stream";

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

const chunk = (content: string): string =>
  `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] })}\n\n`;

const usageChunk = (input: number, output: number): string =>
  `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: input, completion_tokens: output } })}\n\n`;

/** An upstream that sends these parts as they are read, and notes whether it was cancelled. */
function upstreamOf(parts: readonly (string | Error)[], contentType = "text/event-stream") {
  let next = 0;
  const upstream = { isCancelled: false, sent: () => next, response: undefined as never as Response };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const part = parts[next++];
        if (part === undefined) controller.close();
        else if (typeof part === "string") controller.enqueue(bytesOf(part));
        else controller.error(part);
      },
      cancel: () => {
        upstream.isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  upstream.response = new Response(body, { headers: { "Content-Type": contentType, "Content-Length": "7" } });
  return upstream;
}

describe("meterStream", () => {
  let world: TestProvider;
  let planId: Hex;
  let answer: (payment: Payment) => Promise<Response>;
  let gate: FetchGate;

  const events: MeterEvent[] = [];
  beforeEach(() => void events.splice(0));

  before(() => {
    world = createTestProvider({ publicUrl: "http://gate.test", onMeterEvent: (event) => void events.push(event) });
    ({ planId } = world.addPlan({}));
    gate = paymentGate({
      provider: world.provider,
      pricing: [
        { type: "subscription", plan: planId },
        { type: "upto", max: "$0.50" },
      ],
      metered: true,
    } as never);
  });

  const serve = (headers: Record<string, string> = {}): Promise<Response> =>
    gate((request) => answer(request.payment))(new Request(URL_OF_STREAM, { headers }));

  const subscribe = (maxOverage: bigint) => world.subscribe({ planId, maxOverage });

  const tokens = (payment: Payment, more: Partial<UsageMeterOptions> = {}): MeterStreamOptions => ({
    payment,
    prices: PRICES,
    read: openAiUsage(),
    ...more,
  });

  it("passes every byte of an event stream, however it is cut, and charges the tokens that it states", async () => {
    const text = `: hello\r\n\r\n${chunk("a")}${chunk("ä€")}${usageChunk(1_000, 2_000)}data: [DONE]\n\n`;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(text.length), { maxLength: 12 }), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), text.length];
        const parts = at.slice(1).map((end, i) => text.slice(at[i], end));
        const { id, headers } = subscribe(10n ** 9n);
        answer = (payment) => meterStream(upstreamOf(parts).response, tokens(payment));
        const response = await serve(headers);
        expect(response.headers.get("content-length")).to.equal(null);
        expect(await response.text()).to.equal(text);
        expect(world.spentOf(id)).to.equal(1_000n * 3n + 2_000n * 15n);
      }),
      { numRuns: 40 },
    );
  });

  it("SM2 ends the stream at the cap, after the event that reached it, and names the reason", async () => {
    const { id, headers } = subscribe(40n);
    const upstream = upstreamOf(Array.from({ length: 20 }, (_, i) => chunk(`${i}`)));
    answer = (payment) => meterStream(upstream.response, tokens(payment));
    const text = await (await serve(headers)).text();
    expect(text.split("\n\n").filter((event) => event.startsWith("data:"))).to.have.length(3);
    expect(text).to.match(/event: error\ndata: \{"error":\{"type":"AllowanceExhausted".*\n\n$/);
    expect(upstream.isCancelled).to.equal(true);
    expect(upstream.sent()).to.equal(3);
    expect(world.spentOf(id)).to.equal(40n);
    expect((await serve(headers)).status, "the next one is refused").to.equal(402);
  });

  it("finishes at the provider's own cost where that is its choice", async () => {
    const { id, headers } = subscribe(40n);
    const text = Array.from({ length: 20 }, (_, i) => chunk(`${i}`));
    answer = (payment) => meterStream(upstreamOf(text).response, tokens(payment, { atCap: "finish" }));
    expect(await (await serve(headers)).text()).to.equal(text.join(""));
    expect(world.spentOf(id)).to.equal(40n);
  });

  it("SM4 sends nothing of an event before its tokens are counted", async () => {
    const { headers } = subscribe(10n ** 9n);
    const [whole, half] = [chunk("a"), chunk("secret").slice(0, 60)];
    const upstream = upstreamOf([whole + half, new Error("upstream broke")]);
    answer = (payment) => meterStream(upstream.response, tokens(payment));
    const reader = (await serve(headers)).body?.getReader();
    expect(new TextDecoder().decode((await reader?.read())?.value)).to.equal(whole);
    const broken = await reader?.read().then(
      () => undefined,
      (error: Error) => error,
    );
    expect(broken?.message).to.equal("upstream broke");
  });

  it("SM2 refuses before the first byte: 402 with the ways to pay, and an upstream that is cancelled", async () => {
    const { id, headers } = subscribe(10n);
    world.change(id, { spent: 9n });
    const upstream = upstreamOf([chunk("a")]);
    answer = async (payment) => {
      world.change(id, { spent: 10n });
      return meterStream(upstream.response, tokens(payment));
    };
    const refused = await serve(headers);
    expect(refused.status).to.equal(402);
    expect(await refused.text()).to.contain("AllowanceExhausted");
    expect(upstream.isCancelled).to.equal(true);
  });

  it("SM2 charges nothing for answers that it refuses at the cap, and serves what the cap allows", async () => {
    const { id, headers } = subscribe(2_400n);
    const usage = { prompt_tokens: 100, completion_tokens: 100 };
    const body = JSON.stringify({ choices: [], usage });
    answer = (payment) => meterStream(upstreamOf([body], "application/json").response, tokens(payment));
    const answers = await Promise.all(Array.from({ length: 8 }, () => serve(headers)));
    const served = answers.filter(({ status }) => status === 200).length;
    expect(served, "each of them had its output paid, 1500, or all that was left").to.be.within(1, 2);
    expect(world.spentOf(id)).to.equal(served === 1 ? 1_800n : 2_400n);
    for (const { status, headers } of answers) {
      expect(status).to.be.oneOf([200, 402, 503]);
      if (status === 503) expect(headers.get("retry-after")).to.equal("5");
    }
  });

  it("SM2 serves an answer whose input uses up the cap, rather than charge it and refuse", async () => {
    const { id, headers } = subscribe(30n);
    const body = JSON.stringify({ choices: [], usage: { prompt_tokens: 10, completion_tokens: 1 } });
    answer = (payment) => meterStream(upstreamOf([body], "application/json").response, tokens(payment));
    expect((await serve(headers)).status).to.equal(200);
    expect(world.spentOf(id)).to.equal(30n);
  });

  it("SM2 charges nothing where the subscription is blocked between two kinds of one part", async () => {
    const { id, headers } = subscribe(10n ** 6n);
    const body = JSON.stringify({ choices: [], usage: { prompt_tokens: 100, completion_tokens: 100 } });
    answer = (payment) => {
      const meter = payment.meter.bind(payment);
      const blocking = (options: UsageMeterOptions) => {
        const made = meter(options) as ReturnType<typeof meter> & { reserve(units: bigint): Promise<bigint> };
        const reserve = made.reserve.bind(made);
        made.reserve = async (units) => {
          const reserved = await reserve(units);
          world.change(id, { blocked: true });
          return reserved;
        };
        return made;
      };
      const options = tokens({ ...payment, meter: blocking } as Payment);
      return meterStream(upstreamOf([body], "application/json").response, options);
    };
    expect((await serve(headers)).status).to.equal(402);
    expect(world.spentOf(id)).to.equal(0n);
  });

  it("SM7 does not end a stream for what other streams have only reserved", async () => {
    const { id, headers } = subscribe(12_000n);
    const idle = upstreamOf([chunk("a"), chunk("b")]);
    answer = (payment) => meterStream(idle.response, tokens(payment));
    const first = (await serve(headers)).body?.getReader();
    await first?.read();
    const words = Array.from({ length: 400 }, (_, i) => chunk(`${i}`));
    answer = (payment) => meterStream(upstreamOf(words).response, tokens(payment));
    const text = await (await serve(headers)).text();
    expect(text).to.equal(words.join(""));
    expect(world.spentOf(id)).to.equal(400n * 15n);
    await first?.cancel();
    expect(world.spentOf(id)).to.equal(401n * 15n);
  });

  it("SM7 ends a stream with an error that can be retried where the rest of the cap is only reserved", async () => {
    const { id, headers } = subscribe(100n);
    answer = (payment) => meterStream(upstreamOf([chunk("a"), chunk("b")]).response, tokens(payment));
    const first = (await serve(headers)).body?.getReader();
    await first?.read();
    const words = Array.from({ length: 10 }, (_, i) => chunk(`${i}`));
    answer = (payment) => meterStream(upstreamOf(words).response, tokens(payment));
    expect(await (await serve(headers)).text()).to.match(/event: error\ndata: \{"error":\{"type":"Unavailable"/);
    expect(world.spentOf(id) < 85n, "what it delivered").to.equal(true);
    await first?.cancel();
    expect((await serve(headers)).status, "it can be retried").to.equal(200);
  });

  it("SM6 charges input once that is said later to be cached", async () => {
    const { id, headers } = subscribe(10n ** 6n);
    const usage = { prompt_tokens: 1_000, completion_tokens: 1 };
    const early = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;
    const late = early.replace(
      '"completion_tokens"',
      '"prompt_tokens_details":{"cached_tokens":900},"completion_tokens"',
    );
    answer = (payment) => meterStream(upstreamOf([early, late]).response, tokens(payment));
    await (await serve(headers)).text();
    expect(world.spentOf(id)).to.equal(1_000n * 3n + 15n);
  });

  for (const ends of ["\n\n", "\r\n\r\n", "\r\r", "\n\r"]) {
    it(`SM4 counts each event where they end with ${JSON.stringify(ends)}`, async () => {
      const { id, headers } = subscribe(10n ** 6n);
      const text = ["a", "b", "c"].map((word) => chunk(word).trimEnd() + ends).join("");
      answer = (payment) => meterStream(upstreamOf([...text]).response, tokens(payment));
      expect(await (await serve(headers)).text()).to.equal(text);
      expect(world.spentOf(id)).to.equal(45n);
    });
  }

  for (const size of [1_000, 65_536, 2_000_000]) {
    it(`SM8 limits an event to 1 MiB, in chunks of ${size} bytes`, async () => {
      const { headers } = subscribe(10n ** 6n);
      const asChunks = (text: string) => text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
      const longest = chunk("x".repeat(1_048_576 - chunk("").length));
      answer = (payment) => meterStream(upstreamOf(asChunks(chunk("a") + longest)).response, tokens(payment));
      expect(await (await serve(headers)).text()).to.equal(chunk("a") + longest);
      const tooLong = chunk("x".repeat(1_048_577 - chunk("").length));
      answer = (payment) => meterStream(upstreamOf(asChunks(chunk("a") + tooLong)).response, tokens(payment));
      const text = await (await serve(headers)).text();
      expect(text.startsWith(`${chunk("a")}event: error`)).to.equal(true);
      expect(text).to.contain("longer than 1048576 bytes");
    });
  }

  it("charges what was delivered to a client that leaves, and cancels the upstream", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const upstream = upstreamOf(Array.from({ length: 20 }, (_, i) => chunk(`${i}`)));
    answer = (payment) => meterStream(upstream.response, tokens(payment));
    const reader = (await serve(headers)).body?.getReader();
    for (let i = 0; i < 4; i++) await reader?.read();
    await reader?.cancel();
    expect(upstream.sent(), "read to its end").to.equal(21);
    expect(world.spentOf(id)).to.equal(4n * 15n);
  });

  const words = Array.from({ length: 20 }, (_, i) => chunk(`${i}`));

  for (const [how, leaves] of [
    ["cancels the body", (reader: ReadableStreamDefaultReader | undefined) => reader?.cancel()],
    [
      "aborts its signal",
      async (reader: ReadableStreamDefaultReader | undefined, left: AbortController) => {
        left.abort();
        await reader?.read().catch(() => undefined);
      },
    ],
  ] as const) {
    for (const [read, output] of [
      [20, 200n],
      [5, 50n],
    ] as const) {
      it(`SM13 charges a client that ${how} after ${read} of 20 chunks the input, and ${output} of 200 tokens`, async () => {
        const { id, headers } = subscribe(10n ** 9n);
        const left = new AbortController();
        const parts = [...words, usageChunk(100_000, 200), chunk("more")];
        const upstream = upstreamOf(parts);
        answer = (payment) => meterStream(upstream.response, { ...tokens(payment), signal: left.signal });
        const reader = (await serve(headers)).body?.getReader();
        for (let i = 0; i < read; i++) await reader?.read();
        await leaves(reader, left);
        await until(() => upstream.isCancelled);
        expect(upstream.sent(), "no more than its usage").to.equal(21);
        expect(world.spentOf(id)).to.equal(100_000n * 3n + output * 15n);
      });
    }
  }

  it("SM13 charges what the input has at least where the upstream fails once its client has left", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const upstream = upstreamOf([chunk("a"), new Error("broken")]);
    answer = (payment) => meterStream(upstream.response, { ...tokens(payment), inputAtLeast: 1_000 });
    const reader = (await serve(headers)).body?.getReader();
    await reader?.read();
    await reader?.cancel();
    expect(world.spentOf(id)).to.equal(1_000n * 3n + 15n);
  });

  it("SM13 reads 1 MiB for the usage of a stream that its client left, and then charges what the input has at least", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const long = chunk("x".repeat(100_000));
    const upstream = upstreamOf([chunk("a"), ...Array.from({ length: 100 }, () => long), usageChunk(9, 9)]);
    answer = (payment) => meterStream(upstream.response, { ...tokens(payment), inputAtLeast: 1_000 });
    const reader = (await serve(headers)).body?.getReader();
    await reader?.read();
    await reader?.cancel();
    expect([upstream.isCancelled, upstream.sent()]).to.deep.equal([true, 12]);
    expect(world.spentOf(id)).to.equal(1_000n * 3n + 15n);
  });

  it("SM13 reads on for 5 s at most where the upstream falls silent, and then charges what the input has at least", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    let isCancelled = false;
    const silent = new ReadableStream<Uint8Array>(
      {
        // After its first chunk it says nothing more, and does not end.
        start: (controller) => controller.enqueue(bytesOf(chunk("a"))),
        cancel: () => {
          isCancelled = true;
        },
      },
      { highWaterMark: 0 },
    );
    const upstream = new Response(silent, { headers: { "content-type": "text/event-stream" } });
    answer = (payment) => meterStream(upstream, { ...tokens(payment), inputAtLeast: 1_000 });
    const reader = (await serve(headers)).body?.getReader();
    await reader?.read();
    const late: (() => void)[] = [];
    const real = globalThis.setTimeout;
    const held = (work: () => void, ms?: number) => (ms === 5_000 ? late.push(work) : real(work, ms));
    globalThis.setTimeout = held as unknown as typeof setTimeout;
    let left: Promise<void> | undefined;
    try {
      left = reader?.cancel();
    } finally {
      globalThis.setTimeout = real;
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect([isCancelled, late.length], "it waits for the usage").to.deep.equal([false, 1]);
    for (const work of late) work();
    await left;
    expect(isCancelled).to.equal(true);
    expect(world.spentOf(id)).to.equal(1_000n * 3n + 15n);
  });

  it("stops within a step when the subscription is cancelled meanwhile", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const upstream = upstreamOf(Array.from({ length: 20 }, (_, i) => chunk(`${i}`)));
    answer = (payment) => meterStream(upstream.response, tokens(payment, { step: 30n }));
    const reader = (await serve(headers)).body?.getReader();
    await reader?.read();
    world.change(id, { cancelled: true });
    let text = "";
    for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
      text += new TextDecoder().decode(part.value);
    }
    expect(text).to.contain("SubscriptionNotActive");
    expect(text.split('data: {"object"')).to.have.length(2);
    expect(world.spentOf(id)).to.equal(30n);
  });

  it("charges a JSON answer by its usage, in Anthropic's form with prices of the cache", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const usage = {
      input_tokens: 10,
      cache_read_input_tokens: 1_000,
      cache_creation_input_tokens: 4,
      output_tokens: 7,
    };
    const body = JSON.stringify({ type: "message", content: [], usage });
    const prices = { ...PRICES, cachedInput: { amount: "$0.30", per: 1_000_000 }, cacheWrite: 5n };
    answer = (payment) => {
      const options = { payment, prices, read: anthropicUsage() };
      return meterStream(upstreamOf([body.slice(0, 9), body.slice(9)], "application/json").response, options);
    };
    expect(await (await serve(headers)).text()).to.equal(body);
    expect(world.spentOf(id)).to.equal(10n * 3n + 300n + 4n * 5n + 7n * 15n);
  });

  const UNREADABLE: Record<string, readonly [body: string, contentType: string]> = {
    "JSON without usage": ['{"choices":[]}', "application/json"],
    "JSON whose counts are text": ['{"usage":{"prompt_tokens":"1000","completion_tokens":"5"}}', "application/json"],
    "an event stream that says that it is text": [chunk("a") + usageChunk(1, 1), "text/plain"],
    "lines of JSON": ['{"usage":{"prompt_tokens":1}}\n{"choices":[]}', "application/x-ndjson"],
    "a stream in another form": ['data: {"type":"message_start","message":{}}\n\n', "text/event-stream"],
    "an event that is no JSON": ["data: hello\n\n", "text/event-stream"],
  };
  for (const [what, [body, contentType]] of Object.entries(UNREADABLE)) {
    it(`SM9 refuses ${what} before its first byte, charges nothing, and reports it once`, async () => {
      const { id, headers } = subscribe(10n ** 9n);
      const upstream = upstreamOf([body, chunk("b")], contentType);
      answer = (payment) => meterStream(upstream.response, tokens(payment));
      const refused = await serve(headers);
      expect(refused.status).to.equal(503);
      expect(await refused.text()).to.contain("usage");
      expect(world.spentOf(id)).to.equal(0n);
      expect(events.map(({ kind }) => kind)).to.deep.equal(["unstated"]);
    });
  }

  it("SM9 charges a stream that states no usage by its chunks, and reports it once", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const last = 'data: {"choices":[],"usage":{"prompt_tokens":"1000","completion_tokens":"5"}}\n\n';
    for (const [end, basis] of [
      ["data: [DONE]\n\n", "chunks"],
      [last, "unreadable"],
    ] as const) {
      events.splice(0);
      const before = world.spentOf(id);
      answer = (payment) => meterStream(upstreamOf([chunk("a"), chunk("b"), end]).response, tokens(payment));
      expect(await (await serve(headers)).text()).to.equal(chunk("a") + chunk("b") + end);
      expect(world.spentOf(id) - before).to.equal(30n);
      expect(events.map((event) => (event.kind === "unstated" ? event.basis : event.kind))).to.deep.equal([basis]);
    }
  });

  it("SM9 leaves answers alone whose tokens nobody pays for", async () => {
    const payment = freePayment({ decimals: 6, currency: "USD" });
    const response = await meterStream(upstreamOf(["{}"], "application/json").response, tokens(payment));
    expect(await response.text()).to.equal("{}");
  });

  it("meters the parts of any other stream", async () => {
    const { id, headers } = subscribe(25n);
    const upstream = upstreamOf(["abc", "defgh", "ijklmnopqrstu", "vwxyz"], "audio/mpeg");
    answer = (payment) => {
      const meter = payment.meter({ unit: "byte", unitPrice: 2n });
      return meterStream(upstream.response, { meter, units: (part) => part.byteLength });
    };
    expect(await (await serve(headers)).text()).to.equal("abcdefghijklmnopqrstu");
    expect(world.spentOf(id)).to.equal(25n);
  });

  it("SM10 passes on a failed upstream's status, text and few of its headers, and charges nothing", async () => {
    const { id, headers } = subscribe(25n);
    const ofUpstream = {
      "Content-Type": "text/plain",
      "Retry-After": "7",
      "Content-Encoding": "gzip",
      "Content-Length": "99",
      "Set-Cookie": "a=b",
      "PAYMENT-RESPONSE": "forged",
      "openai-organization": "the provider",
    };
    for (const status of [429, 200]) {
      const body = status === 200 ? chunk("a") : "busy";
      const type = { "Content-Type": status === 200 ? "text/event-stream" : "text/plain" };
      const response = await meterStream(new Response(body, { status, headers: { ...ofUpstream, ...type } }), {
        ...tokens(freePayment({ decimals: 6, currency: "USD" })),
      });
      expect([response.status, await response.text()]).to.deep.equal([status, body]);
      expect([...response.headers.keys()]).to.deep.equal(["content-type", "retry-after"]);
    }
    answer = (payment) => meterStream(new Response("busy", { status: 429, headers: ofUpstream }), tokens(payment));
    const response = await serve(headers);
    expect([response.status, await response.text()]).to.deep.equal([429, "busy"]);
    expect(world.spentOf(id)).to.equal(0n);
  });

  for (const status of [401, 402, 403, 407]) {
    it(`SM10 answers an upstream's ${status}, which is about the provider's own account, with 503`, async () => {
      const { id, headers } = subscribe(25n);
      answer = (payment) => meterStream(new Response("bad key sk-12345", { status }), tokens(payment));
      const response = await serve(headers);
      expect(response.status).to.equal(503);
      expect(await response.text()).not.to.contain("sk-12345");
      expect(world.spentOf(id)).to.equal(0n);
    });
  }

  it("cancels an upstream that it cannot meter because of bad prices", async () => {
    const { headers } = subscribe(25n);
    const upstream = upstreamOf([chunk("a")]);
    const prices = { ...PRICES, input: "nothing" };
    let message = "";
    answer = (payment) =>
      meterStream(upstream.response, { payment, prices, read: openAiUsage() }).catch((error: Error) => {
        ({ message } = error);
        return new Response();
      });
    await serve(headers);
    expect(message).to.contain("unitPrice");
    expect([upstream.isCancelled, upstream.response.body?.locked]).to.deep.equal([true, false]);
  });

  it("SM11 cancels the upstream of a HEAD request, and charges nothing", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const upstream = upstreamOf([chunk("a"), usageChunk(9, 9)]);
    answer = (payment) => meterStream(upstream.response, tokens(payment));
    const request = new Request(URL_OF_STREAM, { method: "HEAD", headers });
    const response = await gate(({ payment }) => answer(payment))(request);
    expect([response.status, response.body]).to.deep.equal([200, null]);
    expect([upstream.isCancelled, upstream.sent()]).to.deep.equal([true, 0]);
    expect(world.spentOf(id)).to.equal(0n);
  });

  it("SM11 cancels an upstream that it collects when the client leaves, and charges nothing", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const left = new AbortController();
    let begin: () => void;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    let isCancelled = false;
    const body = new ReadableStream({
      pull: () => begin(),
      cancel: () => {
        isCancelled = true;
      },
    });
    const silent = new Response(body, { headers: { "Content-Type": "application/json" } });
    answer = (payment) => meterStream(silent, { ...tokens(payment), signal: left.signal });
    const failure = serve(headers).then(
      () => undefined,
      (error: Error) => error.name,
    );
    await begun;
    left.abort();
    expect(await failure).to.equal("AbortError");
    expect([isCancelled, world.spentOf(id)]).to.deep.equal([true, 0n]);
    const late = upstreamOf([chunk("a")]);
    answer = (payment) => meterStream(late.response, { ...tokens(payment), signal: left.signal });
    await serve(headers).catch(() => undefined);
    expect([late.isCancelled, late.sent()]).to.deep.equal([true, 0]);
  });

  it("SM11 charges a stream whose signal ends it what was sent", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const left = new AbortController();
    const upstream = upstreamOf([chunk("a"), chunk("b"), chunk("c")]);
    answer = (payment) => meterStream(upstream.response, { ...tokens(payment), signal: left.signal });
    const reader = (await serve(headers)).body?.getReader();
    await reader?.read();
    left.abort();
    await reader?.read().catch(() => undefined);
    await until(() => world.spentOf(id) > 0n);
    expect([upstream.sent(), world.spentOf(id)]).to.deep.equal([4, 15n]);
  });

  describe("paid by a maximum", () => {
    const payUpto = async () => world.payUpto((await serve()).headers.get("PAYMENT-REQUIRED") ?? "");

    const chargedBy = (response: Response): string =>
      JSON.parse(Buffer.from(response.headers.get("PAYMENT-RESPONSE") ?? "", "base64").toString()).amount;

    it("collects the stream, charges the sum, then sends it", async () => {
      const text = `${chunk("a")}${usageChunk(1_000, 2_000)}data: [DONE]\n\n`;
      answer = (payment) => meterStream(upstreamOf([text]).response, tokens(payment));
      const response = await serve(await payUpto());
      expect(await response.text()).to.equal(text);
      expect(chargedBy(response)).to.equal(String(1_000n * 3n + 2_000n * 15n));
    });

    it("SM2 stops at the maximum, and charges it and no more", async () => {
      const parts = Array.from({ length: 5 }, () => chunk("a"));
      answer = (payment) => {
        const prices = { input: 1n, output: 200_000n };
        return meterStream(upstreamOf(parts).response, { payment, prices, read: openAiUsage() });
      };
      const response = await serve(await payUpto());
      expect(await response.text()).to.match(/^(data: [^\n]*\n\n){3}event: error\n.*AllowanceExhausted.*\n\n$/);
      expect(chargedBy(response)).to.equal("500000");
    });

    it("SM2 serves an answer whose input is the maximum", async () => {
      answer = (payment) => {
        const body = JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } });
        const options = { payment, prices: { input: 100_000n, output: 1n }, read: openAiUsage() };
        return meterStream(upstreamOf([body], "application/json").response, options);
      };
      const response = await serve(await payUpto());
      expect([response.status, chargedBy(response)]).to.deep.equal([200, "500000"]);
    });

    it("SM9 refuses a stream that states no usage, and charges nothing", async () => {
      answer = (payment) => meterStream(upstreamOf([chunk("a")]).response, tokens(payment));
      const failure = await serve(await payUpto()).then(
        ({ status }) => status,
        (error: Error & { code?: string }) => error.code,
      );
      expect(failure).to.equal("Unavailable");
    });

    it("adds several meters up, and charges nothing for a meter that counted nothing", async () => {
      answer = async (payment) => {
        const [one, other] = [1n, 2n].map((unitPrice) => payment.meter({ unit: "word", unitPrice }));
        await one?.add(30);
        await other?.add(50);
        await one?.add(5);
        return Response.json({ amount: String((await one?.end())?.amount) });
      };
      const response = await serve(await payUpto());
      expect(await response.json()).to.deep.equal({ amount: "35" });
      expect(chargedBy(response)).to.equal("135");
    });
  });
});
