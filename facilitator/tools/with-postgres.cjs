/**
 * Runs a command with TEST_PG_URL set to a temporary PostgreSQL, and stops it afterwards:
 * node facilitator/tools/with-postgres.cjs npx hardhat test test/facilitator/db/store.ts
 */
const { spawn } = require("node:child_process");
const { startPostgres } = require("./postgres.cjs");

/** @returns the command's exit status */
async function main([command, ...args]) {
  const postgres = await startPostgres();
  try {
    const child = spawn(command, args, { stdio: "inherit", env: { ...process.env, TEST_PG_URL: postgres.url } });
    return await new Promise((resolve) => child.on("exit", (code) => resolve(code ?? 1)));
  } finally {
    await postgres.stop();
  }
}

// Exits at once: the database's own exit hook would end this process with 0, whatever exitCode is.
main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  },
);
