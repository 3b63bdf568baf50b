import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import { ethers } from "hardhat";
import { type Agent, type Subscription, verifyAudit } from "turnpike/agent";
import type { Provider } from "turnpike/gate";
import { wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { paidTool } from "turnpike/mcp/server";
import {
  debitIdOf,
  encodeUsageReceipt,
  type Hex,
  keccakText,
  mutableTypes,
  parseUsageReceipt,
  refundNonce,
  requestHashOf,
  signDigest,
  transferTypedData,
  typedDataDigest,
  type UsageReceipt,
  usageReceiptTypedData,
} from "turnpike/protocol";
import { bare, highS } from "../../support/signature-forms";
import { until } from "../../support/subscriptions";
import {
  CAP,
  EVENTS,
  findingsOf,
  kindsOf,
  lyingFetch,
  type MeteredBill,
  meteredBillBeforeEach,
} from "./support/metered-bill";
import { rejection } from "./support/rejection";
import { PRICE, type Relay } from "./support/relay";
import { addressOf, agentFor, CHAIN_ID, testKey } from "./support/world";

describe("agent.audit of a gate's metered bill", function () {
  this.timeout(60_000);
  let bill: MeteredBill;
  let relay: Relay;
  let planId: Hex;
  let provider: Provider;
  let url: string;
  let agent: Agent;
  let subscription: Subscription;
  let spoil: MeteredBill["spoil"];

  meteredBillBeforeEach((fresh) => {
    bill = fresh;
    ({ relay, planId, provider, url, agent, subscription, spoil } = fresh);
  });

  it("is clean over calls, streams, cycles, a raised cap and a rekey, and a third party agrees", async () => {
    for (let i = 0; i < 3; i++) await bill.call();
    expect(await bill.call("/stream"), "a reader of events sees the upstream's alone").to.contain(EVENTS.join(""));
    await provider.flush();
    await agent.setMaxOverage(subscription, 2n * CAP);
    await bill.call();
    await provider.flush();
    await bill.nextCycle();
    await bill.call();
    const moved = await agent.rekey(subscription);
    await bill.call();
    await provider.flush();
    const audit = await agent.audit();
    expect(findingsOf(audit)).to.deep.equal([]);
    expect(audit.isClean).to.equal(true);
    const [audited] = audit.subscriptions;
    expect(audited?.idHashes).to.deep.equal([subscription.idHash, moved.idHash]);
    const sums = (audited?.cycles ?? []).reduce(
      (all, one) => [all[0] + one.debited, all[1] + one.receipted, all[2] + BigInt(one.receipts)] as const,
      [0n, 0n, 0n] as readonly [bigint, bigint, bigint],
    );
    expect(sums).to.deep.equal([6_700n, 6_700n, 7n]);
    expect(audited?.cycles.at(-1), "of the record that the rekey made").to.include({ idHash: moved.idHash, open: 0n });
    const verified = await bill.verify(audit.text);
    expect(verified).to.include({ isClean: true });
    expect([verified.differences, verified.unproven]).to.deep.equal([[], []]);
    expect(verified.subscriptions[0]?.cycles).to.deep.equal(audited?.cycles);
  });

  it("is clean over MCP tool calls, whose receipts name the tool", async () => {
    const tools = new McpServer({ name: "tools", version: "1.0.0" });
    const pricing = [{ type: "subscription", plan: planId } as const];
    paidTool(tools, "search", { provider, serverId: "search", pricing, metered: true }, async (_args, { payment }) => {
      await payment.deduct(300n, { unit: "search", units: 1, unitPrice: 300n });
      return { content: [{ type: "text", text: "found" }] };
    });
    const [near, far] = InMemoryTransport.createLinkedPair();
    const client = new Client({ name: "buyer", version: "1.0.0" });
    await Promise.all([tools.connect(far), client.connect(near)]);
    await agent.addOrigins(subscription, ["stdio:search"]);
    const paying = wrapMcpClientWithPayment(client, agent, { server: "search" });
    for (let i = 0; i < 2; i++) {
      const result = await paying.callTool({ name: "search", arguments: { q: "x" } });
      expect(result.content).to.deep.equal([{ type: "text", text: "found" }]);
      const texts = (result._meta?.["turnpike/usage-receipts"] ?? []) as string[];
      expect(texts).to.have.length(1);
      const signed = parseUsageReceipt(texts[0] ?? "") ?? expect.fail("no receipt");
      expect(signed.receipt).to.include({ unit: "search", amount: 300n, sequence: i + 1 });
      expect(signed.receipt.requestHash).to.equal(requestHashOf(signed.salt, "CALL", "mcp://tool/search"));
    }
    await client.close();
    await provider.flush();
    const audit = await agent.audit();
    expect([kindsOf(audit), audit.subscriptions[0]?.cycles[0]?.receipted]).to.deep.equal([[], 600n]);
  });

  it("UR5 names what was debited without receipts, to the unit, and by the chain alone", async () => {
    await bill.call();
    await provider.flush();
    await bill.overcharge(777n, subscription.idHash);
    const audit = await agent.audit();
    const [state] = audit.subscriptions[0]?.cycles ?? [];
    expect(findingsOf(audit)).to.deep.equal([
      { kind: "excess", idHash: subscription.idHash, version: 0, paidThrough: state?.paidThrough, amount: 777n },
    ]);
    expect(findingsOf(await bill.verify(audit.text))).to.deep.equal(findingsOf(audit));
  });

  it("UR5 names each of many overcharges, to the unit, whatever was served in between", async () => {
    await agent.setMaxOverage(subscription, 100n * CAP);
    let injected = 0n;
    for (const amount of [1n, 999n, 3n, 40_000n, 7n, 250n]) {
      if (amount === 7n) await bill.nextCycle();
      if (amount % 2n === 1n) await bill.call();
      await provider.flush();
      await bill.overcharge(amount, subscription.idHash);
      injected += amount;
      const found = findingsOf(await agent.audit());
      const excess = found.map((finding) => (finding.kind === "excess" ? finding.amount : expect.fail(finding.kind)));
      expect(excess.reduce((sum, one) => sum + one)).to.equal(injected);
    }
  });

  it("is clean over a change of plan, at once and at the end of the period", async () => {
    const [, owner] = await ethers.getSigners();
    const next = await relay.createPlan({ amount: PRICE });
    const last = await relay.createPlan({ amount: PRICE / 5n });
    for (const plan of [next, last]) {
      await relay.turnpike.connect(owner ?? null).setOperator(plan, addressOf("receipts"), 4);
      await relay.turnpike.connect(owner ?? null).setOperator(plan, addressOf("operator"), 1);
    }
    bill.accept(planId, next, last);
    // The gate reads a change a moment after the chain has it. Until then it charges in the cycle before.
    const callUnder = (plan: Hex) =>
      until(async () => {
        let named: Hex | undefined;
        spoil.push((response) => {
          named = parseUsageReceipt(response.headers.get("usage-receipt") ?? "")?.receipt.planId;
          return response;
        });
        await bill.call();
        return named === plan;
      });
    await callUnder(planId);
    await provider.flush();
    await agent.changePlan(subscription, { planId: next, maxOverage: CAP });
    await callUnder(next);
    await provider.flush();
    await agent.changePlan(subscription, { planId: last, at: "periodEnd" });
    await bill.call();
    await provider.flush();
    await bill.nextCycle();
    await callUnder(last);
    await provider.flush();
    const audit = await agent.audit();
    expect(findingsOf(audit)).to.deep.equal([]);
    const plans = audit.subscriptions[0]?.receipts.map(({ receipt }) => receipt.planId);
    expect([...new Set(plans)]).to.deep.equal([planId, next, last]);
    expect((await bill.verify(audit.text)).isClean).to.equal(true);
  });

  /** Refunds the subscription's second debit by the payee's own transfer. */
  async function refundDebit(index: number, value: bigint): Promise<void> {
    const id = debitIdOf(
      { chainId: CHAIN_ID, turnpike: relay.addresses.turnpike },
      { idHash: subscription.idHash, index: 1 },
    );
    const wallet = new ethers.Wallet(testKey("treasury"), ethers.provider);
    const authorization = {
      from: addressOf("treasury"),
      to: addressOf("payer"),
      value,
      validAfter: 0n,
      validBefore: 2n ** 40n,
      nonce: refundNonce(id, index),
    };
    const domain = { chainId: CHAIN_ID, token: relay.addresses.token, name: "Test USD", version: "1" };
    const { domain: typedDomain, types, message } = transferTypedData(domain, authorization);
    const signature = await wallet.signTypedData(typedDomain as never, mutableTypes(types), message);
    const transfer = relay.token["transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"];
    await transfer(...(Object.values(authorization) as [string, string, bigint, bigint, bigint, string]), signature);
  }

  it("UR5 no longer names an excess that was refunded", async () => {
    await bill.call();
    await provider.flush();
    await bill.overcharge(777n, subscription.idHash);
    // Gaps are allowed, and each index counts as far as refunds go.
    for (const [index, value] of [
      [4, 700n],
      [0, 30n],
      [999, 47n],
    ] as const) {
      await refundDebit(index, value);
    }
    const audit = await agent.audit();
    expect(findingsOf(audit)).to.deep.equal([]);
    expect(audit.subscriptions[0]?.cycles[0]).to.include({ debited: 1_777n, refunded: 777n });
  });

  it("UR6 names a receipt that was lost on its way, and one of an answer that never came", async () => {
    await bill.call();
    spoil.push((response) => new Response(response.body));
    await bill.call();
    await bill.call("/crash").catch(() => undefined);
    await bill.call();
    await provider.flush();
    const audit = await agent.audit();
    const [finding] = findingsOf(audit);
    expect(kindsOf(audit)).to.deep.equal(["gap"]);
    expect(finding).to.include({ from: 2, to: 3, amount: 2_000n });
    expect(findingsOf(await bill.verify(audit.text))).to.deep.equal(findingsOf(audit));
  });

  it("UR6 names a charge whose gate stopped before its answer, until the next receipt contains it", async () => {
    await bill.call("/crash").catch(() => undefined);
    await provider.flush();
    expect(kindsOf(await agent.audit())).to.deep.equal(["excess"]);
    await bill.call();
    await provider.flush();
    expect(kindsOf(await agent.audit())).to.deep.equal(["gap"]);
  });

  const deployment = () => ({ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike });

  /** Replaces the receipt of an answer by another one. */
  const replaced = (change: (receipt: UsageReceipt) => UsageReceipt, key?: Hex) => (response: Response) => {
    const signed = parseUsageReceipt(response.headers.get("usage-receipt") ?? "") ?? expect.fail("no receipt");
    const receipt = change(signed.receipt);
    const digest = typedDataDigest(usageReceiptTypedData(deployment(), receipt));
    const signature = key ? signDigest(digest, key) : signed.signature;
    const text = encodeUsageReceipt({ ...signed, receipt, signature });
    return new Response(response.body, { headers: { "usage-receipt": text } });
  };

  it("UR1 serves the answer whatever its receipt is, keeps it, and names it", async () => {
    spoil.push(
      replaced((receipt) => receipt, testKey("stranger")),
      replaced((receipt) => ({ ...receipt, amount: 1n })),
      replaced((receipt) => ({ ...receipt, idHash: planId }), testKey("receipts")),
      replaced(
        (receipt) => ({ ...receipt, requestHash: requestHashOf(`0x${"00".repeat(16)}`, "GET", url) }),
        testKey("receipts"),
      ),
      (response) => new Response(response.body, { headers: { "usage-receipt": "no receipt, 1.2.3, ü" } }),
    );
    for (let i = 0; i < 5; i++) expect(await bill.call()).to.equal("served");
    await bill.call();
    await provider.flush();
    const audit = await agent.audit();
    expect(kindsOf(audit).sort()).to.deep.equal([
      ...["foreign", "foreign", "foreign", "foreign", "foreign", "forged", "forged", "gap"],
    ]);
    expect(findingsOf(audit).find(({ kind }) => kind === "gap")).to.include({ from: 1, to: 5, amount: 5_000n });
    const faults = bill.events.flatMap((event) => (event.type === "usage-receipt.faulty" ? [event.fault] : []));
    expect(faults).to.deep.equal(["subscription", "request", "malformed", "malformed", "malformed"]);
    const verified = await bill.verify(audit.text);
    expect(verified.differences).to.deep.equal([]);
    expect(verified.unproven.map(({ kind }) => kind)).to.deep.equal([
      ...["forged", "forged", "foreign", "foreign", "foreign", "foreign", "foreign"],
    ]);
    expect(kindsOf(verified), "what anybody can write accuses nobody").to.deep.equal(["gap"]);
  });

  it("UR1 counts a receipt whose signature has a v of 0 or 1, and none with a high s", async () => {
    const signedAs = (form: (signature: Hex) => Hex) => (response: Response) => {
      const signed = parseUsageReceipt(response.headers.get("usage-receipt") ?? "") ?? expect.fail("no receipt");
      const text = encodeUsageReceipt({ ...signed, signature: form(signed.signature) });
      return new Response(response.body, { headers: { "usage-receipt": text } });
    };
    spoil.push(signedAs(bare));
    await bill.call();
    await provider.flush();
    const audit = await agent.audit();
    expect([audit.isClean, (await bill.verify(audit.text)).isClean]).to.deep.equal([true, true]);
    spoil.push(
      signedAs(highS),
      signedAs((signature) => bare(highS(signature))),
    );
    for (let i = 0; i < 2; i++) await bill.call();
    expect(kindsOf(await agent.audit())).to.deep.equal(["forged", "forged"]);
  });

  it("UR1 counts no receipt that is signed for another plan, by who has the right there", async () => {
    const [, owner] = await ethers.getSigners();
    const other = await relay.createPlan({ amount: PRICE / 2n });
    await relay.turnpike.connect(owner ?? null).setOperator(other, addressOf("stranger"), 4);
    const copy = (receipt: UsageReceipt) => ({ ...receipt, planId: other, sequence: 1, total: 1_000n });
    spoil.push((response) => response, replaced(copy, testKey("stranger")));
    for (let i = 0; i < 3; i++) await bill.call();
    await provider.flush();
    const audit = await agent.audit();
    expect(kindsOf(audit), "and no contradiction").to.deep.equal(["forged", "gap"]);
    const verified = await bill.verify(audit.text);
    expect([kindsOf(verified), verified.unproven.map(({ kind }) => kind)]).to.deep.equal([["gap"], ["forged"]]);
    expect(verified.differences).to.deep.equal([]);
  });

  it("UR5 names two receipts of one number, and a price above its units", async () => {
    const key = testKey("receipts");
    spoil.push(
      (response) => response,
      replaced((receipt) => ({ ...receipt, sequence: 1, total: 1_000n }), key),
      replaced((receipt) => ({ ...receipt, sequence: 2, amount: 1_001n, total: 2_001n }), key),
    );
    for (let i = 0; i < 3; i++) await bill.call();
    await provider.flush();
    const kinds = kindsOf(await agent.audit());
    expect(kinds).to.include.members(["contradiction", "overpriced"]);
  });

  it("UR9 keeps the receipt of a redirect that is charged, and of an address with an empty query", async () => {
    expect(await bill.call("/moved")).to.equal("served");
    expect(await bill.call("/page?")).to.equal("served");
    await provider.flush();
    const audit = await agent.audit();
    expect(findingsOf(audit)).to.deep.equal([]);
    expect(audit.subscriptions[0]?.receipts).to.have.length(3);
  });

  const DEBITED = keccakText("Debited(bytes32,uint256,uint256)");

  it("UR10 is never clean where the RPC leaves out a debit, be it the last one", async () => {
    for (let i = 0; i < 3; i++) {
      await bill.call();
      await provider.flush();
    }
    const { text } = await agent.audit();
    const lacking = (at: number) => (logs: readonly { readonly topics: readonly string[] }[]) => {
      const debits = logs.filter(({ topics }) => topics[0] === DEBITED);
      return logs.filter((log) => log !== debits[at]);
    };
    for (const at of [0, 1, 2]) {
      bill.lie.logs = lacking(at);
      const { code, message } = await rejection(agent.audit());
      expect([code, message], `${at}`).to.deep.equal([
        ...["Unavailable", `The RPC's logs lack debit ${at} of the subscription: use another RPC.`],
      ]);
    }
    const options = { rpc: bill.rpc.url, turnpike: relay.addresses.turnpike, fetch: lyingFetch(() => lacking(1)) };
    expect((await rejection(verifyAudit(text, options))).code).to.equal("Unavailable");
  });

  it("counts a receipt once that an answer carries again", async () => {
    let first: string | null = null;
    spoil.push((response) => {
      first = response.headers.get("usage-receipt");
      return response;
    });
    await bill.call();
    spoil.push((response) => {
      const both = `${first}, ${response.headers.get("usage-receipt")}, ${first}`;
      return new Response(response.body, { headers: { "usage-receipt": both } });
    });
    await bill.call();
    await provider.flush();
    const audit = await agent.audit();
    expect(audit.subscriptions[0]?.receipts).to.have.length(2);
    expect(audit.isClean).to.equal(true);
  });

  it("finds nothing clean without an RPC", async () => {
    const { agent: blind } = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
    });
    await blind.subscribe({ planId, origins: [url] });
    const { code, message } = await rejection(blind.audit());
    expect(code).to.equal("ConfigError");
    expect(message).to.contain("set rpc");
    await blind.close();
  });
});
