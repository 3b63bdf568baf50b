import { expect } from "chai";
import { Redis } from "ioredis";
import { redisClaims } from "turnpike/gate/redis";
import { redisCells } from "../../sdk/src/gate/cells/redis";
import { attempt, idOf, NOW_SEC, testClaimStore, timedByActs } from "../sdk/gate/support/claim-store";
import { testOneGrant } from "../sdk/gate/support/one-grant";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";

describe("claims in Redis", function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let prefixes = 0;

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  const options = () => ({ prefix: `test ${prefixes++}:`, lists: false });
  testClaimStore(() => timedByActs(redisCells(redis.client, options())));

  describe("through a client of the other library's shape", () => {
    const client = { sendCommand: ([command = "", ...args]: string[]) => redis.client.call(command, ...args) };
    testClaimStore(() => timedByActs(redisCells(client, options())));
  });

  it("survive a server that forgot its scripts, and are forgotten after their time", async () => {
    const store = redisClaims(redis.client);
    expect((await attempt(store, idOf("a"))).kind).to.equal("acquired");
    await redis.client.script("FLUSH");
    expect((await attempt(store, idOf("b"))).kind).to.equal("acquired");
    const keepsSec = await redis.client.ttl(`turnpike:claim:${idOf("b")}`);
    expect(keepsSec).to.be.within(1_000, 1_000 + 3_600);
    await store.apply(idOf("b"), { act: "use", owner: "someone else" });
    expect(await redis.client.ttl(`turnpike:claim:${idOf("b")}`)).to.be.within(1_000, keepsSec);
  });

  it("HA1 share one grant key among the gates of one space, also when they start at once", async () => {
    const stores = Array.from({ length: 6 }, () => redisClaims(redis.client, { prefix: "keys:" }));
    const keys = await Promise.all(stores.map((store) => store.grantKey()));
    expect(new Set(keys).size).to.equal(1);
  });

  it("HA6 forget an answer after its time, and keep it in the slot of its claim", async () => {
    const store = redisClaims(redis.client);
    const { owner } = await attempt(store, idOf("answered"));
    const answer = { text: "1.k.sealed", nowMs: 1, keepSec: 600 };
    await store.apply(idOf("answered"), { act: "use", owner }, answer);
    const claim = `turnpike:claim:${idOf("answered")}`;
    const [name] = await redis.client.keys("turnpike:claim:answer@*");
    // A cluster places a key by what its braces hold: here the whole name of the claim.
    expect(name).to.equal(`turnpike:claim:answer@{${claim}}`);
    expect(await redis.client.ttl(name as string)).to.be.within(1, 600);
    await redis.client.del(name as string);
    expect(await store.served?.(idOf("answered"), 1)).to.deep.equal({ answer: undefined });
  });

  it("are an outage while the server cannot be reached, and reported without its address", async () => {
    const away = new Redis("redis://user:hidden@127.0.0.1:1", { maxRetriesPerRequest: 0, lazyConnect: true });
    away.on("error", () => undefined);
    const fault = await redisClaims(away)
      .claim(idOf("a"), { act: "claim", owner: "o", nowMs: 1, leaseMs: 1, keepUntilSec: NOW_SEC }, NOW_SEC)
      .catch((error: Error) => error);
    expect(fault).to.include({ code: "Unavailable" });
    expect(String((fault as Error).message)).to.not.match(/hidden|127/);
    away.disconnect();
  });

  testOneGrant("Redis", () => ({ kind: "redis", socket: redis.socket }));
});
