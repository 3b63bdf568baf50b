/**
 * A PostgreSQL server for tests that need several processes on one database, or a database that locks like one. Started
 * by the test itself; TEST_PG_URL names one that runs already.
 */
import { Client } from "pg";
import { randomBytes, toHex } from "turnpike/protocol";

export interface TestPostgres {
  /** of the server; for databases take `database` */
  readonly url: string;
  /** URL of a fresh, empty database */
  database(): Promise<string>;
  stop(): Promise<void>;
}

interface Server {
  readonly url: string;
  stop(): Promise<void>;
}

/** A server of the test's own, which it may break. */
export interface BreakablePostgres extends TestPostgres {
  /** Ends it at once, as `pg_ctl stop -m immediate`: no connection is closed in order. */
  crash(): Promise<void>;
  /** Starts it again on the same data. */
  resume(): Promise<void>;
}

type OwnServer = Server & Pick<BreakablePostgres, "crash" | "resume">;

export async function startBreakablePostgres(): Promise<BreakablePostgres> {
  const server = await startOwn();
  return { ...onServer(server, false), crash: () => server.crash(), resume: () => server.resume() };
}

export async function startPostgres(): Promise<TestPostgres> {
  const given = process.env.TEST_PG_URL;
  return given ? onServer({ url: given, stop: async () => undefined }, true) : onServer(await startOwn(), false);
}

function onServer(server: Server, isShared: boolean): TestPostgres {
  const made: string[] = [];
  return {
    url: server.url,
    async database() {
      const name = `turnpike_test_${toHex(randomBytes(6)).slice(2)}`;
      await execute(server.url, `create database ${name}`);
      made.push(name);
      const url = new URL(server.url);
      url.pathname = `/${name}`;
      return url.href;
    },
    async stop() {
      // A server of one's own goes with all that is in it.
      if (isShared) for (const name of made) await execute(server.url, `drop database if exists ${name} with (force)`);
      await server.stop();
    },
  };
}

async function startOwn(): Promise<OwnServer> {
  const tools: { startPostgres(): Promise<OwnServer> } = require("../../facilitator/tools/postgres.cjs");
  return tools.startPostgres();
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
