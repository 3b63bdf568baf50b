import { readdir } from "node:fs/promises";
import { expect } from "chai";
import { fileReceipts } from "turnpike/agent/file-ledger";
import { type Hex, parseUsageReceipt } from "turnpike/protocol";
import { type MeteredSeller, startMeteredSeller } from "../agent/support/metered-bill";
import { type Relay, startRelay } from "../agent/support/relay";
import { closeAll } from "../agent/support/servers";
import { addressOf, CHAIN_ID } from "../agent/support/world";
import { Desk } from "./support/host";

describe("mcp wallet > usage receipts", () => {
  let desk: Desk;
  let relay: Relay;
  let seller: MeteredSeller;

  before(async () => {
    desk = await Desk.open();
    relay = await startRelay();
    const planId = await relay.createPlan();
    await relay.fund(addressOf("payer"));
    seller = await startMeteredSeller(relay, planId);
    await desk.configure(relay.url, {
      policy: { perDay: "$50.00", perSubscription: "$30.00", tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      origins: [seller.url],
      privateOrigins: [seller.url],
    });
  });
  after(async () => {
    await desk.close();
    await seller.stop();
    await closeAll();
  });

  it("are kept beside the ledger, by every host of it, for an audit", async () => {
    const page = { url: `${seller.url}/page` };
    const [one, other] = [await desk.host(), await desk.host()];
    const { facts } = await one.call("subscribe", { ...page, maxOverage: "$5.00" });
    expect(facts.status).to.equal("ACTIVE");
    for (const host of [one, other]) expect((await host.call("fetch", page)).facts.status).to.equal(200);

    const folder = `${desk.ledger}.receipts`;
    const [file = "", ...others] = await readdir(folder);
    expect(others).to.deep.equal([]);
    const [, , idHash] = file.replace(".receipts", "").split("-");
    const subscription = { chainId: CHAIN_ID, turnpike: relay.addresses.turnpike, idHash: idHash as Hex };
    const kept = await fileReceipts(folder).list(subscription);
    expect(kept.map(({ fault }) => fault)).to.deep.equal([undefined, undefined]);
    const numbers = kept.map(({ text }) => parseUsageReceipt(text)?.receipt.sequence);
    expect(numbers).to.deep.equal([1, 2]);
  }).timeout(120_000);
});
