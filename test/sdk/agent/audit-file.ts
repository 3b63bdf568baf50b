import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { type Agent, type Subscription, verifyAudit } from "turnpike/agent";
import { writeAudit } from "turnpike/agent/file-ledger";
import type { Provider } from "turnpike/gate";
import type { Hex } from "turnpike/protocol";
import { expectCode, removeTerminals, terminal } from "../cli/support/run";
import { kindsOf, type MeteredBill, meteredBillBeforeEach } from "./support/metered-bill";
import { rejection } from "./support/rejection";
import type { Relay } from "./support/relay";
import type { StandIn } from "./support/servers";
import { addressOf } from "./support/world";

const reversedKeys = (one: object): object => Object.fromEntries(Object.entries(one).reverse());

describe("the file of an audit", function () {
  this.timeout(60_000);
  let bill: MeteredBill;
  let relay: Relay;
  let planId: Hex;
  let rpc: StandIn;
  let url: string;
  let provider: Provider;
  let agent: Agent;
  let subscription: Subscription;

  meteredBillBeforeEach((fresh) => {
    bill = fresh;
    ({ relay, planId, rpc, url, provider, agent, subscription } = fresh);
  });
  afterEach(removeTerminals);

  it("UR8 shows a third party each change of the file", async () => {
    await bill.call();
    await provider.flush();
    await bill.overcharge(777n, subscription.idHash);
    const { text } = await agent.audit();
    type Claim = { findings: unknown[]; turnpike: string; receipts: { receipt: Record<string, unknown> }[] };
    const changed = (edit: (one: Claim) => unknown): string => {
      const file = JSON.parse(text);
      edit(file.subscriptions[0]);
      return JSON.stringify(file);
    };
    const ordered = await bill.verify(
      changed((one) => Object.assign(one, { findings: one.findings.map((it) => reversedKeys(it as object)) })),
    );
    expect(ordered.differences, "the order of fields says nothing").to.deep.equal([]);
    const smaller = await bill.verify(changed((one) => Object.assign(one, { findings: [] })));
    expect(smaller.isClean).to.equal(false);
    expect(smaller.differences).to.deep.equal([`findings of ${subscription.idHash}`]);
    const raised = await bill.verify(
      changed(({ receipts: [first] }) => Object.assign(first?.receipt ?? {}, { total: "1777" })),
    );
    expect(kindsOf(raised)).to.deep.equal(["excess"]);
    expect(raised.unproven.map(({ kind }) => kind)).to.deep.equal(["forged"]);
    const dropped = await bill.verify(changed((one) => Object.assign(one, { receipts: [] })));
    expect(dropped.subscriptions[0]?.findings).to.deep.include({
      kind: "excess",
      idHash: subscription.idHash,
      version: 0,
      amount: 1_777n,
      paidThrough: dropped.subscriptions[0]?.cycles[0]?.paidThrough,
    });
    const elsewhere = changed((one) => Object.assign(one, { turnpike: addressOf("stranger") }));
    expect((await rejection(bill.verify(elsewhere))).code).to.equal("ConfigError");
    for (const broken of [
      "",
      "{}",
      "[]",
      changed(({ receipts: [first] }) => Object.assign(first?.receipt ?? {}, { sequence: 0 })),
      changed((one) => one.findings.push({ kind: "foreign", idHash: planId, reason: { toString: "" } })),
      changed((one) => one.findings.push({ kind: "foreign", idHash: planId, reason: "it is \u202e so" })),
      changed((one) => one.findings.push({ kind: "foreign", idHash: [], reason: "request" })),
      changed((one) => one.findings.push({ kind: "fraud" })),
      changed((one) => Object.assign(one, { cycles: [{ toJSON: 1 }] })),
    ]) {
      expect((await rejection(bill.verify(broken))).code).to.equal("InvalidRequest");
    }
  });

  it("UR12 accuses no provider by a receipt or a contract of the writer's own", async () => {
    await bill.call();
    await provider.flush();
    const file = JSON.parse((await agent.audit()).text);
    const [{ receipts, idHashes }] = file.subscriptions;
    const forged = { ...receipts[0], signature: `0x${"11".repeat(64)}1b` };
    receipts.push(forged, { ...forged, receipt: { ...forged.receipt, idHash: planId } });
    const verified = await bill.verify(JSON.stringify(file));
    expect([verified.isClean, kindsOf(verified)], idHashes[0]).to.deep.equal([true, []]);
    expect(verified.unproven.map(({ kind }) => kind)).to.have.members(["forged", "foreign"]);
    const unnamed = await rejection(verifyAudit(JSON.stringify(file), { rpc: rpc.url }));
    expect(unnamed.code, "the file's own contract could say anything").to.equal("ConfigError");
    expect(unnamed.message).to.contain("name the contract that you expect");
  });

  it("UR8 is not misled by a file that begins after the signup, or ends after the chain", async () => {
    await bill.call();
    await provider.flush();
    const [signup] = await relay.turnpike.queryFilter(relay.turnpike.filters.Subscribed(subscription.idHash));
    const fromBlock = signup?.blockNumber ?? 0;
    const audit = await agent.audit({ fromBlock });
    expect([audit.isClean, (await bill.verify(audit.text)).isClean], "rights are older").to.deep.equal([true, true]);
    const within = (range: object) => {
      const file = JSON.parse(audit.text);
      Object.assign(file.subscriptions[0], range);
      return rejection(bill.verify(JSON.stringify(file)));
    };
    expect((await within({ fromBlock: fromBlock + 1 })).code).to.equal("InvalidRequest");
    expect((await within({ toBlock: 10_000_000 })).code).to.equal("Unavailable");
    expect((await rejection(agent.audit({ fromBlock: fromBlock + 1 }))).code).to.equal("InvalidRequest");
  });

  it("UR8 is verified by `npx turnpike audit`, with an exit code for scripts", async () => {
    await bill.call();
    await provider.flush();
    const shell = terminal({ TURNPIKE_RPC_URL: rpc.url, TURNPIKE_ADDRESS: relay.addresses.turnpike });
    const file = path.join(shell.folder, "bill.json");
    await writeAudit(file, await agent.audit());
    expect(readFileSync(file, "utf8")).to.contain("turnpike-audit-1");
    const clean = await shell.run("audit", file);
    expect([clean.code, clean.err]).to.deep.equal([0, ""]);
    expect(clean.out).to.contain(subscription.idHash).and.contain("by receipts 0.001 (1000 base units)");
    await bill.overcharge(5n, subscription.idHash);
    await writeAudit(file, await agent.audit());
    const found = await shell.run("audit", file, "--json");
    expect(found.code).to.equal(1);
    const { clean: isClean, subscriptions } = found.json();
    expect(isClean).to.equal(false);
    expect(subscriptions[0].findings[0]).to.include({ kind: "excess", amount: "5" });
    expect((await terminal().run("audit", file)).code, "no RPC").to.equal(2);
    expect((await shell.run("audit", "none")).code).to.equal(2);
  });

  it("UR8 is refused by `npx turnpike audit` where it is no file of an audit, without reading it whole", async () => {
    const shell = terminal({ TURNPIKE_RPC_URL: rpc.url, TURNPIKE_ADDRESS: relay.addresses.turnpike });
    const file = path.join(shell.folder, "bill.json");
    writeFileSync(file, "garbage");
    expect((await shell.run("audit", file)).err).to.contain("is no JSON object");
    expect((await shell.run("audit", "/dev/zero")).err).to.contain("/dev/zero is no regular file");
    truncateSync(file, 2 ** 34);
    const huge = await shell.run("audit", file);
    expect([huge.code, huge.err]).to.satisfy(
      ([code, err]: [number, string]) => code === 2 && err.includes("is longer"),
    );
    await writeAudit(file, { text: '{"format":"turnpike-audit-1","subscriptions":[]}' });
    expect((await shell.run("audit", file)).out).to.contain("audits no subscription");
    expect((await shell.run("audit", file, "--rpc", "nowhere")).err).to.contain("--rpc is no http(s) URL");
  });

  it("is written by `npx turnpike audit --write`, with the receipts of all its commands", async () => {
    const shell = terminal({
      TURNPIKE_RPC_URL: rpc.url,
      TURNPIKE_FACILITATOR_URL: relay.url,
      TURNPIKE_ADDRESS: relay.addresses.turnpike,
      TURNPIKE_TOKEN: relay.addresses.token,
    });
    const signup = ["--max", "15.00", "--max-overage", "5.00", "--json"];
    const made = await shell.run("subscribe", `${url}/page`, "--plan", planId, ...signup);
    expectCode(made, 0);
    for (let i = 0; i < 2; i++) expectCode(await shell.run("pay", `${url}/page`, "--subscription"), 0);
    await provider.flush();
    const written = await shell.run("audit", "bill.json", "--write");
    expectCode(written, 0);
    expect(written.out).to.contain("receipts: 2").and.contain("by receipts 0.002 (2000 base units)");
    await bill.overcharge(5n, made.json().idHash);
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
