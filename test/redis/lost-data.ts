import { expect } from "chai";
import { redisClaims, redisMeter } from "turnpike/gate/redis";
import { cellsOn } from "../../sdk/src/gate/cells/cells";
import { redisCells } from "../../sdk/src/gate/cells/redis";
import { CLAIM_STORE, claimsOn } from "../../sdk/src/gate/purchases/store";
import { attempt, idOf } from "../sdk/gate/support/claim-store";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";

describe("a Redis that loses what it holds", function () {
  this.timeout(120_000);
  let redis: TestRedis;
  const warnings: string[] = [];
  const note = ({ message }: Error): void => void warnings.push(message);

  beforeEach(() => {
    warnings.splice(0);
    process.on("warning", note);
  });
  afterEach(async () => {
    process.off("warning", note);
    await redis.stop();
  });

  const faultOf = (made: Promise<unknown>) => made.then(String, ({ code, message }) => `${code}: ${message}`);

  for (const policy of ["allkeys-lru", "volatile-ttl"]) {
    it(`HA28 is refused at the start where it evicts: ${policy}`, async () => {
      redis = await startRedis("--maxmemory", "64mb", "--maxmemory-policy", policy);
      const refused = `ConfigError: Redis deletes claims and charges when its memory is full: maxmemory-policy is ${policy}. Set it to noeviction`;
      expect(await faultOf(redisClaims(redis.client).ready?.() ?? Promise.resolve())).to.equal(refused);
      expect(await faultOf(attempt(redisClaims(redis.client), idOf("a")))).to.equal(refused);
      expect(await faultOf(redisMeter(redis.client).open())).to.equal(refused);
    });
  }

  it("HA28 may have any policy without a limit, and one that is full refuses what it cannot keep", async () => {
    redis = await startRedis("--maxmemory-policy", "allkeys-lru");
    await redisClaims(redis.client).ready?.();
    await redis.client.config("SET", "maxmemory-policy", "noeviction");
    const store = redisClaims(redis.client);
    const { owner } = await attempt(store, idOf("a"));
    await redis.client.config("SET", "maxmemory", "1mb");
    expect(await faultOf(attempt(store, idOf("b")))).to.match(/^Unavailable: The claim store/);
    expect(await faultOf(store.ready?.() ?? Promise.resolve())).to.match(/^Unavailable: The claim store/);
    await redis.client.config("SET", "maxmemory", "0");
    expect(await store.apply(idOf("a"), { act: "use", owner })).to.equal(true);
  });

  it("HA28 is used where it does not say how it is set, and warns where a restart would empty it", async () => {
    redis = await startRedis("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru");
    await redis.client.call("ACL", "SETUSER", "default", "-info");
    await redisClaims(redis.client).ready?.();
    await redis.stop();
    redis = await startRedis("--appendonly", "no");
    await redisClaims(redis.client).ready?.();
    await new Promise(setImmediate);
    expect(warnings.filter((text) => text.includes("appendonly no"))).to.have.length(1);
  });

  it("HA28 gives every gate its new grant key, so that no x402 payment is granted twice", async () => {
    redis = await startRedis();
    const cells = cellsOn(redisCells(redis.client, { prefix: "lost:", lists: false }), { what: CLAIM_STORE });
    const [running, other] = [claimsOn(cells, { grantKeyAgeMs: 0 }), claimsOn(cells)];
    const before = await running.grantKey();
    expect(await running.grantKey()).to.equal(before);
    await redis.client.flushall();
    const after = await other.grantKey();
    expect(after).to.not.equal(before);
    expect(await running.grantKey()).to.equal(after);
    await new Promise(setImmediate);
    expect(warnings.filter((text) => text.includes("has lost what it held"))).to.have.length(1);
  });
});
