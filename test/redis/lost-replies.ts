import { expect } from "chai";
import { redisClaims, redisMeter } from "turnpike/gate/redis";
import { attempt, idOf } from "../sdk/gate/support/claim-store";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";
import { linkTo, type RedisLink } from "../sdk/gate/support/redis-link";
import { MeteredChain } from "../support/metered-chain";
import { metersAfterEach } from "./support/meters";

const CAP = 1_000n;

describe("a Redis connection that breaks", function () {
  this.timeout(120_000);
  let redis: TestRedis;
  let link: RedisLink;
  let spaces = 0;
  const startMeter = metersAfterEach();

  before(async () => {
    redis = await startRedis();
    link = await linkTo(redis);
  });
  after(async () => {
    await link.stop();
    await redis.stop();
  });

  const gate = (chain: MeteredChain) => startMeter(redisMeter(link.client, { prefix: `{broken ${spaces++}}:` }), chain);

  it("HA29 has a charge made once whose reply was lost", async () => {
    const chain = new MeteredChain();
    const idHash = chain.subscribe(1, { cap: CAP });
    const meter = await gate(chain);
    await meter.reserve(idHash, 1n, chain.facts(idHash));
    link.loseReply();
    const { charged, receipt } = await meter.reserve(idHash, 10n, chain.facts(idHash));
    expect([charged, receipt?.sequence, meter.unsettled().unsettled]).to.deep.equal([10n, 2, 11n]);
    await meter.flush();
    expect(chain.sumDebited()).to.equal(11n);
  });

  it("HA29 has nothing charged or claimed that was refused meanwhile", async () => {
    const chain = new MeteredChain();
    const idHash = chain.subscribe(1, { cap: CAP });
    const meter = await gate(chain);
    const store = redisClaims(link.client);
    await meter.reserve(idHash, 1n, chain.facts(idHash));
    await attempt(store, idOf("before"));
    link.cut();
    const refused = [meter.reserve(idHash, 10n, chain.facts(idHash)), attempt(store, idOf("late"))];
    const codes = await Promise.all(refused.map((one) => one.catch(({ code }) => code)));
    expect(codes).to.deep.equal(["Unavailable", "Unavailable"]);
    link.restore();
    await link.client.ping();
    await meter.flush();
    expect(chain.sumDebited()).to.equal(1n);
    expect((await attempt(store, idOf("late"))).kind, "free for the next request").to.equal("acquired");
  });

  it("HA29 has a payment claimed and used once, whichever reply was lost", async () => {
    const store = redisClaims(link.client);
    link.loseReply();
    const { kind, owner } = await attempt(store, idOf("lost"));
    expect([kind, (await attempt(redisClaims(redis.client), idOf("lost"))).kind]).to.deep.equal([
      "acquired",
      "running",
    ]);
    link.loseReply();
    const answer = { text: "1.k.sealed", nowMs: 1, keepSec: 600 };
    expect(await store.apply(idOf("lost"), { act: "use", owner }, answer)).to.equal(true);
    expect(await store.served?.(idOf("lost"), 1)).to.deep.equal({ answer: answer.text });
  });
});
