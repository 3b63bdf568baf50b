import { expect } from "chai";
import { type Ledger, type LedgerRecord, memoryLedger, walletFromKey } from "turnpike/agent";
import { startRpc } from "./support/hardhat-rpc";
import { moodyWallet } from "./support/moody-wallet";
import { rejection } from "./support/rejection";
import { advance, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { addressOf, agentFor, CHAIN_ID, testKey } from "./support/world";

describe("an agent whose signup has no known outcome", () => {
  let relay: Relay;
  let planId: `0x${string}`;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  const agentOn = (ledger: Ledger, more: object = {}) =>
    agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      limits: { settleMs: 1_000 },
      ledger,
      ...more,
    });
  const paid = async () => (await relay.token.balanceOf(addressOf("treasury"))) as bigint;
  const drop = (count: number) => relay.steps.push(...Array.from({ length: count }, () => "drop" as const));
  const posted = () =>
    relay.seen
      .filter(({ method, url }) => method === "POST" && url.endsWith("/subscriptions"))
      .map(({ body }) => JSON.parse(body) as { secretHash: string; signature: string; maxOverage: string });
  const different = <T>(values: readonly T[]) => new Set(values).size;

  /** What a crash leaves: the records, read by another process. */
  async function afterCrash(ledger: Ledger): Promise<Ledger> {
    const records = [...(await ledger.load())];
    return { ...memoryLedger(), load: async () => records };
  }

  for (const [name, more] of [
    ["derived", () => ({})],
    ["random", () => ({ wallet: moodyWallet("payer") })],
  ] as const) {
    it(`D21 keeps its ${name} secret over a crash and past the deadline, and has one subscription`, async () => {
      const ledger = memoryLedger();
      drop(50);
      expect((await rejection(agentOn(ledger, more()).agent.subscribe({ planId }))).code).to.equal("PaymentPending");
      const second = agentOn(await afterCrash(ledger), more());
      expect((await rejection(second.agent.subscribe({ planId }))).code).to.equal("PaymentPending");
      expect(different(posted().map(({ signature }) => signature)), "the same signature").to.equal(1);
      await advance(3_600);
      relay.steps.length = 0;
      relay.steps.push("relay_then_drop", ...Array.from({ length: 50 }, () => "drop" as const));
      relay.hidesSubscriptions = true;
      expect((await rejection(second.agent.subscribe({ planId }))).code).to.equal("PaymentPending");
      await advance(3_600);
      relay.steps.length = 0;
      relay.hidesSubscriptions = false;
      const made = await agentOn(await afterCrash(ledger), more()).agent.subscribe({ planId, another: true });
      expect(made).to.include({ status: "ACTIVE", secrets: name });
      expect(different(posted().map(({ secretHash }) => secretHash)), "one secret").to.equal(1);
      expect(await paid()).to.equal(PRICE);
    });
  }

  it("D21 posts after a crash what it had signed and not posted", async () => {
    const ledger = memoryLedger();
    const dying: Ledger = {
      ...ledger,
      append: async (record: LedgerRecord) => {
        await ledger.append(record);
        if (record.type === "subscription" && record.signup) throw new Error("power cut");
      },
    };
    await agentOn(dying)
      .agent.subscribe({ planId })
      .catch(() => undefined);
    expect(posted()).to.deep.equal([]);
    const next = agentOn(await afterCrash(ledger));
    expect((await next.agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect(next.signed).not.to.include("Subscribe");
    expect(await paid()).to.equal(PRICE);
  });

  it("D21 counts the dearest of what it signed over one secret, once, and keeps it when the wallet refuses", async () => {
    const ledger = memoryLedger();
    const policy = { perPayment: PRICE, perDay: PRICE, tokens: [relay.addresses.token] };
    let refuses = false;
    const wallet = walletFromKey(testKey("payer"));
    const signTypedData: typeof wallet.signTypedData = (domain, types, message) =>
      refuses && "Subscribe" in types ? Promise.reject(new Error("no")) : wallet.signTypedData(domain, types, message);
    const { agent } = agentOn(ledger, { policy, wallet: { getAddress: wallet.getAddress, signTypedData } });
    drop(50);
    await rejection(agent.subscribe({ planId }));
    await advance(3_600);
    refuses = true;
    await agent.subscribe({ planId }).catch(() => undefined);
    const other = await relay.createPlan();
    refuses = false;
    expect((await rejection(agent.subscribe({ planId: other }))).reason).to.equal("per_day");
    relay.steps.length = 0;
    expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect(await paid()).to.equal(PRICE);
  });

  it("takes another secret once its own RPC proves that nothing was made", async () => {
    const { agent } = agentOn(memoryLedger(), { rpc: (await startRpc()).url });
    drop(50);
    await rejection(agent.subscribe({ planId }));
    await advance(3_600);
    relay.steps.length = 0;
    expect((await agent.subscribe({ planId })).status).to.equal("ACTIVE");
    expect(different(posted().map(({ secretHash }) => secretHash))).to.equal(2);
    expect(await paid()).to.equal(PRICE);
  });
});
