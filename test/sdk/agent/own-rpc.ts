import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect } from "chai";
import { memoryLedger, walletFromKey } from "turnpike/agent";
import { type Address, type Hex, mutableTypes, voidTypedData } from "turnpike/protocol";
import { startRpc } from "./support/hardhat-rpc";
import { rejection } from "./support/rejection";
import { advance, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import type { StandIn } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, testKey } from "./support/world";

describe("an agent with an RPC of its own", () => {
  let relay: Relay;
  let planId: Hex;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  const agentOn = (rpc: StandIn, more: object = {}) =>
    agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      rpc: rpc.url,
      ...more,
    });

  it("subscribes and changes by what the chain says", async () => {
    const { agent } = agentOn(await startRpc());
    const subscription = await agent.subscribe({ planId });
    expect((await agent.pause(subscription)).status).to.equal("PAUSED");
    expect((await agent.resume(subscription)).version).to.equal(2);
  });

  it("reads again what a connection did not answer that the server had closed", async () => {
    const rpc = await startRpc();
    const asked = new Set<string>();
    const closing: typeof fetch = async (input, init) => {
      const body = String(init?.body);
      if (!String(input).startsWith(rpc.url) || asked.has(body)) return fetch(input, init);
      asked.add(body);
      throw new TypeError("fetch failed", { cause: Object.assign(new Error("closed"), { code: "UND_ERR_SOCKET" }) });
    };
    const { agent } = agentOn(rpc, { fetch: closing });
    expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect((await agent.audit()).isClean).to.equal(true);
    expect(asked.size).to.be.greaterThan(5);
  });

  describe("and a signup that it voids", () => {
    /** A signup that never reached the chain, of an agent whose budget is one period. */
    async function unanswered(more: object) {
      const policy = { perPayment: PRICE, perDay: PRICE, tokens: [relay.addresses.token] };
      const deployments = [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }];
      const { agent } = agentFor(relay.url, { policy, deployments, ...more });
      relay.steps.push(...Array.from({ length: 50 }, () => "drop" as const));
      const { details } = await rejection(agent.subscribe({ planId }));
      relay.steps.length = 0;
      return { agent, idHash: (details as { idHash: Hex }).idHash };
    }

    it("has its first period in the budget again, once its own RPC shows the void", async () => {
      const { agent, idHash } = await unanswered({ rpc: (await startRpc()).url });
      expect(await agent.void({ idHash })).to.equal(undefined);
      expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    });

    it("is named by every change of it: there is nothing to change yet", async () => {
      const { agent, idHash } = await unanswered({});
      for (const call of [() => agent.cancel({ idHash }), () => agent.setMaxOverage({ idHash }, 1n)]) {
        const { code, reason, message } = await rejection(call());
        expect([code, reason]).to.deep.equal(["PaymentPending", "signup"]);
        expect(message).to.contain(`agent.void("${idHash}")`);
      }
    });

    it("keeps it in the budget where a Facilitator alone says so", async () => {
      const { agent, idHash } = await unanswered({});
      expect(await agent.void({ idHash })).to.equal(undefined);
      expect((await rejection(agent.subscribe({ planId }))).code).to.equal("PolicyRefused");
    });

    it("ends it in the next signup when another process voided it", async () => {
      const { agent, idHash } = await unanswered({ rpc: (await startRpc()).url });
      const posted = relay.seen.find(({ method, url }) => method === "POST" && url.endsWith("/subscriptions"));
      const { subscriber, secretHash } = JSON.parse(posted?.body ?? "") as { subscriber: Address; secretHash: Hex };
      const message = { subscriber, secretHash, deadline: 2n ** 40n };
      const data = voidTypedData({ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }, message);
      const signature = await walletFromKey(testKey("payer")).signTypedData(
        data.domain,
        mutableTypes(data.types),
        data.message,
      );
      await relay.turnpike.void(subscriber, secretHash, message.deadline, signature);
      const next = await agent.subscribe({ planId });
      expect(next).to.include({ status: "ACTIVE", existing: false });
      expect(next.idHash).to.not.equal(idHash);
    });
  });

  it("ends a read of an RPC that never answers, also when memory is collected meanwhile", async () => {
    const rpc = "http://127.0.0.1:1";
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    let collecting: NodeJS.Timeout | undefined;
    // As the platform's fetch listens: the signal itself lives as long as the exchange, its sources need not.
    const never = (signal: AbortSignal) =>
      new Promise<Response>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const { agent } = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      rpc,
      limits: { facilitatorTimeoutMs: 3_000 },
      fetch: async (input, init) => {
        const url = String(input);
        if (!url.startsWith(rpc)) return fetch(url, init);
        collecting ??= setInterval(collect, 500);
        return never(init?.signal as AbortSignal);
      },
    });
    try {
      const error = await rejection(agent.subscribe({ planId }));
      expect([error.code, error.message]).to.deep.equal([
        "Unavailable",
        `The agent's RPC at ${new URL(rpc).host} did not answer within 3000 ms.`,
      ]);
    } finally {
      clearInterval(collecting);
    }
  });

  it("HB7 lists its subscriptions by the chain alone, also while the Facilitator is down, lies, or is configured no more", async () => {
    const rpc = await startRpc();
    const ledger = memoryLedger();
    const { agent } = agentOn(rpc, { ledger });
    const made = await agent.subscribe({ planId, maxOverage: 5_000_000n });
    const paused = await agent.pause(made);
    relay.hidesSubscriptions = true;
    const elsewhere = agentOn(rpc, { ledger, facilitators: ["http://127.0.0.1:1"] }).agent;
    for (const each of [agent, elsewhere]) expect(await each.list()).to.deep.equal([{ ...paused, existing: false }]);
    await relay.close();
    expect(await agent.list()).to.deep.equal([{ ...paused, existing: false }]);
  });

  it("HB7 lists by the Facilitator while its own RPC is down", async () => {
    const rpc = await startRpc();
    const { agent } = agentOn(rpc);
    const made = await agent.subscribe({ planId });
    await rpc.close();
    expect((await agent.list()).map(({ id }) => id)).to.deep.equal([made.id]);
  });

  it("does not take approval, permit nonce or time from a Facilitator that lies", async () => {
    const rpc = await startRpc();
    relay.lieAboutAccount = (account) => ({
      ...account,
      approval: (2n ** 200n).toString(),
      permitNonce: "7",
      chainTimeSec: 1,
    });
    const { agent } = agentOn(rpc);
    expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect(await relay.approval(addressOf("payer"))).to.equal(11n * PRICE);
  });

  describe("after a signup that was refused, once its deadline has passed", () => {
    const thrifty = async () =>
      agentFor(relay.url, {
        policy: { perPayment: PRICE, perDay: PRICE, tokens: [relay.addresses.token] },
        deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
        rpc: (await startRpc()).url,
      }).agent;

    it("D3 frees its charge when the chain has no such subscription", async () => {
      const agent = await thrifty();
      relay.steps.push({ refuse: "CapTooLarge" });
      expect((await rejection(agent.subscribe({ planId }))).code).to.equal("CapTooLarge");
      await advance(3_600);
      expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    });

    it("D2 signs no other while the chain has it and the Facilitator hides it", async () => {
      const agent = await thrifty();
      relay.hidesSubscriptions = true;
      relay.steps.push({ relayThenRefuse: "CapTooLarge" });
      await rejection(agent.subscribe({ planId }));
      await advance(3_600);
      expect((await rejection(agent.subscribe({ planId }))).code).to.equal("Unavailable");
      relay.hidesSubscriptions = false;
      expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    });
  });

  it("refuses a token domain that the token's own separator contradicts, before signing a permit", async () => {
    relay.lieAboutAccount = (account) => ({ ...account, tokenName: "Other USD" });
    const subject = agentOn(await startRpc());
    expect((await rejection(subject.agent.subscribe({ planId }))).reason).to.equal("token_domain");
    expect(subject.signed).not.to.include("Permit");
  });

  it("refuses an RPC of another chain, and one that answers nonsense", async () => {
    for (const edit of [
      (method: string, result: unknown) => (method === "eth_chainId" ? "0x1" : result),
      (method: string, result: unknown) => (method === "eth_call" ? "0x" : result),
      (method: string, result: unknown) => (method === "eth_getBlockByNumber" ? { timestamp: "soon" } : result),
    ]) {
      const subject = agentOn(await startRpc(edit));
      expect((await rejection(subject.agent.subscribe({ planId }))).code).to.equal("Unavailable");
      expect(subject.signed).not.to.include("Subscribe");
    }
  });
});
