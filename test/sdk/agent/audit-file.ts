import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import type { Agent, Subscription } from "turnpike/agent";
import { writeAudit } from "turnpike/agent/file-ledger";
import type { Provider } from "turnpike/gate";
import type { Hex } from "turnpike/protocol";
import { expectCode, removeTerminals, terminal } from "../cli/support/run";
import { kindsOf, type MeteredBill, meteredBillBeforeEach } from "./support/metered-bill";
import { rejection } from "./support/rejection";
import type { Relay } from "./support/relay";
import type { StandIn } from "./support/servers";
import { addressOf } from "./support/world";

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
    const smaller = await bill.verify(changed((one) => Object.assign(one, { findings: [] })));
    expect(smaller.isClean).to.equal(false);
    expect(smaller.differences).to.deep.equal([`findings of ${subscription.idHash}`]);
    const raised = await bill.verify(
      changed(({ receipts: [first] }) => Object.assign(first?.receipt ?? {}, { total: "1777" })),
    );
    expect(kindsOf(raised)).to.include.members(["forged", "excess"]);
    const dropped = await bill.verify(changed((one) => Object.assign(one, { receipts: [] })));
    expect(dropped.subscriptions[0]?.findings).to.deep.include({
      ...{ kind: "excess", idHash: subscription.idHash, version: 0, amount: 1_777n },
      paidThrough: dropped.subscriptions[0]?.cycles[0]?.paidThrough,
    });
    const elsewhere = changed((one) => Object.assign(one, { turnpike: addressOf("stranger") }));
    expect((await rejection(bill.verify(elsewhere))).code).to.equal("ConfigError");
    for (const broken of [
      "",
      "{}",
      "[]",
      changed(({ receipts: [first] }) => Object.assign(first?.receipt ?? {}, { sequence: 0 })),
    ]) {
      expect((await rejection(bill.verify(broken))).code).to.equal("InvalidRequest");
    }
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
