/**
 * Runs the release before the newest migration on this release's tables, with its own code and tests. Every new
 * database on its PostgreSQL is already migrated by the current checkout.
 *   node facilitator/tools/previous-release.cjs [commit] [tests of that commit ...]
 */
const { execFileSync, spawn } = require("node:child_process");
const { existsSync, mkdtempSync, rmSync, symlinkSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join, resolve } = require("node:path");
const { build } = require("./build.cjs");
const { startPostgres } = require("./postgres.cjs");

const ROOT = resolve(__dirname, "../..");
const MIGRATIONS = "facilitator/src/db/migrations";
const TESTS = ["http", "subscriptions", "renewals", "debits", "providers", "indexer"].map(
  (name) => `test/facilitator/${name}.ts`,
);

const git = (...args) =>
  execFileSync("git", args, { cwd: ROOT, maxBuffer: 1 << 26 })
    .toString()
    .trim();

/** The last commit without the newest migration. */
function previous() {
  const [added] = git("log", "--diff-filter=A", "--format=%H", "--", MIGRATIONS).split("\n");
  if (!added) throw new Error("the history of the migrations is not here: fetch it whole, or name a commit");
  return git("rev-parse", `${added}~1`);
}

function checkOut(commit, folder) {
  execFileSync("git", ["clone", "--quiet", "--shared", "--no-checkout", ROOT, folder]);
  execFileSync("git", ["checkout", "--quiet", commit], { cwd: folder });
  for (const part of [".", "sdk", "facilitator"]) {
    const packages = join(ROOT, part, "node_modules");
    if (existsSync(packages)) symlinkSync(packages, join(folder, part, "node_modules"));
  }
}

function run(command, args, options) {
  return new Promise((done) => {
    spawn(command, args, { stdio: "inherit", ...options }).on("exit", (code) => done(code ?? 1));
  });
}

async function main([commit = previous(), ...tests]) {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-previous-"));
  const program = build(join(ROOT, "facilitator/dist/previous-release", "facilitator.cjs"));
  const postgres = await startPostgres();
  try {
    // Every database on this server begins as a copy of it.
    const template = new URL(postgres.url);
    template.pathname = "/template1";
    const env = { ...process.env, DATABASE_URL: template.href, ...SETTINGS };
    if ((await run(process.execPath, [program, "migrate"], { env })) !== 0) return 1;
    checkOut(commit, folder);
    process.stdout.write(`${git("log", "-1", "--format=%h %s", commit)}\n`);
    const inside = { cwd: folder, env: { ...process.env, TEST_PG_URL: postgres.url } };
    if ((await run("npx", ["hardhat", "compile", "--quiet"], inside)) !== 0) return 1;
    return await run("npx", ["hardhat", "test", "--no-compile", ...(tests.length > 0 ? tests : TESTS)], inside);
  } finally {
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
    rmSync(join(program, ".."), { recursive: true, force: true });
  }
}

/** Settings that `migrate` requires; it queries no chain. */
const NOBODY = `0x${"11".repeat(20)}`;
const SETTINGS = {
  CHAIN_ID: "31337",
  RPC_URLS: "http://127.0.0.1:1",
  ROLES: "indexer",
  TURNPIKE: NOBODY,
  BATCH_SETTLER: NOBODY,
  TOKENS: JSON.stringify([{ address: NOBODY, name: "Test", version: "1" }]),
};

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  },
);
