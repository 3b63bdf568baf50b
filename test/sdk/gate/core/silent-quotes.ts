/** Quotes while a backend accepts connections and never answers: what it said last serves, and nobody waits for it again. */
import { createServer, type Server } from "node:http";
import { json } from "node:stream/consumers";
import { expect } from "chai";
import { AbiCoder } from "ethers";
import type { OfferReceiptSigner, PricingEntry, ProviderOptions } from "turnpike/gate";
import { domainSeparator, networkOfChain, signDigest, toHex, typedDataDigest } from "turnpike/protocol";
import { createChainClock } from "../../../../sdk/src/chain/clock";
import { watchHeads } from "../../../../sdk/src/chain/heads";
import type { Rpc } from "../../../../sdk/src/chain/rpc";
import { chainTime } from "../../../../sdk/src/gate/core/chain-follower";
import { type Deferred, deferred } from "../../../../sdk/src/protocol/exchange";
import {
  addressOf,
  CHAIN_ID,
  closeServer,
  keyOf,
  listen,
  ONE_TIME,
  OVER_PERMIT2,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, PREFIX } from "../support/frameworks";

/** Shorter timers are no waits for a backend, and run by themselves. */
const LEAST_WAIT_MS = 70;

/** The time of waits passes where a test says so: an answer that comes meanwhile has waited for nothing. */
function holdTime() {
  const { setTimeout: start, performance } = globalThis;
  const now = performance.now.bind(performance);
  const waits: { readonly atMs: number; readonly end: () => void }[] = [];
  const begun: number[] = [];
  let passedMs = 0;
  performance.now = () => now() + passedMs;
  globalThis.setTimeout = ((end: () => void, ms = 0, ...rest: never[]) => {
    if (ms < LEAST_WAIT_MS) return start(end, ms, ...rest);
    begun.push(ms);
    waits.push({ atMs: passedMs + ms, end: () => end() });
    return start(() => undefined, 0);
  }) as never;
  return {
    /** Counts the waits so far that were for so long at most. */
    begun: (ms: number) => begun.filter((each) => each <= ms).length,
    pass(ms: number) {
      passedMs += ms;
      const due = waits.filter(({ atMs }) => atMs <= passedMs);
      waits.splice(0, waits.length, ...waits.filter((wait) => !due.includes(wait)));
      for (const { end } of due) end();
    },
    release() {
      globalThis.setTimeout = start;
      performance.now = now;
    },
  };
}

const UPTO = [{ type: "upto", max: 500_000n }] as const;

const DOMAIN = { address: TOKEN, name: "Test USD", version: "1" } as const;

