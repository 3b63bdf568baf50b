import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { rejection } from "./support/rejection";
import { closeAll, serve } from "./support/servers";
import { agentFor, Chain, type FacilitatorStandIn, startFacilitator, startProvider, TOKEN } from "./support/world";

describe("agent.close", () => {
  let chain: Chain;
  let facilitator: FacilitatorStandIn;

  beforeEach(async () => {
    chain = new Chain();
    facilitator = await startFacilitator(chain);
  });
  afterEach(closeAll);

  const endless = (kind: "pending" | "settle_then_drop") => Array.from({ length: 400 }, () => kind);
  /** A wait that ends only on request. */
  const forEver = (_ms: number, signal?: AbortSignal) =>
    new Promise<void>((_resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
  const waiting = (subject: { events: { type: string }[] }) => until(() => subject.events.length >= 2);

  it("ends calls that wait for an outcome; the ledger holds it, and the next agent presents the same payment", async () => {
    facilitator.steps.push(...endless("pending"));
    const provider = await startProvider(chain, facilitator.url);
    const ledger = memoryLedger();
    const first = agentFor(facilitator.url, { ledger, sleep: forEver });
    const calls = Array.from({ length: 5 }, () => rejection(first.agent.pay(provider.url, { idempotencyKey: "one" })));
    await waiting(first);
    await first.agent.close();
    expect((await Promise.all(calls)).map(({ code }) => code)).to.deep.equal(Array(5).fill("PaymentPending"));

    facilitator.steps.length = 0;
    const second = agentFor(facilitator.url, { ledger });
    const response = await second.agent.pay(provider.url, { idempotencyKey: "one" });
    expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
    expect([chain.transfers.length, facilitator.signatures.size]).to.deep.equal([1, 1]);
  });

  it("ends waiting that does not listen to its signal", async () => {
    facilitator.steps.push(...endless("pending"));
    const provider = await startProvider(chain, facilitator.url);
    const subject = agentFor(facilitator.url, { sleep: () => new Promise(() => {}) });
    const call = rejection(subject.agent.pay(provider.url));
    await waiting(subject);
    await subject.agent.close();
    expect((await call).code).to.equal("PaymentPending");
  });

  it("ends a request that no server answers, a quote that never ends, and a wallet that never answers", async () => {
    const hung = await serve(() => new Promise(() => {}));
    const provider = await startProvider(chain, facilitator.url);
    let isAsked = false;
    const wallet = {
      address: "0x00000000000000000000000000000000000000AA",
      signTypedData: () => {
        isAsked = true;
        return new Promise<string>(() => {});
      },
    };
    const dribble = new Response(new ReadableStream(), { status: 402 });
    const cases = [
      { url: hung.url, options: {}, isReached: () => hung.seen.length > 0 },
      { url: provider.url, options: { wallet }, isReached: () => isAsked },
      { url: "http://localhost/", options: { fetch: async () => dribble }, isReached: () => dribble.bodyUsed },
    ];
    for (const { url, options, isReached } of cases) {
      const { agent } = agentFor(facilitator.url, options);
      const call = agent.pay(url).then(
        () => "paid",
        (error: Error & { reason?: string }) => error.reason ?? error.name,
      );
      await until(isReached);
      await agent.close();
      expect(await call).to.be.oneOf(["AbortError", "quote"]);
    }
    expect(chain.transfers).to.deep.equal([]);
  });

  it("frees what was reserved for a signature that never came", async () => {
    const provider = await startProvider(chain, facilitator.url);
    const ledger = memoryLedger();
    const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
    let isAsked = false;
    const address = await agentFor(facilitator.url).agent.address();
    const signTypedData = () => {
      isAsked = true;
      return new Promise<string>(() => {});
    };
    const first = agentFor(facilitator.url, { ledger, policy, wallet: { address, signTypedData } }).agent;
    const call = first.pay(provider.url).catch((error: Error) => error.name);
    await until(() => isAsked);
    await first.close();
    expect(await call).to.equal("AbortError");
    expect((await agentFor(facilitator.url, { ledger, policy }).agent.pay(provider.url)).status).to.equal(200);
  });

  it("leaves responses that were handed out readable, and refuses what comes later", async () => {
    const provider = await startProvider(chain, facilitator.url);
    const { agent } = agentFor(facilitator.url);
    const response = await agent.pay(provider.url);
    await agent.close();
    await agent.close();
    expect(await response.json()).to.include({ data: "paid content" });
    const later = await agent.pay(provider.url).catch((error: Error) => error.name);
    expect(later).to.equal("AbortError");
    expect(chain.transfers).to.have.length(1);
  });

  it("leaves a ledger open that another agent still uses", async () => {
    let closed = 0;
    const ledger = { ...memoryLedger(), close: async () => void closed++ };
    const [one, other] = [1, 2].map(() => agentFor(facilitator.url, { ledger }).agent);
    await one?.payments();
    await other?.payments();
    await one?.close();
    expect(closed).to.equal(0);
    await other?.close();
    expect(closed).to.equal(1);
  });

  it("never opens a ledger that was not used", async () => {
    const ledger = {
      ...memoryLedger(),
      load: async () => {
        throw new Error("opened");
      },
    };
    await agentFor(facilitator.url, { ledger }).agent.close();
  });
});

/** Polls: what is waited for happens within a few turns of the event loop. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}
