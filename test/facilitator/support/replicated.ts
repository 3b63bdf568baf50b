/** A primary PostgreSQL and its replica, behind an address that can be pointed at either: docs/operators/failover.md. */
import { Client } from "pg";
import { startRelay } from "./relay";

interface Servers {
  readonly primary: string;
  readonly replica: string;
  crashPrimary(): Promise<void>;
  promote(): Promise<void>;
  stop(): Promise<void>;
}

export interface ReplicatedDatabase {
  /** of an empty database, by the address */
  readonly url: string;
  /** as `pg_ctl stop -m immediate` */
  crashPrimary(): Promise<void>;
  /** Promotes the replica, and points the address at it. */
  promote(): Promise<void>;
  stop(): Promise<void>;
}

export async function startReplicatedDatabase(): Promise<ReplicatedDatabase> {
  const tools: { startReplicated(): Promise<Servers> } = require("../../../facilitator/tools/replica.cjs");
  const servers = await tools.startReplicated();
  const client = new Client({ connectionString: servers.primary });
  await client.connect();
  await client.query("create database turnpike");
  await client.end();
  const address = await startRelay(Number(new URL(servers.primary).port));
  const url = new URL(servers.primary);
  url.port = String(address.port);
  url.pathname = "/turnpike";
  return {
    url: url.href,
    crashPrimary: () => servers.crashPrimary(),
    async promote() {
      await servers.promote();
      address.pointAt(Number(new URL(servers.replica).port));
    },
    async stop() {
      await address.stop();
      await servers.stop();
    },
  };
}
