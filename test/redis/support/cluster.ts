/** A Redis Cluster of three masters on loopback, whose slots a test moves. */
import { Cluster } from "ioredis";
import { freePort } from "../../../scripts/sandbox/free-port";
import { startRedis, type TestRedis } from "../../sdk/gate/support/redis";
import { until } from "../../support/subscriptions";

const SLOTS = 16_384;

export interface TestCluster {
  readonly ports: readonly number[];
  readonly masters: readonly TestRedis[];
  /** @returns the masters that hold a slot, and another one */
  ownersOf(key: string): Promise<{ slot: number; from: TestRedis; to: TestRedis }>;
  stop(): Promise<void>;
}

async function startMaster(port: number): Promise<TestRedis> {
  const busPort = await freePort();
  const own = ["--port", String(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes"];
  return startRedis(...own, "--cluster-port", String(busPort));
}

const idOf = async ({ client }: TestRedis): Promise<string> => String(await client.call("CLUSTER", "MYID"));

export async function startCluster(): Promise<TestCluster> {
  const ports = [await freePort(), await freePort(), await freePort()];
  const masters = await Promise.all(ports.map(startMaster));
  const share = Math.ceil(SLOTS / masters.length);
  for (const [i, { client }] of masters.entries()) {
    const last = Math.min(SLOTS, (i + 1) * share) - 1;
    await client.call("CLUSTER", "ADDSLOTSRANGE", i * share, last);
    await client.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
  }
  const [first, ...others] = masters as [TestRedis, ...TestRedis[]];
  for (const { client } of others) {
    const [, bus] = (await first.client.config("GET", "cluster-port")) as string[];
    await client.call("CLUSTER", "MEET", "127.0.0.1", ports[0] as number, Number(bus));
  }
  const isWell = async ({ client }: TestRedis): Promise<boolean> =>
    /cluster_state:ok.*cluster_known_nodes:3/s.test(String(await client.call("CLUSTER", "INFO")));
  await until(async () => (await Promise.all(masters.map(isWell))).every(Boolean));
  return {
    ports,
    masters,
    async ownersOf(key) {
      const slot = Number(await first.client.call("CLUSTER", "KEYSLOT", key));
      const at = Math.floor(slot / share);
      return { slot, from: masters[at] as TestRedis, to: masters[(at + 1) % masters.length] as TestRedis };
    },
    async stop() {
      for (const master of masters) await master.stop();
    },
  };
}

/** Starts a replica of one master. */
export async function startReplica(cluster: TestCluster, of: TestRedis): Promise<TestRedis> {
  const replica = await startMaster(await freePort());
  const [, bus] = (await of.client.config("GET", "cluster-port")) as string[];
  await replica.client.call("CLUSTER", "MEET", "127.0.0.1", portOf(cluster, of), Number(bus));
  const masterId = await idOf(of);
  await until(async () => String(await replica.client.call("CLUSTER", "NODES")).includes(`${masterId} 127.0.0.1`));
  await until(
    async () => (await replica.client.call("CLUSTER", "REPLICATE", masterId).catch(() => "not yet")) === "OK",
  );
  await until(async () => /^master_link_status:up/m.test(await replica.client.info("replication")));
  return replica;
}

/** How long a server tries a failover. */
const FAILOVER_MS = 5_000;

/**
 * Has a replica take its master's place, as an operator does before maintenance: nothing is lost by it. A command that
 * comes while the server tries starts the failover again, so that many of them never end.
 */
export async function failOverTo(replica: TestRedis): Promise<void> {
  const isMaster = async () => /^role:master/m.test(await replica.client.info("replication"));
  let askedMs = Number.NEGATIVE_INFINITY;
  await until(async () => {
    if (await isMaster()) return true;
    if (performance.now() < askedMs + FAILOVER_MS) return false;
    askedMs = performance.now();
    await replica.client.call("CLUSTER", "FAILOVER").catch(() => undefined);
    return false;
  });
}

const portOf = ({ ports, masters }: TestCluster, one: TestRedis): number => ports[masters.indexOf(one)] as number;

/** Moves a slot and its keys, as `redis-cli --cluster reshard` does. */
export async function moveSlot(
  cluster: TestCluster,
  { slot, from, to }: { readonly slot: number; readonly from: TestRedis; readonly to: TestRedis },
  between: () => Promise<void> = async () => undefined,
): Promise<void> {
  const [fromId, toId] = [await idOf(from), await idOf(to)];
  const port = portOf(cluster, to);
  await to.client.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
  await from.client.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
  for (;;) {
    await between();
    const keys = (await from.client.call("CLUSTER", "GETKEYSINSLOT", slot, 1)) as string[];
    if (keys.length === 0) break;
    await from.client.call("MIGRATE", "127.0.0.1", port, "", 0, 5_000, "KEYS", ...keys);
  }
  for (const { client } of [to, from, ...cluster.masters]) {
    await client.call("CLUSTER", "SETSLOT", slot, "NODE", toId);
  }
}

export const clusterOf = ({ ports }: TestCluster, options: object = {}) =>
  new Cluster(
    ports.map((port) => ({ host: "127.0.0.1", port })),
    options,
  );
