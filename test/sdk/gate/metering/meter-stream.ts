import { expect } from "chai";
import fc from "fast-check";
import {
  anthropicUsage,
  type MeterStreamOptions,
  meterStream,
  openAiUsage,
  type Payment,
  type UsageMeterOptions,
} from "turnpike/gate";
import { type FetchGate, paymentGate } from "turnpike/gate/fetch";
import type { Hex } from "turnpike/protocol";
import { createTestProvider, type TestProvider } from "turnpike/testing";

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

  before(() => {
    world = createTestProvider({ publicUrl: "http://gate.test" });
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
    ...{ payment, prices: PRICES, read: openAiUsage() },
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

  it("charges what was delivered to a client that leaves, and cancels the upstream", async () => {
    const { id, headers } = subscribe(10n ** 9n);
    const upstream = upstreamOf(Array.from({ length: 20 }, (_, i) => chunk(`${i}`)));
    answer = (payment) => meterStream(upstream.response, tokens(payment));
    const reader = (await serve(headers)).body?.getReader();
    for (let i = 0; i < 4; i++) await reader?.read();
    await reader?.cancel();
    expect(upstream.isCancelled).to.equal(true);
    expect(world.spentOf(id)).to.equal(4n * 15n);
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

  it("returns a failed upstream as it is, and charges nothing", async () => {
    const { id, headers } = subscribe(25n);
    answer = (payment) => meterStream(new Response("busy", { status: 429 }), tokens(payment));
    const response = await serve(headers);
    expect([response.status, await response.text()]).to.deep.equal([429, "busy"]);
    expect(world.spentOf(id)).to.equal(0n);
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