describe("quotes while a backend is silent", function () {
  this.timeout(30_000);
  let facilitator: SmallFacilitator;
  let chain: Server;
  let rpcUrl: string;
  /** what the node's answers wait for */
  let silence: Deferred<void> | undefined;
  let time: ReturnType<typeof holdTime>;
  let asked: string[];
  const open: (() => Promise<void>)[] = [];

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
    silence = undefined;
    time = holdTime();
    asked = [];
    const textOf = (text: string) => AbiCoder.defaultAbiCoder().encode(["string"], [text]);
    const { name, version, address: verifyingContract } = DOMAIN;
    const views: Record<string, string> = {
      "0x06fdde03": textOf(name),
      "0x54fd4d50": textOf(version),
      "0x3644e515": toHex(domainSeparator({ name, version, chainId: CHAIN_ID, verifyingContract })),
    };
    chain = createServer(async (request, response) => {
      const { id, method, params } = (await json(request)) as { id: number; method: string; params: unknown[] };
      asked.push(method);
      await silence?.promise;
      const { data = "" } = (params[0] ?? {}) as { data?: string };
      const results: Record<string, unknown> = {
        eth_chainId: `0x${CHAIN_ID.toString(16)}`,
        eth_getCode: "0x6000",
        eth_call: views[data.slice(0, 10)] ?? `0x${"06".padStart(64, "0")}`,
        eth_getBlockByNumber: {
          number: "0x1",
          hash: `0x${"11".repeat(32)}`,
          parentHash: `0x${"10".repeat(32)}`,
          timestamp: "0x6b49d200",
        },
      };
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? null }));
    });
    rpcUrl = await listen(chain);
  });
  afterEach(async () => {
    time.release();
    silence?.resolve();
    for (const stop of open.splice(0).reverse()) await stop();
    await facilitator.stop();
    await closeServer(chain);
  });

  async function serve(pricing: readonly PricingEntry<never>[], more: ProviderOptions = {}): Promise<string> {
    const provider = testProvider(facilitator, { rpcUrl, clock: undefined as never, ...more });
    open.push(() => provider.close());
    const start = ADAPTERS["node:http"] as NonNullable<(typeof ADAPTERS)[string]>;
    const server = await start(provider, [{ path: "/x", gate: { pricing }, handle: () => ({ body: "served" }) }]);
    open.push(() => server.stop());
    return `${server.url}${PREFIX}/x`;
  }

  /**
   * Asks, and lets so much time pass once the answer waits for it; waiting longer, it never comes.
   * @param lastMs of the last wait that begins
   */
  async function answerWithin(url: string, ms: number, lastMs = ms) {
    const before = time.begun(lastMs);
    const answer = send(url);
    await until(() => time.begun(lastMs) > before);
    time.pass(ms);
    return answer;
  }

  /** Asks again and again, as customers do, while no time passes. */
  async function expectAtOnce(url: string, status: number, times = 4) {
    for (let i = 0; i < times; i++) {
      const answer = await send(url);
      expect(answer.status, answer.text).to.equal(status);
    }
  }

  const fallSilent = () => {
    silence = deferred();
  };

  for (const [what, pricing] of [
    ["a one-time price", ONE_TIME],
    ["an upto price", UPTO],
  ] as const) {
    it(`an RPC that never answered delays the first 402 of ${what} by a second at most, and no other`, async () => {
      fallSilent();
      const url = await serve(pricing, { token: DOMAIN });
      // For the token's permits a Facilitator's answer waits 500 ms.
      const first = await answerWithin(url, 1_000, pricing === UPTO ? 500 : 1_000);
      expect(first.status, first.text).to.equal(402);
      await expectAtOnce(url, 402);
    });

    it(`${what} in a token whose domain was read stays on sale at once when the RPC falls silent`, async () => {
      const url = await serve(pricing, { token: { address: TOKEN } });
      await until(async () => (await send(url)).status === 402);
      fallSilent();
      await expectAtOnce(url, 402);
    });
  }

  it("an RPC of a public chain that never answered delays the first 402 by a tenth of a second at most", async () => {
    fallSilent();
    const url = await serve(ONE_TIME, { network: "base-mainnet", token: DOMAIN });
    const first = await answerWithin(url, 75, 75);
    expect(first.status, first.text).to.equal(402);
    await expectAtOnce(url, 402);
  });

  it("a token whose domain was never read is 503 within a second, then at once, and on sale once the RPC answers", async () => {
    fallSilent();
    const url = await serve(ONE_TIME, { token: { address: TOKEN } });
    const first = await answerWithin(url, 1_000);
    expect([first.status, first.json.error]).to.deep.equal([503, "Unavailable"]);
    await expectAtOnce(url, 503);
    expect(
      asked.filter((method) => method === "eth_chainId"),
      "one probe at a time",
    ).to.have.length(1);
    silence?.resolve();
    await until(async () => (await send(url)).status === 402);
  });

  it("a Facilitator that never answered is waited for once, and what else is sold is offered at once", async () => {
    const { promise, resolve } = deferred();
    facilitator.held = promise;
    const url = await serve([...UPTO, { type: "one-time", amount: 700_000n }], { facilitatorWaitMs: 20_000 });
    expect((await answerWithin(url, 1_000)).status).to.equal(402);
    await expectAtOnce(url, 402);
    resolve();
    await until(async () => {
      const header = String((await send(url)).headers["payment-required"]);
      return Buffer.from(header, "base64").toString().includes('"upto"');
    });
    facilitator.held = new Promise(() => undefined);
    await expectAtOnce(url, 402);
  });

  it("a signer of offers that falls silent is waited for once; what it signed serves until it expires", async () => {
    let signs = 0;
    let isHeld = false;
    const signer: OfferReceiptSigner = {
      address: addressOf("statements"),
      signTypedData: async (data) => {
        signs++;
        if (isHeld) await new Promise(() => undefined);
        return signDigest(typedDataDigest(data as never), keyOf("statements"));
      },
    };
    const clock = { sec: 1_800_000_000, nowSec: () => clock.sec };
    const url = await serve(ONE_TIME, { rpcUrl: undefined as never, clock, offerReceipt: { signer } });
    const isSigned = async (at = url) =>
      Buffer.from(String((await send(at)).headers["payment-required"]), "base64")
        .toString()
        .includes("offer-receipt");
    expect(await isSigned()).to.equal(true);
    isHeld = true;
    clock.sec += 90;
    await expectAtOnce(url, 402);
    expect(await isSigned(), "the last signed offer still holds").to.equal(true);
    expect(signs, "one probe at a time").to.equal(2);
    expect((await answerWithin(`${url}?other`, 2_000)).status, "it is late already").to.equal(402);
    await expectAtOnce(`${url}?third`, 402);
    expect(signs).to.be.at.most(3);
  });

  describe("chain time", () => {
    function followed() {
      let nowMs = 0;
      let held: Promise<unknown> | undefined;
      const calls: string[] = [];
      const rpc = {
        async send(method: string) {
          calls.push(method);
          await held;
          return { number: "0x1", hash: "0x11", parentHash: "0x10", timestamp: "0x64" };
        },
        onBlock: () => () => undefined,
        close: () => undefined,
      } as unknown as Rpc;
      const clock = createChainClock({ monotonicMs: () => nowMs });
      const heads = watchHeads({ rpc, clock, turnpike: undefined, pollMs: 1, monotonicMs: () => nowMs });
      open.push(async () => heads.close());
      const time = chainTime(clock, heads, networkOfChain(CHAIN_ID));
      return {
        time,
        calls,
        fallSilent: () => {
          held = new Promise(() => undefined);
        },
        pass: (ms: number) => {
          nowMs += ms;
        },
      };
    }

    it("is the last head and the time since, at once, while the RPC is silent", async () => {
      const { time, fallSilent, pass, calls } = followed();
      await time.refresh();
      expect(time.nowSec()).to.equal(100);
      expect(time.refresh(), "a fresh head").to.equal(undefined);
      fallSilent();
      const before = calls.length;
      await until(async () => calls.length > before);
      pass(6_000);
      expect(time.refresh(), "a poll has been unanswered for longer than anybody waits").to.equal(undefined);
      expect(time.nowSec()).to.equal(106);
      expect(calls.length, "one probe at a time").to.equal(before + 1);
    });
  });
});
