import { expect } from "chai";
import { redisClaims, redisMeter } from "turnpike/gate/redis";
import { redisCells } from "../../sdk/src/gate/cells/redis";
import { attempt, idOf, testClaimStore, timedByActs } from "../sdk/gate/support/claim-store";
import { startRedis, type TestRedis } from "../sdk/gate/support/redis";
import { linkTo, type RedisLink } from "../sdk/gate/support/redis-link";
import { MeteredChain } from "../support/metered-chain";
import { metersAfterEach } from "./support/meters";
import { clientAt, connected, disconnectAll, libraryOf, type NodeRedis, VERSIONS } from "./support/node-redis";

describe("Redis through the package `redis`", function () {
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
    await disconnectAll();
    await link.stop();
    await redis.stop();
  });

  const space = () => `{space ${spaces++}}:`;
  const faultOf = (made: Promise<unknown> | undefined) =>
    Promise.resolve(made).then(String, ({ code, message }) => `${code}: ${message}`);

  for (const version of VERSIONS) {
    describe(version, () => {
      let client: NodeRedis;
      let overLink: NodeRedis;

      before(async () => {
        client = await clientAt(version, redis.socket);
        overLink = await clientAt(version, link.socket);
      });

      testClaimStore(() => timedByActs(redisCells(client, { prefix: space(), lists: false })));

      it("HA29 has a charge made once whose reply was lost", async () => {
        const chain = new MeteredChain();
        const idHash = chain.subscribe(1, { cap: 1_000n });
        const meter = await startMeter(redisMeter(overLink, { prefix: space() }), chain);
        await meter.reserve(idHash, 1n, chain.facts(idHash));
        link.loseReply();
        const { charged, receipt } = await meter.reserve(idHash, 10n, chain.facts(idHash));
        expect([charged, receipt?.sequence, meter.unsettled().unsettled]).to.deep.equal([10n, 2, 11n]);
        await meter.flush();
        expect(chain.sumDebited()).to.equal(11n);
      });

      it("HA29 has a payment claimed and used once, whichever reply was lost", async () => {
        const store = redisClaims(overLink, { prefix: space() });
        link.loseReply();
        const { kind, owner } = await attempt(store, idOf("lost"));
        expect(kind).to.equal("acquired");
        link.loseReply();
        const answer = { text: "1.k.sealed", nowMs: 1, keepSec: 600 };
        expect(await store.apply(idOf("lost"), { act: "use", owner }, answer)).to.equal(true);
        expect(await store.served?.(idOf("lost"), 1)).to.deep.equal({ answer: answer.text });
      });

      it("HA29 has nothing charged that was refused while the server was away", async () => {
        const chain = new MeteredChain();
        const idHash = chain.subscribe(1, { cap: 1_000n });
        const meter = await startMeter(redisMeter(overLink, { prefix: space() }), chain);
        await meter.reserve(idHash, 1n, chain.facts(idHash));
        link.cut();
        const { code } = await meter.reserve(idHash, 10n, chain.facts(idHash)).catch((error) => error);
        expect(code).to.equal("Unavailable");
        link.restore();
        await redisClaims(overLink, { prefix: space() }).ready?.();
        await meter.flush();
        expect(chain.sumDebited()).to.equal(1n);
      });

      it("HA34 names the remedy where nobody has connected the client", async () => {
        const closed = libraryOf(version).createClient({ socket: { path: redis.socket, tls: false } });
        const remedy = "The client is not connected: await its connect() before the gate starts.";
        expect(await faultOf(redisClaims(closed).ready?.())).to.equal(
          `Unavailable: The claim store cannot be used. ${remedy}`,
        );
        expect(await faultOf(redisMeter(closed).open())).to.equal(
          `Unavailable: The meter's store cannot be used. ${remedy}`,
        );
      });
    });
  }

  for (const version of ["redis-5", "redis-6"] as const) {
    it(`HA34 claims and charges through a pool of clients: ${version}`, async () => {
      const pool = await connected(libraryOf(version).createClientPool({ socket: { path: redis.socket, tls: false } }));
      const store = redisClaims(pool, { prefix: space() });
      await store.ready?.();
      expect((await attempt(store, idOf("pooled"))).kind).to.equal("acquired");
      expect((await attempt(store, idOf("pooled"))).kind).to.equal("running");
      const chain = new MeteredChain();
      const idHash = chain.subscribe(1, { cap: 1_000n });
      const meter = await startMeter(redisMeter(pool, { prefix: space() }), chain);
      await Promise.all(Array.from({ length: 20 }, () => meter.reserve(idHash, 1n, chain.facts(idHash))));
      await meter.flush();
      expect(chain.sumDebited()).to.equal(20n);
    });
  }

  it("HA34 reads replies that a client maps to buffers", async () => {
    const { RESP_TYPES } = libraryOf("redis-6");
    const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer };
    const client = await clientAt("redis-6", redis.socket, { commandOptions: { typeMapping } });
    const store = redisClaims(client, { prefix: space() });
    expect(await store.grantKey()).to.match(/^0x[0-9a-f]{64}$/);
    const { owner } = await attempt(store, idOf("buffered"));
    await store.apply(idOf("buffered"), { act: "use", owner }, { text: "1.k.sealed", nowMs: 1, keepSec: 600 });
    expect(await store.served?.(idOf("buffered"), 1)).to.deep.equal({ answer: "1.k.sealed" });
    const chain = new MeteredChain();
    const idHash = chain.subscribe(1, { cap: 1_000n });
    const prefix = space();
    const meter = await startMeter(redisMeter(client, { prefix }), chain);
    await meter.reserve(idHash, 10n, chain.facts(idHash));
    await meter.stop();
    const next = await startMeter(redisMeter(client, { prefix }), chain);
    await next.flush();
    expect(chain.sumDebited()).to.equal(10n);
  });

  it("HA34 refuses a client of redis 4 in its legacy mode, which returns no promises", async () => {
    const client = await clientAt("redis-4", redis.socket, { legacyMode: true });
    const refused =
      "ConfigError: client returns no promise: leave out legacyMode of redis 4, or use ioredis or redis 4 or later";
    expect(await faultOf(redisClaims(client).ready?.())).to.equal(refused);
  });
});
