import { expect } from "chai";
import type { RedisClient } from "turnpike/gate/redis";
import { redisClaims, redisMeter } from "turnpike/gate/redis";
import { attempt, idOf } from "../sdk/gate/support/claim-store";
import type { TestRedis } from "../sdk/gate/support/redis";
import { MeteredChain } from "../support/metered-chain";
import { until } from "../support/until";
import { clusterOf, failOverTo, startCluster, startReplica, type TestCluster } from "./support/cluster";
import { metersAfterEach } from "./support/meters";
import { connected, disconnectAll, libraryOf } from "./support/node-redis";

const METERED = 2_000;
const PAID = 200;
/** calls at once */
const BESIDE = 20;

describe("a Redis Cluster whose masters change places with their replicas", function () {
  this.timeout(240_000);
  const startMeter = metersAfterEach();
  let cluster: TestCluster;
  let replicas: readonly TestRedis[];
  let spaces = 0;
  const opened: { disconnect(): void }[] = [];

  before(async () => {
    cluster = await startCluster();
    replicas = await Promise.all(cluster.masters.map((master) => startReplica(cluster, master)));
  });
  after(async () => {
    for (const client of opened) client.disconnect();
    await disconnectAll();
    for (const replica of replicas) await replica.stop();
    await cluster.stop();
  });

  async function clientOf(library: "ioredis" | "redis-5" | "redis-6"): Promise<RedisClient> {
    if (library !== "ioredis") {
      const rootNodes = cluster.ports.map((port) => ({ url: `redis://127.0.0.1:${port}` }));
      return connected(libraryOf(library).createCluster({ rootNodes, useReplicas: true }));
    }
    const client = clusterOf(cluster);
    client.on("error", () => undefined);
    opened.push(client);
    return client;
  }

  /** Makes every call once, a few at a time. */
  async function each<T>(count: number, call: (n: number) => Promise<T>): Promise<T[]> {
    const results: T[] = [];
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < count) {
        const n = next++;
        results[n] = await call(n);
      }
    };
    await Promise.all(Array.from({ length: BESIDE }, worker));
    return results;
  }

  /** Whether the masters are those of the beginning, or their replicas. */
  let isTurned = false;
  async function turn(): Promise<void> {
    isTurned = !isTurned;
    for (const one of isTurned ? replicas : cluster.masters) await failOverTo(one);
  }

  for (const library of ["ioredis", "redis-5", "redis-6"] as const) {
    it(`HA35 charges on after each change, and a change back, through ${library}`, async () => {
      const chain = new MeteredChain();
      const idHash = chain.subscribe(1, { cap: 100n });
      const meter = await startMeter(redisMeter(await clientOf(library), { prefix: `{alone ${spaces++}}:` }), chain);
      // Nothing else is sent, by whose redirection a client would learn of the change.
      const reserved = async () => (await meter.reserve(idHash, 1n, chain.facts(idHash))).charged;
      expect(await reserved()).to.equal(1n);
      for (let changes = 0; changes < 2; changes++) {
        await turn();
        expect(await until(() => reserved().catch(() => undefined), "a charge"), `change ${changes}`).to.equal(1n);
      }
      await meter.flush();
      expect(chain.sumDebited()).to.equal(3n);
    });

    it(`HA35 charges ${METERED} metered and sells ${PAID} paid calls once each, through ${library}`, async () => {
      const [one, other] = [await clientOf(library), await clientOf(library)];
      const space = spaces++;
      const chain = new MeteredChain();
      const idHash = chain.subscribe(1, { cap: 10_000n });
      const meter = await startMeter(redisMeter(one, { prefix: `{failover ${space}}:` }), chain);
      const stores = [one, other].map((client) => redisClaims(client, { prefix: `failover ${space}:` }));
      const codeOf = ({ code }: { readonly code: string }): string => code;

      let turns: Promise<void> = Promise.resolve();
      const charged = each(METERED, async (n) => {
        if (n === 500 || n === 1_200) turns = turns.then(turn);
        return meter.reserve(idHash, 1n, chain.facts(idHash)).then((made) => made.charged, codeOf);
      });
      // Both gates try each payment, and the one that has it uses it up.
      const sold = each(PAID, async (n) => {
        return Promise.all(
          stores.map(async (store) => {
            const found = await attempt(store, idOf(n)).catch(codeOf);
            if (typeof found === "string") return found;
            if (found.kind !== "acquired") return found.kind;
            return (await store.apply(idOf(n), { act: "use", owner: found.owner }).catch(codeOf)) === true
              ? "sold"
              : "unknown";
          }),
        );
      });
      const [metered, paid] = await Promise.all([charged, sold]);
      await turns;
      const count = metered.filter((outcome) => outcome === 1n).length;

      expect(new Set(metered.filter((outcome) => outcome !== 1n && outcome !== "Unavailable"))).to.deep.equal(
        new Set(),
      );
      for (const runs of paid) expect(runs.filter((run) => run === "sold").length, `${runs}`).to.be.at.most(1);
      const last = await meter.reserve(idHash, 1n, chain.facts(idHash));
      await meter.flush();
      expect([last.charged, chain.sumDebited()]).to.deep.equal([1n, BigInt(count + 1)]);
      const again = await each(PAID, async (n) => (await attempt(stores[n % 2] as never, idOf(n))).kind);
      paid.forEach((runs, n) => {
        if (runs.includes("sold")) expect(again[n], `payment ${n}`).to.equal("used");
      });
      const sales = paid.filter((runs) => runs.includes("sold")).length;
      expect([count > METERED / 2, sales > PAID / 2], `${count} and ${sales}`).to.deep.equal([true, true]);
    });
  }
});
