import { readFile, writeFile } from "node:fs/promises";
import { expect } from "chai";
import { closeAll, type Seen, type StandIn, serve } from "../agent/support/servers";
import type { FacilitatorStandIn } from "../agent/support/world";
import { testKey } from "../agent/support/world";
import { Desk } from "./support/host";
import { openShop, type Shop } from "./support/shop";

describe("mcp wallet > hosts", () => {
  let desk: Desk;
  before(async () => {
    desk = await Desk.open();
  });
  after(() => desk.close());
  let shop: Shop;
  afterEach(async () => {
    await shop.gate.stop();
    await closeAll();
    await desk.clearLedger();
  });

  it("MW5 two at once on one ledger never spend more than the budget", async () => {
    shop = await openShop({ "/report": {} });
    await desk.configure(shop.facilitatorUrl, { policy: { perDay: "$1.00" }, privateOrigins: [shop.url] });
    const hosts = await Promise.all([desk.host(), desk.host()]);
    const calls = hosts.flatMap((host, n) =>
      [1, 2, 3].map((i) => host.call("pay", { url: `${shop.url}/report?${n}${i}` })),
    );
    const results = await Promise.all(calls);
    const refused = results.filter(({ isError }) => isError).map(({ facts }) => facts.reason);
    expect(refused).to.deep.equal(Array(4).fill("per_day"));
    expect([shop.chain.transfers.length, shop.facilitator.signatures.size]).to.deep.equal([2, 2]);
    const [one, other] = await Promise.all(hosts.map((host) => host.call("budget")));
    expect([one?.facts.remaining, other?.facts.remaining]).to.deep.equal(
      Array(2).fill({ decimal: "0.00", baseUnits: "0" }),
    );
    await Promise.all(hosts.map((host) => host.stop()));
  }).timeout(120_000);

  for (const isSettled of [true, false]) {
    const when = isSettled ? "after the transfer" : "before the transfer";
    it(`MW6 killed between signature and answer, ${when}: the repeated call pays once`, async () => {
      const arrived = deferred();
      const killed = deferred();
      shop = await openShop({ "/report": {} }, async (facilitator) => {
        const front = await lossyFront(facilitator, { isSettled, arrived: arrived.resolve, killed: killed.promise });
        return front.url;
      });
      await desk.configure(shop.facilitatorUrl, { privateOrigins: [shop.url] });
      const first = await desk.host();
      const lost = first.call("pay", { url: `${shop.url}/report` }).catch(() => "lost");
      await arrived.promise;
      process.kill(first.pid, "SIGKILL");
      killed.resolve();
      expect(await lost).to.equal("lost");
      await desk.ageLock();
      const second = await desk.host();
      const bought = await second.call("pay", { url: `${shop.url}/report` });
      expect([bought.isError, bought.facts.paid?.paidByEarlierCall], bought.whole).to.deep.equal([false, true]);
      expect([shop.chain.transfers.length, shop.facilitator.signatures.size]).to.deep.equal([1, 1]);
      expect((await second.call("budget")).facts.spentInLast24Hours.decimal).to.equal("0.50");
      await second.stop();
    }).timeout(120_000);
  }

  it("MW3 without a file that can be used pays nothing, and every tool says so", async () => {
    shop = await openShop({ "/report": {} });
    await desk.configure(shop.facilitatorUrl, { privateOrigins: [shop.url], policies: {} });
    const [none, spoiled] = await Promise.all([desk.host({ config: "" }), desk.host()]);
    for (const host of [none, spoiled]) {
      for (const [tool, args] of Object.entries({
        pay: { url: `${shop.url}/report` },
        budget: {},
        subscriptions: {},
      })) {
        const { isError, facts } = await host.call(tool, args);
        expect([isError, facts.reason], tool).to.deep.equal([true, "not_configured"]);
        expect(facts.message).to.contain("pays nothing");
      }
    }
    expect(shop.gate.served.size + shop.chain.transfers.length).to.equal(0);
    await Promise.all([none.stop(), spoiled.stop()]);
  });

  it("MW1 MW10 reaches nothing inside, follows no redirect away, and logs no secret; the file cannot change under it", async () => {
    shop = await openShop({ "/report": {} });
    const inside = await serve(() => ({ status: 200, json: {} }));
    const leading = await serve(({ url }) => ({
      status: 307,
      headers: { location: url === "/within" ? "/away" : `${inside.url}/metadata` },
    }));
    await desk.configure(shop.facilitatorUrl, { privateOrigins: [shop.url, leading.url] });
    const host = await desk.host();
    // The limits are those of the start: who can write the file later gains nothing until a restart.
    const config = JSON.parse(await readFile(desk.file, "utf8"));
    await writeFile(desk.file, JSON.stringify({ ...config, privateOrigins: [inside.url] }));
    for (const tool of ["fetch", "quote", "pay", "subscribe"]) {
      const refused = await host.call(tool, { url: `${inside.url}/metadata` });
      expect([refused.isError, refused.facts.reason], tool).to.deep.equal([true, "address"]);
    }
    const led = await host.call("fetch", { url: `${leading.url}/within` });
    expect(led.facts).to.deep.include({ status: 307, paid: null });
    expect(led.parts[0]?.text).to.contain(`\nlocation: ${inside.url}/metadata\n`);
    expect(leading.seen.map(({ url }) => url)).to.deep.equal(["/within", "/away"]);
    expect(inside.seen).to.deep.equal([]);
    await host.call("pay", { url: `${shop.url}/report` });
    await host.stop();
    const log = await host.log;
    expect(log).to.contain("payment.settled");
    for (const secret of [testKey("payer"), ...shop.facilitator.signatures]) {
      expect(log.toLowerCase()).to.not.contain(secret.slice(2).toLowerCase());
    }
  });
});

function deferred(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve: () => resolve() };
}

/** A Facilitator whose first answer is lost with the wallet that waits for it. */
function lossyFront(
  facilitator: FacilitatorStandIn,
  { isSettled, arrived, killed }: { isSettled: boolean; arrived: () => void; killed: Promise<void> },
): Promise<StandIn> {
  let isFirst = true;
  return serve(async ({ method, url, body }: Seen) => {
    const isLost = isFirst && url === "/authorize";
    if (isLost) isFirst = false;
    const forward = async () => {
      const init = method === "POST" ? { method, body, headers: { "content-type": "application/json" } } : {};
      const answer = await fetch(`${facilitator.url}${url}`, init);
      return { status: answer.status, json: await answer.json() };
    };
    if (!isLost) return forward();
    if (isSettled) await forward();
    else facilitator.signatures.add(JSON.parse(body).signedPayment.signature);
    arrived();
    await killed;
    return { status: 0, drop: true };
  });
}
