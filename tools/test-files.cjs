/**
 * Lists the test files that `npx hardhat test` and `npm test` run, and those of each suite that has its own command.
 */
const { readdirSync, readFileSync } = require("node:fs");
const { totalmem } = require("node:os");
const { join, normalize, relative, resolve } = require("node:path");

const ROOT = join(__dirname, "..");

/** Suites that install packages or programs of their own, by folder, and the command that runs each. */
const SUITES = {
  frameworks: "npm run test:frameworks",
  image: "npm run test:image",
  interop: "npm run test:interop",
  redis: "npm run test:redis",
  runtimes: "npm run test:runtimes",
};

/**
 * Suites that take minutes each, with the start of the paths of their files. They need only `npm ci`, and
 * `npm run test:<name>` runs one.
 */
const SLOW = {
  package: ["test/package/"],
  // The sandbox, the examples and commands as programs, started and stopped as a user would.
  start: [
    "test/e2e/readme.ts",
    "test/e2e/sandbox.ts",
    "test/e2e/scenarios.ts",
    "test/facilitator/cli/doctor.ts",
    "test/scripts/deploy.ts",
  ],
  // The Facilitator with thousands of rows, several chains, several processes, or started again and again.
  services: [
    "test/e2e/traces.ts",
    "test/facilitator/analytics/csv.ts",
    "test/facilitator/analytics/ledger.ts",
    "test/facilitator/app/chain-clients.ts",
    "test/facilitator/app/chains.ts",
    "test/facilitator/app/stopping.ts",
    "test/facilitator/cli/chain-contracts.ts",
    "test/facilitator/cli/reconcile-since.ts",
    "test/facilitator/db/plans.ts",
    "test/facilitator/events/retention.ts",
    "test/facilitator/indexer/head-back.ts",
    "test/facilitator/indexer/history.ts",
    "test/facilitator/payments/automatic-refunds.ts",
    "test/facilitator/payments/fairness.ts",
    "test/facilitator/payments/grants.ts",
    "test/facilitator/payments/overload.ts",
    "test/facilitator/payments/permit2.ts",
    "test/facilitator/payments/reservations.ts",
    "test/facilitator/payments/toy-dialect.ts",
    "test/facilitator/payments/two-gates.ts",
    "test/facilitator/payments/undeployed-wallets.ts",
    "test/facilitator/relayer/relayer.ts",
    "test/facilitator/subscriptions/debits/gate.ts",
    "test/facilitator/subscriptions/renewals/renewals.ts",
    "test/hostile/battery.ts",
  ],
  // What an operator lives through, with real processes under load. Each kind of it is tested in `faults`, too.
  drills: [
    "test/facilitator/app/breaking-upgrade.ts",
    "test/facilitator/app/chain-roles.ts",
    "test/facilitator/app/long-stop.ts",
    "test/facilitator/app/operator-path.ts",
    "test/facilitator/app/proxies.ts",
    "test/facilitator/app/restored-backup-chains.ts",
  ],
  // What repeats a kind of the other suites, on more chains or with more parts. Not in `.ci/run`: docs/engineering/deep-runs.md.
  variants: [
    "test/clone/",
    "test/contracts/hundred.ts",
    "test/e2e/agents.ts",
    "test/e2e/clock.ts",
    "test/e2e/dashboard-chains.ts",
    "test/e2e/metered.ts",
    "test/e2e/rehearsal.ts",
    "test/e2e/renewal.ts",
    "test/e2e/sandbox-chains.ts",
    "test/e2e/sandbox-exit.ts",
    "test/facilitator/app/clocks-apart.ts",
    "test/facilitator/app/foreign-key.ts",
    "test/facilitator/app/kms.ts",
    "test/facilitator/app/replica.ts",
    "test/facilitator/app/restored-backup.ts",
    "test/facilitator/app/roles.ts",
    "test/facilitator/app/rolling-restart.ts",
    "test/facilitator/chaos/permit2.ts",
    "test/facilitator/cli/two-chains.ts",
    "test/facilitator/events/staged-events.ts",
    "test/facilitator/telemetry/two-processes.ts",
    "test/scripts/standard-json.ts",
    "test/sdk/gate/metering/kill-streams.ts",
  ],
  // In a real browser.
  dashboard: [
    "test/e2e/dashboard.ts",
    "test/e2e/dashboard-acts.ts",
    "test/e2e/dashboard-controls.ts",
    "test/e2e/dashboard-find.ts",
    "test/e2e/dashboard-labels.ts",
    "test/e2e/dashboard-live.ts",
    "test/e2e/dashboard-operator.ts",
    "test/e2e/dashboard-screens.ts",
    "test/e2e/dashboard-sign-in.ts",
    "test/e2e/dashboard-states.ts",
    "test/e2e/dashboard-totals.ts",
    "test/e2e/dashboard-webhooks.ts",
    "test/e2e/portal.ts",
  ],
  // In a real browser, with a wallet.
  page: ["test/e2e/page"],
  // Gates and Facilitators killed at every step of a payment.
  kills: ["test/kills/"],
  // Processes killed and frozen, nodes and databases that fail, reorganised chains.
  faults: [
    "test/facilitator/app/compose.ts",
    "test/facilitator/app/failover.ts",
    "test/facilitator/app/readiness.ts",
    "test/facilitator/app/relayer-keys.ts",
    "test/facilitator/chaos/authorizations.ts",
    "test/facilitator/chaos/inflight.ts",
    "test/facilitator/chaos/kill-random.ts",
    "test/facilitator/chaos/kill-shared.ts",
    "test/facilitator/chaos/lanes.ts",
    "test/facilitator/chaos/reorg.ts",
    "test/facilitator/chaos/rpc.ts",
    "test/facilitator/cli/reindex.ts",
    "test/facilitator/db/breaking-migration.ts",
    "test/facilitator/db/database-outage.ts",
    "test/facilitator/db/folder-lock.ts",
    "test/facilitator/indexer/return.ts",
    "test/facilitator/payments/crash.ts",
    "test/facilitator/payments/faults.ts",
    "test/facilitator/weather/",
    "test/facilitator/webhooks/kill.ts",
    "test/sdk/agent/ledger-lock.ts",
    "test/sdk/file-lock/",
    "test/sdk/gate/cells/chaos.ts",
    "test/sdk/gate/claims/rotation-lock.ts",
    "test/sdk/gate/metering/kill-shared.ts",
    "test/sdk/gate/metering/kill.ts",
  ],
};

