import { expect } from "chai";
import type { Redis } from "ioredis";
import type { RedisClient } from "turnpike/gate/redis";
import { redisClaims, redisMeter } from "turnpike/gate/redis";
import { cellsOn } from "../../sdk/src/gate/cells/cells";
import { redisCells } from "../../sdk/src/gate/cells/redis";
import { METER_STORE } from "../../sdk/src/gate/metering/shared-store";
import { attempt, idOf, testClaimStore, timedByActs } from "../sdk/gate/support/claim-store";
import { testSharedMeter } from "../sdk/gate/support/shared-meter";
import { MeteredChain } from "../support/metered-chain";
import { clusterOf, moveSlot, startCluster, type TestCluster } from "./support/cluster";
import { metersAfterEach } from "./support/meters";
import { connected, disconnectAll, libraryOf, VERSIONS } from "./support/node-redis";

const LIBRARIES = ["ioredis", ...VERSIONS] as const;

const faultOf = (made: Promise<unknown> | undefined) =>
  Promise.resolve(made).then(String, ({ code, message }) => `${code}: ${message}`);

describe("a Redis Cluster", function () {
  this.timeout(180_000);
  let cluster: TestCluster;
  let spaces = 0;
  const opened: { disconnect(): void }[] = [];
  const startMeter = metersAfterEach();

  before(async () => {
    cluster = await startCluster();
  });
  after(async () => {
    for (const client of opened) client.disconnect();
    await disconnectAll();
    await cluster.stop();
  });

  function ioredis(options: object = {}) {
    const client = clusterOf(cluster, options);
    client.on("error", () => undefined);
    opened.push(client);
    return client;
  }

  async function clientOf(library: (typeof LIBRARIES)[number]): Promise<RedisClient> {
    if (library === "ioredis") return ioredis();
    const rootNodes = cluster.ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }));
    return connected(libraryOf(library).createCluster({ rootNodes, useReplicas: true }));
  }

  for (const library of LIBRARIES) {
    describe(`through ${library}`, () => {
      let client: RedisClient;

      before(async () => {
        client = await clientOf(library);
        await redisClaims(client).ready?.();
      });

      testClaimStore(() => timedByActs(redisCells(client, { prefix: `claims ${spaces++}:`, lists: false })));

      it("HA35 keeps claims on every master, and uses each once", async () => {
        const store = redisClaims(client, { prefix: `spread ${spaces++}:` });
        const held = await Promise.all(Array.from({ length: 60 }, (_, i) => attempt(store, idOf(i))));
        const used = held.map(({ owner }, i) => store.apply(idOf(i), { act: "use", owner }));
        expect((await Promise.all(used)).every(Boolean)).to.equal(true);
        const again = await Promise.all(Array.from({ length: 60 }, (_, i) => attempt(store, idOf(i))));
        expect(new Set(again.map(({ kind }) => kind))).to.deep.equal(new Set(["used"]));
        const kept = await Promise.all(cluster.masters.map((one) => one.client.keys(`spread ${spaces - 1}:0x*`)));
        expect(kept.every((keys) => keys.length > 0)).to.equal(true);
      });

      it("HA35 charges each call once while its slot moves to another master", async () => {
        const prefix = `{moved ${spaces++}}:`;
        const chain = new MeteredChain();
        const idHash = chain.subscribe(1, { cap: 1_000n });
        const meter = await startMeter(redisMeter(client, { prefix }), chain);
        const outcomes: (bigint | string)[] = [];
        const charge = async () => {
          const made = meter.reserve(idHash, 1n, chain.facts(idHash));
          outcomes.push(await made.then(({ charged }) => charged).catch(({ code }) => code));
        };
        await charge();
        await moveSlot(cluster, await cluster.ownersOf(prefix), charge);
        await charge();
        await meter.flush();
        const charged = outcomes.filter((one) => one === 1n).length;
        expect(new Set(outcomes.filter((one) => one !== 1n && one !== "Unavailable"))).to.deep.equal(new Set());
        expect([outcomes[0], outcomes.at(-1)]).to.deep.equal([1n, 1n]);
        expect(chain.sumDebited(), `${outcomes}`).to.equal(BigInt(charged));
      });
    });
  }

  describe("meters that share it", () => {
    let client: RedisClient;

    before(async () => {
      client = await clientOf("redis-6");
    });

    testSharedMeter((space) =>
      cellsOn(redisCells(client, { prefix: `{${space}}`, lists: true }), { what: METER_STORE }),
    );
  });

  it("HA35 is refused through a client of one of its servers, whichever it is", async () => {
    for (const { client } of cluster.masters) {
      const refused =
        "ConfigError: client is of one server, but this Redis is a cluster: use `new Cluster(...)` of ioredis, or `createCluster(...)` of redis";
      expect(await faultOf(redisClaims(client).ready?.())).to.equal(refused);
      expect(await faultOf(redisMeter(client).open())).to.equal(refused);
    }
  });

  it("HA35 is refused where a prefix spreads what must change together", async () => {
    const meter = redisMeter(ioredis(), { prefix: "meter:" });
    expect(await faultOf(meter.open())).to.equal(
      'ConfigError: prefix "meter:" spreads what changes together over a Redis Cluster: put it in braces, as in "{meter}:"',
    );
    expect(await faultOf(redisClaims(ioredis(), { prefix: "a{b:" }).ready?.())).to.equal(
      'ConfigError: prefix "a{b:" spreads what changes together over a Redis Cluster: leave the braces out',
    );
    const prefixed = redisClaims(ioredis({ keyPrefix: "shop:" }));
    expect(await faultOf(prefixed.ready?.())).to.equal(
      'ConfigError: keyPrefix "shop:" of the client spreads what changes together over a Redis Cluster: leave it out, and set the store\'s own prefix',
    );
    await redisClaims(ioredis(), { prefix: "{shop}:" }).ready?.();
  });

  it("HA35 is refused where the client reads from replicas, which lag", async () => {
    expect(await faultOf(redisClaims(ioredis({ scaleReads: "all" })).ready?.())).to.equal(
      'ConfigError: scaleReads of the client is "all", but replicas lag: set it to "master"',
    );
  });

  it("HA35 is refused at the start where one of its masters evicts keys", async () => {
    const { client } = cluster.masters[2] as { client: Redis };
    await client.config("SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru");
    for (const library of LIBRARIES) {
      expect(await faultOf(redisClaims(await clientOf(library)).ready?.()), library).to.match(
        /^ConfigError: Redis deletes claims and charges/,
      );
    }
    await client.config("SET", "maxmemory", "0", "maxmemory-policy", "noeviction");
  });
});
