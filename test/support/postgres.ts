/**
 * A PostgreSQL server for tests that need several processes on one database, or a database that locks like one. Started
 * by the test itself; TEST_PG_URL names one that runs already.
 */
import { Client } from "pg";
import { keccakText, randomBytes, toHex } from "turnpike/protocol";
import { Secret } from "../../facilitator/src/config/setting";
import { MIGRATIONS } from "../../facilitator/src/db/migrations";
import { openStore } from "../../facilitator/src/db/open";

export interface TestPostgres {
  /** of the server; for databases take `database` */
  readonly url: string;
  /** URL of a fresh, empty database */
  database(): Promise<string>;
  /** URL of a fresh database with every migration; a copy of one that each server makes once */
  migrated(): Promise<string>;
  /** URL of a copy of this database, whose connections it ends */
  copy(database: string): Promise<string>;
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
  const create = async (from: string): Promise<string> => {
    const name = `turnpike_test_${toHex(randomBytes(6)).slice(2)}`;
    // Copied as files: through the log it takes the server twice the time.
    await execute(server.url, `create database ${name} template ${from} strategy file_copy`);
    made.push(name);
    return databaseOn(server, name);
  };
  return {
    url: server.url,
    database: () => create("template1"),
    async copy(database) {
      const name = new URL(database).pathname.slice(1);
      await execute(server.url, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
      return create(name);
    },
    migrated: async () => create(await migratedTemplate(server)),
    async stop() {
      // A server of one's own goes with all that is in it.
      if (isShared) for (const name of made) await execute(server.url, `drop database if exists ${name} with (force)`);
      await server.stop();
    },
  };
}

function databaseOn(server: Server, name: string): string {
  const url = new URL(server.url);
  url.pathname = `/${name}`;
  return url.href;
}

const TEMPLATE = `turnpike_migrated_${keccakText(JSON.stringify(MIGRATIONS)).slice(2, 14)}`;

/** Any number, the same in each process that may make the template. */
const MAKING_LOCK = 20_031;

/** Returns the name of the server's database to copy from, made by the first process that asks. */
async function migratedTemplate(server: Server): Promise<string> {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  try {
    await client.query(`select pg_advisory_lock(${MAKING_LOCK})`);
    const found = await client.query("select 1 from pg_database where datname = $1", [TEMPLATE]);
    if (found.rowCount) return TEMPLATE;
    const making = `${TEMPLATE}_making`;
    await client.query(`drop database if exists ${making}`);
    await client.query(`create database ${making}`);
    const url = new Secret(databaseOn(server, making));
    await (await openStore({ kind: "postgres", url, poolSize: 2 })).close();
    await client.query(`alter database ${making} rename to ${TEMPLATE}`);
    return TEMPLATE;
  } finally {
    await client.end();
  }
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
