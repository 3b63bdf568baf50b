/** A Redis with a replica on loopback, whose link a test can hold up. */
import { once } from "node:events";
import { type AddressInfo, createConnection, createServer, type Socket } from "node:net";
import { freePort } from "../../../scripts/sandbox/free-port";
import { startRedis, type TestRedis } from "../../sdk/gate/support/redis";
import { until } from "../../support/subscriptions";

export interface Replicated {
  readonly master: TestRedis;
  readonly replica: TestRedis;
  /** where the master is, and the replica */
  readonly ports: readonly [number, number];
  /** Waits until the replica has what the master has. */
  caughtUp(): Promise<void>;
  /** From now on the replica receives nothing, over a connection that stays open. */
  hold(): void;
  /** Lets what was held up arrive. */
  release(): void;
  /** Kills the master, and has the replica take its place without what was held up. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

const offsetOf = async ({ client }: TestRedis): Promise<number> =>
  Number(/^(?:master|slave)_repl_offset:(\d+)/m.exec(await client.info("replication"))?.[1]);

/** Passes bytes to a port on and back, until a test holds up those that come back. */
async function relayTo(port: number) {
  const pairs: { readonly near: Socket; readonly far: Socket }[] = [];
  const server = createServer((near) => {
    const far = createConnection(port, "127.0.0.1");
    for (const one of [near, far])
      one.on("error", () => undefined).on("close", () => [near, far].map((s) => s.destroy()));
    near.pipe(far);
    far.pipe(near);
    pairs.push({ near, far });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    hold() {
      for (const { near, far } of pairs) far.unpipe(near).pause();
    },
    release() {
      for (const { near, far } of pairs) far.pipe(near);
    },
    stop() {
      server.close();
      for (const { near } of pairs) near.destroy();
    },
  };
}

export async function startReplicated(...settings: readonly string[]): Promise<Replicated> {
  const ports = [await freePort(), await freePort()] as const;
  const at = (port: number) => ["--port", String(port), "--bind", "127.0.0.1"];
  const master = await startRedis(...at(ports[0]), "--repl-diskless-sync-delay", "0", ...settings);
  const relay = await relayTo(ports[0]);
  const replica = await startRedis(...at(ports[1]), "--replicaof", "127.0.0.1", String(relay.port), ...settings);
  await until(async () => /^slave0:.*state=online/m.test(await master.client.info("replication")));
  return {
    master,
    replica,
    ports,
    caughtUp: () => until(async () => (await offsetOf(replica)) >= (await offsetOf(master))),
    hold: relay.hold,
    release: relay.release,
    async failOver() {
      await master.kill();
      relay.stop();
      await replica.client.call("REPLICAOF", "NO", "ONE");
    },
    async stop() {
      relay.stop();
      await replica.stop();
      await master.stop();
    },
  };
}
