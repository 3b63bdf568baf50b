import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { expect } from "chai";
import { ethers, network } from "hardhat";
import {
  type Agent,
  type AgentEvent,
  type Audit,
  memoryReceipts,
  type Subscription,
  verifyAudit,
} from "turnpike/agent";
import { writeAudit } from "turnpike/agent/file-ledger";
import { createProvider, meterStream, openAiUsage, type Payment, type Provider, paymentGate } from "turnpike/gate";
import { wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { paidTool } from "turnpike/mcp/server";
import {
  debitIdOf,
  encodeUsageReceipt,
  type Hex,
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
import { closeServer, listen } from "../../support/gate";
import { until } from "../../support/subscriptions";
import { expectCode, removeTerminals, terminal } from "../cli/support/run";
import { startRpc } from "./support/hardhat-rpc";
import { rejection } from "./support/rejection";
import { INTERVAL_SEC, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import type { StandIn } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, NETWORK, testKey } from "./support/world";

const CAP = 5_000_000n;
const EVENTS = ['data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', "data: [DONE]\n\n"];

describe("agent.audit of a gate's metered bill", function () {
  this.timeout(60_000);
  let relay: Relay;
  let planId: Hex;
  let rpc: StandIn;
  let provider: Provider;
  let gate: ReturnType<typeof gateOf>;
  let server: Server;
  let url: string;
  let folder: string;
  let agent: Agent;
  let events: AgentEvent[];
  let subscription: Subscription;
  /** what happens to the next answers of the gate on their way to the agent */
  let spoil: ((response: Response) => Response)[];

  const gateOf = (...plans: readonly Hex[]) =>
    paymentGate({ provider, pricing: plans.map((plan) => ({ type: "subscription", plan })), metered: true });

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });

  beforeEach(async () => {
    rpc = await startRpc();
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-audit-"));
    const [, owner] = await ethers.getSigners();
    const rights = relay.turnpike.connect(owner ?? null);
    await rights.setOperator(planId, addressOf("receipts"), 4);
    await rights.setOperator(planId, addressOf("operator"), 1);
    await owner?.sendTransaction({ to: addressOf("operator"), value: 10n ** 18n });
    provider = createProvider({
      ...{ network: NETWORK, rpcUrl: rpc.url, turnpike: relay.addresses.turnpike, pollMs: 20 },
      token: { address: relay.addresses.token, name: "Test USD", version: "1" },
      ...{ payTo: addressOf("treasury"), secret: "a secret that is long enough for a test", claims: "memory" },
      facilitator: { url: relay.url, signers: [addressOf("facilitator")] },
      ...{ operatorKey: testKey("operator"), receiptKey: testKey("receipts"), meterFolder: folder },
    });
    gate = gateOf(planId);
    server = createServer((request, response) => {
      void gate(request, response, async (error) => {
        if (error !== undefined) return void response.writeHead(500).end(String(error));
        await answer(request.url ?? "", (request as unknown as { payment: Payment }).payment, response);
      });
    });
    url = await listen(server);
    await provider.ready();
    spoil = [];
    events = [];
    const spoiling = async (input: RequestInfo | URL, init?: RequestInit) => {
      const response = await fetch(input, init);
      const next = String(input).startsWith(url) ? spoil.shift() : undefined;
      return next ? next(response) : response;
    };
    ({ agent } = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      ...{ rpc: rpc.url, fetch: spoiling as typeof fetch, onEvent: (event: AgentEvent) => void events.push(event) },
      receipts: memoryReceipts(),
    }));
    subscription = await agent.subscribe({ planId, maxOverage: CAP, origins: [url] });
  });
  afterEach(async () => {
    removeTerminals();
    await agent.close();
    await provider.close();
    await closeServer(server);
    rmSync(folder, { recursive: true, force: true });
  });

  async function answer(target: string, payment: Payment, response: import("node:http").ServerResponse): Promise<void> {
    if (target === "/stream") {
      const body = new Response(EVENTS.join(""), { headers: { "content-type": "text/event-stream" } });
      const metered = await meterStream(body, { payment, prices: { input: 1n, output: 700n }, read: openAiUsage() });
      response.writeHead(200, { "content-type": "text/event-stream" });
      for await (const part of metered.body as unknown as AsyncIterable<Uint8Array>) response.write(part);
      return void response.end();
    }
    await payment.deduct(1_000n, { unit: "page", units: 2, unitPrice: 500n });
    // The charge is durable; its answer never leaves.
    if (target === "/crash") return void response.destroy();
    response.end("served");
  }

  const call = async (target = "/page") => (await agent.fetch(`${url}${target}`)).text();
  const findingsOf = ({ subscriptions }: Audit) => subscriptions.flatMap(({ findings }) => findings);
  const kindsOf = (audit: Audit) => findingsOf(audit).map(({ kind }) => kind);
  const verify = (text: string) => verifyAudit(text, { rpc: rpc.url, turnpike: relay.addresses.turnpike });

  async function overcharge(amount: bigint, idHash = subscription.idHash): Promise<void> {
    const [, owner] = await ethers.getSigners();
    const [state] = await relay.turnpike
      .queryFilter(relay.turnpike.filters.Debited(idHash))
      .then((all) => all.slice(-1));
    const index = state ? state.args.index + 1n : 0n;
    await relay.turnpike.connect(owner ?? null).debit(idHash, amount, index);
  }

  async function nextCycle(): Promise<void> {
    await network.provider.send("evm_increaseTime", [INTERVAL_SEC]);
    await network.provider.send("evm_mine", []);
    await relay.turnpike.renew(subscription.idHash);
  }

  it("is clean over calls, streams, cycles, a raised cap and a rekey, and a third party agrees", async () => {
    for (let i = 0; i < 3; i++) await call();
    expect(await call("/stream"), "a reader of events sees the upstream's alone").to.contain(EVENTS.join(""));
    await provider.flush();
    await agent.setMaxOverage(subscription, 2n * CAP);
    await call();
    await provider.flush();
    await nextCycle();
    await call();
    const moved = await agent.rekey(subscription);
    await call();
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
    const verified = await verify(audit.text);
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
    await call();
    await provider.flush();
    await overcharge(777n);
    const audit = await agent.audit();
    const [state] = audit.subscriptions[0]?.cycles ?? [];
    expect(findingsOf(audit)).to.deep.equal([
      { kind: "excess", idHash: subscription.idHash, version: 0, paidThrough: state?.paidThrough, amount: 777n },
    ]);
    expect(findingsOf(await verify(audit.text))).to.deep.equal(findingsOf(audit));
  });

  it("UR5 names each of many overcharges, to the unit, whatever was served in between", async () => {
    await agent.setMaxOverage(subscription, 100n * CAP);
    let injected = 0n;
    for (const amount of [1n, 999n, 3n, 40_000n, 7n, 250n]) {
      if (amount === 7n) await nextCycle();
      if (amount % 2n === 1n) await call();
      await provider.flush();
      await overcharge(amount);
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
    gate = gateOf(planId, next, last);
    // The gate reads a change a moment after the chain has it. Until then it charges in the cycle before.
    const callUnder = (plan: Hex) =>
      until(async () => {
        let named: Hex | undefined;
        spoil.push((response) => {
          named = parseUsageReceipt(response.headers.get("usage-receipt") ?? "")?.receipt.planId;
          return response;
        });
        await call();
        return named === plan;
      });
    await callUnder(planId);
    await provider.flush();
    await agent.changePlan(subscription, { planId: next, maxOverage: CAP });
    await callUnder(next);
    await provider.flush();
    await agent.changePlan(subscription, { planId: last, at: "periodEnd" });
    await call();
    await provider.flush();
    await nextCycle();
    await callUnder(last);
    await provider.flush();
    const audit = await agent.audit();
    expect(findingsOf(audit)).to.deep.equal([]);
    const plans = audit.subscriptions[0]?.receipts.map(({ receipt }) => receipt.planId);
    expect([...new Set(plans)]).to.deep.equal([planId, next, last]);
    expect((await verify(audit.text)).isClean).to.equal(true);
  });

  it("UR5 no longer names an excess that was refunded", async () => {
    await call();
    await provider.flush();
    await overcharge(777n);
    const id = debitIdOf(
      { chainId: CHAIN_ID, turnpike: relay.addresses.turnpike },
      { idHash: subscription.idHash, index: 1 },
    );
    const wallet = new ethers.Wallet(testKey("treasury"), ethers.provider);
    const authorization = {
      ...{ from: addressOf("treasury"), to: addressOf("payer"), value: 777n },
      ...{ validAfter: 0n, validBefore: 2n ** 40n, nonce: refundNonce(id, 0) },
    };
    const domain = { chainId: CHAIN_ID, token: relay.addresses.token, name: "Test USD", version: "1" };
    const { domain: typedDomain, types, message } = transferTypedData(domain, authorization);
    const signature = await wallet.signTypedData(typedDomain as never, mutableTypes(types), message);
    const transfer = relay.token["transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"];
    await transfer(...(Object.values(authorization) as [string, string, bigint, bigint, bigint, string]), signature);
    const audit = await agent.audit();
    expect(findingsOf(audit)).to.deep.equal([]);
    expect(audit.subscriptions[0]?.cycles[0]).to.include({ debited: 1_777n, refunded: 777n });
  });

  it("UR6 names a receipt that was lost on its way, and one of an answer that never came", async () => {
    await call();
    spoil.push((response) => new Response(response.body));
    await call();
    await call("/crash").catch(() => undefined);
    await call();
    await provider.flush();
    const audit = await agent.audit();
    const [finding] = findingsOf(audit);
    expect(kindsOf(audit)).to.deep.equal(["gap"]);
    expect(finding).to.include({ from: 2, to: 3, amount: 2_000n });
    expect(findingsOf(await verify(audit.text))).to.deep.equal(findingsOf(audit));
  });

  it("UR6 names a charge whose gate stopped before its answer, until the next receipt contains it", async () => {
    await call("/crash").catch(() => undefined);
    await provider.flush();
    expect(kindsOf(await agent.audit())).to.deep.equal(["excess"]);
    await call();
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
    for (let i = 0; i < 5; i++) expect(await call()).to.equal("served");
    await call();
    await provider.flush();
    const audit = await agent.audit();
    expect(kindsOf(audit).sort()).to.deep.equal([
      ...["foreign", "foreign", "foreign", "foreign", "foreign", "forged", "forged", "gap"],
    ]);
    expect(findingsOf(audit).find(({ kind }) => kind === "gap")).to.include({ from: 1, to: 5, amount: 5_000n });
    const faults = events.flatMap((event) => (event.type === "usage-receipt.faulty" ? [event.fault] : []));
    expect(faults).to.deep.equal(["subscription", "request", "malformed", "malformed", "malformed"]);
    const verified = await verify(audit.text);
    expect(verified.differences).to.deep.equal([]);
    expect(verified.unproven).to.have.length(5);
  });

  it("UR1 counts no receipt that is signed for another plan, by who has the right there", async () => {
    const [, owner] = await ethers.getSigners();
    const other = await relay.createPlan({ amount: PRICE / 2n });
    await relay.turnpike.connect(owner ?? null).setOperator(other, addressOf("stranger"), 4);
    const copy = (receipt: UsageReceipt) => ({ ...receipt, planId: other, sequence: 1, total: 1_000n });
    spoil.push((response) => response, replaced(copy, testKey("stranger")));
    for (let i = 0; i < 3; i++) await call();
    await provider.flush();
    const audit = await agent.audit();
    expect(kindsOf(audit), "and no contradiction").to.deep.equal(["forged", "gap"]);
    expect(findingsOf(await verify(audit.text))).to.deep.equal(findingsOf(audit));
  });

  it("UR5 names two receipts of one number, and a price above its units", async () => {
    const key = testKey("receipts");
    spoil.push(
      (response) => response,
      replaced((receipt) => ({ ...receipt, sequence: 1, total: 1_000n }), key),
      replaced((receipt) => ({ ...receipt, sequence: 2, amount: 1_001n, total: 2_001n }), key),
    );
    for (let i = 0; i < 3; i++) await call();
    await provider.flush();
    const kinds = kindsOf(await agent.audit());
    expect(kinds).to.include.members(["contradiction", "overpriced"]);
  });

  it("counts a receipt once that an answer carries again", async () => {
    let first: string | null = null;
    spoil.push((response) => {
      first = response.headers.get("usage-receipt");
      return response;
    });
    await call();
    spoil.push((response) => {
      const both = `${first}, ${response.headers.get("usage-receipt")}, ${first}`;
      return new Response(response.body, { headers: { "usage-receipt": both } });
    });
    await call();
    await provider.flush();
    const audit = await agent.audit();
    expect(audit.subscriptions[0]?.receipts).to.have.length(2);
    expect(audit.isClean).to.equal(true);
  });

  it("UR8 shows a third party each change of the file", async () => {
    await call();
    await provider.flush();
    await overcharge(777n);
    const { text } = await agent.audit();
    type Claim = { findings: unknown[]; turnpike: string; receipts: { receipt: Record<string, unknown> }[] };
    const changed = (edit: (one: Claim) => unknown): string => {
      const file = JSON.parse(text);
      edit(file.subscriptions[0]);
      return JSON.stringify(file);
    };
    const smaller = await verify(changed((one) => Object.assign(one, { findings: [] })));
    expect(smaller.isClean).to.equal(false);
    expect(smaller.differences).to.deep.equal([`findings of ${subscription.idHash}`]);
    const raised = await verify(
      changed(({ receipts: [first] }) => Object.assign(first?.receipt ?? {}, { total: "1777" })),
    );
    expect(kindsOf(raised)).to.include.members(["forged", "excess"]);
    const dropped = await verify(changed((one) => Object.assign(one, { receipts: [] })));
    expect(dropped.subscriptions[0]?.findings).to.deep.include({
      ...{ kind: "excess", idHash: subscription.idHash, version: 0, amount: 1_777n },
      paidThrough: dropped.subscriptions[0]?.cycles[0]?.paidThrough,
    });
    const elsewhere = changed((one) => Object.assign(one, { turnpike: addressOf("stranger") }));
    expect((await rejection(verify(elsewhere))).code).to.equal("ConfigError");
    for (const broken of [
      "",
      "{}",
      "[]",
      changed(({ receipts: [first] }) => Object.assign(first?.receipt ?? {}, { sequence: 0 })),
    ]) {
      expect((await rejection(verify(broken))).code).to.equal("InvalidRequest");
    }
  });

  it("UR8 is not misled by a file that begins after the signup, or ends after the chain", async () => {
    await call();
    await provider.flush();
    const [signup] = await relay.turnpike.queryFilter(relay.turnpike.filters.Subscribed(subscription.idHash));
    const fromBlock = signup?.blockNumber ?? 0;
    const audit = await agent.audit({ fromBlock });
    expect([audit.isClean, (await verify(audit.text)).isClean], "rights are older").to.deep.equal([true, true]);
    const within = (range: object) => {
      const file = JSON.parse(audit.text);
      Object.assign(file.subscriptions[0], range);
      return rejection(verify(JSON.stringify(file)));
    };
    expect((await within({ fromBlock: fromBlock + 1 })).code).to.equal("InvalidRequest");
    expect((await within({ toBlock: 10_000_000 })).code).to.equal("Unavailable");
    expect((await rejection(agent.audit({ fromBlock: fromBlock + 1 }))).code).to.equal("InvalidRequest");
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

  it("UR8 is verified by `npx turnpike audit`, with an exit code for scripts", async () => {
    await call();
    await provider.flush();
    const file = path.join(folder, "bill.json");
    await writeAudit(file, await agent.audit());
    expect(readFileSync(file, "utf8")).to.contain("turnpike-audit-1");
    const env = { TURNPIKE_RPC_URL: rpc.url, TURNPIKE_ADDRESS: relay.addresses.turnpike };
    const clean = await terminal(env).run("audit", file);
    expect([clean.code, clean.err]).to.deep.equal([0, ""]);
    expect(clean.out).to.contain(subscription.idHash).and.contain("by receipts 0.001 (1000 base units)");
    await overcharge(5n);
    await writeAudit(file, await agent.audit());
    const found = await terminal(env).run("audit", file, "--json");
    expect(found.code).to.equal(1);
    const { clean: isClean, subscriptions } = found.json();
    expect(isClean).to.equal(false);
    expect(subscriptions[0].findings[0]).to.include({ kind: "excess", amount: "5" });
    expect((await terminal().run("audit", file)).code, "no RPC").to.equal(2);
    expect((await terminal(env).run("audit", path.join(folder, "none"))).code).to.equal(2);
  });

  it("is written by `npx turnpike audit --write`, with the receipts of all its commands", async () => {
    const shell = terminal({
      ...{ TURNPIKE_RPC_URL: rpc.url, TURNPIKE_FACILITATOR_URL: relay.url },
      ...{ TURNPIKE_ADDRESS: relay.addresses.turnpike, TURNPIKE_TOKEN: relay.addresses.token },
    });
    const signup = ["--max", "15.00", "--max-overage", "5.00", "--json"];
    const made = await shell.run("subscribe", `${url}/page`, "--plan", planId, ...signup);
    expectCode(made, 0);
    for (let i = 0; i < 2; i++) expectCode(await shell.run("pay", `${url}/page`, "--subscription"), 0);
    await provider.flush();
    const written = await shell.run("audit", "bill.json", "--write");
    expectCode(written, 0);
    expect(written.out).to.contain(": 2 receipts").and.contain("by receipts 0.002 (2000 base units)");
    await overcharge(5n, made.json().idHash);
    expect((await shell.run("audit", "bill.json", "--write")).out).to.contain("excess: 5 base units");
    expectCode(await shell.run("audit", "bill.json"), 1);
    for (const wrong of [
      ["--from-block", "-1"],
      ["--from-block", "99999999"],
    ]) {
      expectCode(await shell.run("audit", "bill.json", "--write", ...wrong), 2);
    }
    expectCode(await shell.run("audit", "none/bill.json", "--write"), 1);
  });
});