/** Folders that hold no tests. */
const NOT_TESTS = ["support", "node_modules"];

/** Returns every test file below `folder`, sorted by path. */
function testFiles(folder) {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return NOT_TESTS.includes(entry.name) || entry.name in SUITES ? [] : testFiles(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

const isIn = (suite) => (file) =>
  SLOW[suite].some((start) => relative(ROOT, resolve(file)).startsWith(normalize(start)));

/** Returns the files of a suite that takes minutes. */
function slowTestFiles(suite) {
  return testFiles("test").filter(isIn(suite));
}

/** Returns the files of a suite that installs packages of its own. */
function installedTestFiles(suite) {
  return testFiles(join("test", suite));
}

/** Returns how many files run at once: most wait for blocks, and five keep two cores busy. Each may need 2 GB. */
function jobs() {
  return Number(process.env.TEST_JOBS ?? Math.max(1, Math.min(5, Math.floor(totalmem() / 2 ** 31))));
}

/** Returns the test files below `folder` that are in no suite. */
function quickTestFiles(folder = "test") {
  const isSlow = Object.keys(SLOW).map(isIn);
  return testFiles(folder).filter((file) => !isSlow.some((isOf) => isOf(file)));
}

/** Returns the sentences that say how to run the suites. */
function leftOut() {
  const slow = [...Object.keys(SLOW), "laws"].map((name) => `npm run test:${name}`);
  return [
    `Suites that install more than npm ci run by their own commands: ${Object.values(SUITES).join(", ")}.`,
    `So do suites that take minutes each: ${slow.join(", ")}.`,
  ].join("\n");
}

/** Returns the files outside the suite `variants` that run more with VARIANTS=all. */
function variedTestFiles() {
  const others = testFiles("test").filter((file) => !isIn("variants")(file));
  return others.filter((file) => /\/support\/variants"/.test(readFileSync(file, "utf8")));
}

module.exports = {
  SLOW,
  SUITES,
  installedTestFiles,
  jobs,
  leftOut,
  quickTestFiles,
  slowTestFiles,
  testFiles,
  variedTestFiles,
};
