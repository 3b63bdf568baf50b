/** The digest of a day: what it says, who gets it, and that it comes once. */
import { expect } from "chai";
import { sql } from "kysely";
import { attentionSchema, eventListSchema, ledgerSchema, verifyWebhook } from "turnpike/facilitator";
import { type Address, networkOfChain } from "turnpike/protocol";
import { publishDigests } from "../../../facilitator/src/app/digests";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import { until } from "../../support/facilitator";
import { freshStore } from "../../support/store";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";
import { DAY_SEC, INTERVAL_SEC, PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";
import { type Receiver, startReceiver } from "./support/receiver";

const TYPE = "digest.daily";
const SETTINGS = { ALLOW_PRIVATE_WEBHOOKS: "true" };

describe("Facilitator: digests", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let receiver: Receiver;
  let key: string;
  let other: string;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service(SETTINGS);
    receiver = await startReceiver();
    key = await service.apiKey();
    other = await service.apiKey({ wallet: await world.payer(0n) });
  });
  after(async () => {
    await receiver.stop();
    await world.stop();
  });

  const call = (path: string, bearer: string, body?: object) =>
    fetch(service.url + path, {
      headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
    });
  const endpoint = async (path: string, bearer: string, more: object) =>
    (await (await call("/webhook-endpoints", bearer, { url: `${receiver.url}/${path}`, ...more })).json()) as {
      id: string;
      secret: string;
    };
  const digests = async (bearer = key) =>
    eventListSchema.parse(await (await call(`/events?type=${TYPE}`, bearer)).json()).events;
  const digestOf = async (fromSec: number) => (await digests()).find(({ data }) => data.from === fromSec);
  const sent = (path: string) => receiver.received.filter((each) => each.path.endsWith(`/${path}`));

  it("says what yesterday brought, as the ledger does, and what needs attention, to who asked for it alone", async () => {
    const asked = await endpoint("asked", key, { types: [TYPE], description: "chat" });
    await endpoint("everything", key, {});
    await endpoint("another", other, { types: [TYPE] });
    receiver.answer((response) => {
      response.writeHead(response.req.url?.endsWith("/fails") ? 500 : 204).end();
    });
    const failing = await endpoint("fails", key, { types: ["payment.failed"], description: "fails" });
    await call(`/webhook-endpoints/${failing.id}/test`, key, {});
    await until(async () => sent("fails").length > 0, "an attempt that failed");
    // A whole day, so that no test begins shortly before midnight.
    const startSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
    await world.chain.advance(DAY_SEC - (startSec % DAY_SEC) + 60);
    const firstSec = startSec - (startSec % DAY_SEC);
    const first = await until(() => digestOf(firstSec), "the digest of the day before the first payment");
    const payment = await world.signPayment({ payTo: world.provider.address as Address });
    expect((await service.client.authorize(paymentToWire(payment))).kind).to.equal("settled");
    const subscriber = await world.payer(PRICE + PRICE / 2n);
    const signup = await world.signup(subscriber, { permit: 5n * PRICE });
    expect((await service.client.subscribe(signup.request)).kind).to.equal("done");
    await world.chain.advance(DAY_SEC);
    const second = await until(() => digestOf(firstSec + DAY_SEC), "the digest of the day of the payment");
    const { body, headers } = await until(
      async () => sent("asked").find((each) => each.body.includes(second.id)),
      "its delivery",
    );
    const event = verifyWebhook(body, headers, asked.secret);
    if (event.type !== TYPE) return expect.fail(event.type);
    expect(event).to.include({ id: second.id, sequence: first.sequence + 1 });
    const { from, to, totals, pastDue, stuck, endpoints } = event.data;
    expect([to - from, from % DAY_SEC, pastDue, stuck]).to.deep.equal([DAY_SEC, 0, [], []]);
    expect(endpoints).to.have.length(1);
    expect(endpoints[0]).to.include({ id: failing.id, description: "fails", status: "enabled" });
    expect(endpoints[0]?.failures, "it is tried again meanwhile").to.be.above(0);
    const { movements } = ledgerSchema.parse(await (await call("/analytics/ledger", key)).json());
    const ofDay = movements.filter(({ at }) => at >= from && at < to);
    const sums = ofDay.map(({ kind, token, gross, refunded, net }) => {
      return { token, decimals: 6, kind, count: 1, gross, refunded, net };
    });
    expect(sums.map(({ kind }) => kind)).to.have.members(["one-time", "signup"]);
    expect(totals).to.have.deep.members(sums);
    // Each provider's digest is published by itself, after the one before it.
    const theirs = await until(async () => {
      const found = await digests(other);
      return found.length > 1 && found;
    }, "the other provider's two digests");
    expect(theirs.flatMap(({ data }) => data.totals)).to.deep.equal([]);
    expect(sent("everything").some(({ body }) => body.includes(TYPE))).to.equal(false);
    expect(sent("asked").every(({ body }) => JSON.parse(body).type === TYPE)).to.equal(true);
  });

  it("comes once for each day of the last week, however long no block came and however often the service starts, and names what is past due", async () => {
    await service.stop();
    service = await world.service(SETTINGS);
    const { length } = await digests();
    await world.chain.advance(INTERVAL_SEC);
    const week = await until(async () => {
      const found = (await digests()).slice(length);
      return found.length >= 7 && found;
    }, "the digests of a week after a month");
    expect(week.map(({ sequence }) => sequence)).to.deep.equal([1, 2, 3, 4, 5, 6, 7].map((each) => length + each));
    const days = week.map(({ data }) => Number(data.from));
    expect(days).to.deep.equal(days.map((_, index) => (days[0] ?? 0) + index * DAY_SEC));
    const newest = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
    expect(days.at(-1)).to.equal(newest - (newest % DAY_SEC) - DAY_SEC);
    const isTried = async () =>
      attentionSchema.parse(await (await call("/analytics/attention", key)).json()).pastDue[0];
    await until(isTried, "the renewal was tried");
    await world.chain.advance(DAY_SEC);
    const again = await until(async () => (await digests())[length + 7], "the next one");
    const ids = (await digests()).map(({ id }) => id);
    expect(new Set(ids).size).to.equal(ids.length);
    expect(again.sequence).to.equal(length + 8);
    const { pastDue } = again.data as { pastDue: { count: number; amount: string }[] };
    expect(pastDue.map(({ count, amount }) => [count, amount])).to.deep.equal([[1, PRICE.toString()]]);
  });

  it("refuses a type that does not exist by its field", async () => {
    const wrong = { url: receiver.url, types: ["digest.weekly"] };
    const problem = await expectProblem(await call("/webhook-endpoints", key, wrong), 400, "InvalidRequest");
    expect(problem.message).to.match(/^types\.0: /);
  });

  it("is published once by several processes at the same time, also by one that starts late", async () => {
    const store = await freshStore();
    const chainId = 31_337;
    const nowSec = 20_833 * DAY_SEC + 36_000;
    try {
      const row = { chain_id: chainId, parent_hash: "0x" };
      for (const [number, timestamp] of [
        [1, nowSec - 2 * DAY_SEC],
        [2, nowSec - 60],
        [3, nowSec],
      ] as const)
        await store.db
          .insertInto("blocks")
          .values({ ...row, number, hash: `0x${number}`, timestamp })
          .execute();
      const types = JSON.stringify([TYPE]);
      // The database refuses what would go to one of them, before or after the other's.
      await sql`alter table events add check (provider <> '0x0' and provider <> '0x2')`.execute(store.db);
      const endpoint = { chain_id: chainId, url: "https://x.example", types, description: "", queued_after: 0 };
      const enabled = { status: "enabled", disabled_reason: null, created_at_ms: 0 } as const;
      for (const digit of ["0", "1", "2"])
        await store.db
          .insertInto("webhook_endpoints")
          .values({ ...endpoint, ...enabled, id: `we${digit}`, provider: `0x${digit}` })
          .execute();
      const network = networkOfChain(chainId);
      const tokens = [{ address: "0x00000000000000000000000000000000000000C0", name: "T", version: "1", decimals: 6 }];
      const config = { chainId, network, finalityDepth: 1, allowPrivateWebhooks: false, tokens } as never;
      const feed = createEventFeed(chainId);
      const clock = { nowSec: () => nowSec };
      const context = {
        config,
        store,
        feed,
        clock,
        wallClock: { nowMs: () => nowSec * 1_000 },
        log: { warn: () => {} } as never,
      };
      await Promise.all(Array.from({ length: 4 }, () => publishDigests(context)));
      await publishDigests(context);
      const events = await store.db.selectFrom("events").select(["type", "sequence"]).execute();
      expect(events).to.deep.equal([{ type: TYPE, sequence: 1 }]);
      const deliveries = await store.db.selectFrom("webhook_deliveries").select("endpoint_id").execute();
      expect(deliveries).to.deep.equal([{ endpoint_id: "we1" }]);
    } finally {
      await store.close();
    }
  });
});
