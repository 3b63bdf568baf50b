import { expect } from "chai";
import { Redis } from "ioredis";
import { type RedisClient, redisClaims, redisMeter } from "turnpike/gate/redis";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";
import { MeteredChain } from "../support/metered-chain";
import { metersAfterEach } from "./support/meters";

const faultOf = (made: Promise<unknown> | undefined) =>
  Promise.resolve(made).then(String, ({ code, message }) => `${code}: ${message}`);

describe("the client of a Redis", function () {
  this.timeout(120_000);
  let redis: TestRedis;
  const startMeter = metersAfterEach();

  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  it("HA34 has its keyPrefix counted, so that another gate debits the charges", async () => {
    const chain = new MeteredChain();
    const idHash = chain.subscribe(1, { cap: 1_000n });
    const client = new Redis(redis.socket, { keyPrefix: "shop:" });
    const meter = await startMeter(redisMeter(client), chain);
    await meter.reserve(idHash, 10n, chain.facts(idHash));
    await meter.stop();
    const next = await startMeter(redisMeter(client), chain);
    await next.flush();
    expect(chain.sumDebited()).to.equal(10n);
    expect((await redis.client.keys("*")).every((key) => key.startsWith("shop:"))).to.equal(true);
    await next.stop();
    client.disconnect();
  });

  it("HA34 must be one: a promise of it, or another library's, is refused where the store is made", () => {
    const promised = Promise.resolve(redis.client) as unknown as RedisClient;
    expect(() => redisClaims(promised)).to.throw("client is a promise: await it");
    const other = { get: () => undefined } as unknown as RedisClient;
    expect(() => redisMeter(other)).to.throw(
      "client has neither call nor sendCommand: pass a client of ioredis or of redis 4 or later",
    );
    expect(() => redisMeter(undefined as unknown as RedisClient)).to.throw("client is undefined");
  });

  it("HA34 of a read-only replica is an outage with its remedy, which a promotion ends", async () => {
    const replica = await startRedis();
    await replica.client.call("REPLICAOF", "127.0.0.1", "1");
    const store = redisClaims(replica.client);
    const remedy = "It is a read-only replica: connect to its master.";
    expect(await faultOf(store.ready?.())).to.equal(`Unavailable: The claim store cannot be used. ${remedy}`);
    expect(await faultOf(redisMeter(replica.client).open())).to.equal(
      `Unavailable: The meter's store cannot be used. ${remedy}`,
    );
    await replica.client.call("REPLICAOF", "NO", "ONE");
    await store.ready?.();
    await replica.stop();
  });

  it("HA34 that the server refuses is an outage with its remedy, without the password", async () => {
    const locked = await startRedis();
    await locked.client.config("SET", "requirepass", "hidden");
    const client = new Redis(locked.socket, { password: "wrong-one", lazyConnect: true });
    client.on("error", () => undefined);
    const fault = await faultOf(redisClaims(client).ready?.());
    expect(fault).to.equal(
      "Unavailable: The claim store cannot be used. It refuses the client: check the client's user and password.",
    );
    client.disconnect();
    await locked.client.call("ACL", "SETUSER", "default", "-evalsha");
    expect(await faultOf(redisClaims(locked.client).ready?.())).to.equal(
      "Unavailable: The claim store cannot be used. It refuses a command to the client's user: allow EVAL, EVALSHA, MGET, SMEMBERS and the keys under the prefix.",
    );
    await locked.stop();
  });

  it("HA34 may be refused a write for want of replicas, and then its route has no price", async () => {
    const alone = await startRedis("--min-replicas-to-write", "1");
    expect(await faultOf(redisClaims(alone.client).ready?.())).to.equal(
      "Unavailable: The claim store cannot be used. It has fewer replicas than min-replicas-to-write.",
    );
    await alone.stop();
  });
});
