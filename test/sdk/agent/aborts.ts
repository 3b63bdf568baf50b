import { expect } from "chai";
import { type AgentEvent, memoryLedger } from "turnpike/agent";
import { AbortError, isTurnpikeError } from "turnpike/protocol";
import { rejection } from "./support/rejection";
import { serve } from "./support/servers";
import { agentFor, type FacilitatorStandIn, marketBeforeEach, TOKEN, testKey, transfersSigned } from "./support/world";

const listening = async (_ms: number, signal?: AbortSignal) => signal?.throwIfAborted();

describe("HB7 an aborted call says what it leaves behind", () => {
  const market = marketBeforeEach();

  /** Aborts when the event happens. */
  function abortingOn(type: AgentEvent["type"], options: object = {}) {
    const caller = new AbortController();
    const subject = agentFor(market.facilitator.url, {
      sleep: listening,
      onEvent: (event) => {
        if (event.type === type) caller.abort();
      },
      ...options,
    });
    return { ...subject, caller };
  }

  async function aborted(work: Promise<unknown>): Promise<AbortError> {
    const error = await rejection(work);
    expect(error).to.be.instanceOf(AbortError);
    expect([error.name, error.code, error.retryable]).to.deep.equal(["AbortError", "AbortError", true]);
    return error as AbortError;
  }

  for (const call of ["pay", "fetch", "quote"] as const) {
    it(`HB7 agent.${call}: nothing was signed`, async () => {
      const { agent, signed } = agentFor(market.facilitator.url);
      const caller = new AbortController();
      const hung = await serve(() => {
        caller.abort();
        return new Promise(() => {});
      });
      const error = await aborted(agent[call](hung.url, { signal: caller.signal }));
      expect(error.reason).to.equal("nothing_signed");
      expect(error.details).to.deep.equal({ signed: false });
      expect(error.message).to.match(/nothing was signed/i);
      expect(error.cause).to.equal(caller.signal.reason);
      expect(signed).to.deep.equal([]);
    });

    it(`HB7 agent.${call}: a signal that was aborted before the call`, async () => {
      const { agent, signed } = agentFor(market.facilitator.url);
      const signal = AbortSignal.abort();
      expect((await aborted(agent[call](market.provider.url, { signal }))).reason).to.equal("nothing_signed");
      expect(signed).to.deep.equal([]);
    });
  }

  it("HB7 keeps the caller's own reason as the cause", async () => {
    const { agent } = agentFor(market.facilitator.url);
    const why = new Error("the user left");
    const error = await aborted(agent.pay(market.provider.url, { signal: AbortSignal.abort(why) }));
    expect(error.cause).to.equal(why);
    const late = await aborted(agent.pay(await hung(), { signal: AbortSignal.timeout(20) }));
    expect(late.cause).to.have.property("name", "TimeoutError");
  });

  const hung = async () => (await serve(() => new Promise(() => {}))).url;

  it("HB7 while the balance is asked for: nothing was signed", async () => {
    const caller = new AbortController();
    const facilitator = await hungAt("/accounts/", () => caller.abort());
    const subject = agentFor(market.facilitator.url, { fetch: redirecting(market.facilitator, facilitator) });
    const error = await aborted(subject.agent.pay(market.provider.url, { signal: caller.signal }));
    expect(error.reason).to.equal("nothing_signed");
    expect(subject.signed).to.deep.equal([]);
  });

  it("HB7 while the wallet is asked: its signature is dropped, and its budget is free", async () => {
    const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
    const ledger = memoryLedger();
    const first = abortingOn("payment.signing", { policy, ledger });
    const error = await aborted(first.agent.pay(market.provider.url, { signal: first.caller.signal }));
    expect(error.reason).to.equal("nothing_signed");
    expect(market.facilitator.signatures.size).to.equal(0);
    expect((await first.agent.pay(market.provider.url)).status).to.equal(200);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("HB7 signed, outcome unknown: it may still settle, and the next call finishes it", async () => {
    market.facilitator.steps.push("pending", "pending");
    const { agent, caller, ...subject } = abortingOn("payment.pending");
    const error = await aborted(agent.pay(market.provider.url, { signal: caller.signal }));
    expect(error.reason).to.equal("signed");
    const [held] = await agent.payments();
    expect(error.details).to.include({
      signed: true,
      paymentId: held?.paymentId,
      amount: "500000",
      validBefore: market.chain.nowSec + 600,
    });
    expect(error.message).to.match(/may still settle/);
    expect(error.message).to.include(held?.paymentId);
    expect(error.cause).to.equal(caller.signal.reason);
    expect((await agent.pay(market.provider.url)).receipt?.resumed).to.equal(true);
    expect([transfersSigned({ agent, ...subject }), market.chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("HB7 paid, not served: said so, and the next call presents the same payment", async () => {
    const { agent, caller, ...subject } = abortingOn("payment.presented");
    market.provider.steps.push("409");
    const error = await aborted(agent.fetch(market.provider.url, { signal: caller.signal }));
    expect(error.reason).to.equal("paid");
    expect(error.message).to.match(/was paid/);
    expect(error.details).to.include({ signed: true }).and.to.have.property("transaction");
    expect((await agent.fetch(market.provider.url)).status).to.equal(200);
    expect([transfersSigned({ agent, ...subject }), market.chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("HB7 served, while a redirect is followed: said so", async () => {
    const caller = new AbortController();
    const away = `${market.provider.url}/away`;
    market.provider.steps.push({ redirect: away });
    const subject = agentFor(market.facilitator.url, {
      fetch: (input, init) => {
        if (input === away) caller.abort();
        return fetch(input, init);
      },
    });
    const error = await aborted(subject.agent.pay(market.provider.url, { signal: caller.signal }));
    expect(error.reason).to.equal("served");
  });

  it("HB7 a resumed payment, aborted again: still signed", async () => {
    market.facilitator.steps.push("pending", "pending", "pending", "pending");
    const { agent, caller } = abortingOn("payment.pending");
    await aborted(agent.pay(market.provider.url, { signal: caller.signal }));
    const error = await aborted(agent.pay(market.provider.url, { signal: AbortSignal.abort() }));
    expect(error.reason).to.equal("signed");
  });

  it("HB7 a standard server: signed, and settled by whom it was sent to", async () => {
    const caller = new AbortController();
    const entry = {
      scheme: "exact",
      network: "local-31337",
      asset: TOKEN,
      maxAmountRequired: "500000",
      maxTimeoutSeconds: 60,
      payTo: `0x${"22".repeat(20)}`,
      extra: { name: "Test USD", version: "1" },
    };
    const server = await serve(({ headers, url }) => {
      if (!headers["x-payment"]) {
        return { status: 402, json: { x402Version: 1, accepts: [{ ...entry, resource: `${server.url}${url}` }] } };
      }
      caller.abort();
      return new Promise(() => {});
    });
    const { agent } = agentFor(market.facilitator.url);
    const error = await aborted(agent.pay(`${server.url}/`, { signal: caller.signal }));
    expect(error.reason).to.equal("signed");
  });

  it("HB7 a closed agent: nothing was signed", async () => {
    const { agent, signed } = agentFor(market.facilitator.url);
    const url = await hung();
    const call = agent.pay(url);
    await new Promise((resolve) => setImmediate(resolve));
    await agent.close();
    for (const error of [await aborted(call), await aborted(agent.fetch(url)), await aborted(agent.list())]) {
      expect(error.details).to.deep.equal({ signed: false });
      expect(error.message).to.match(/closed.*nothing was signed/i);
    }
    expect(signed).to.deep.equal([]);
  });

  it("HB7 a server that never answers is Unavailable, and the limit is named", async () => {
    const { agent } = agentFor(market.facilitator.url, { limits: { requestTimeoutMs: 20 } });
    for (const call of ["pay", "fetch", "quote"] as const) {
      const error = await rejection(agent[call](await hung()));
      expect([error.code, error.message]).to.deep.equal([
        "Unavailable",
        "The server did not answer within 20 ms (limits.requestTimeoutMs).",
      ]);
    }
  });

  it("HB7 D15 no secret is in what an abort says", async () => {
    market.facilitator.steps.push("pending", "pending");
    const { agent, caller } = abortingOn("payment.pending");
    const error = await aborted(agent.pay(market.provider.url, { signal: caller.signal, idempotencyKey: "canary-1" }));
    const text = JSON.stringify([error.message, error.details]);
    for (const secret of ["canary-1", testKey("payer").slice(2), ...market.facilitator.signatures]) {
      expect(text).not.to.include(secret);
    }
    expect(isTurnpikeError(error)).to.equal(true);
  });
});

/** A server that answers nothing below `path`, and says when it is asked. */
const hungAt = (path: string, onAsked: () => void) =>
  serve(({ url }) => {
    if (url.startsWith(path)) onAsked();
    return new Promise(() => {});
  });

/** Sends what is for one server to another. */
const redirecting =
  (from: FacilitatorStandIn, to: { readonly url: string }): typeof fetch =>
  (input, init) =>
    fetch(String(input).replace(from.url, to.url), init);
