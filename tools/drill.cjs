/**
 * Drills what an operator lives through, each with real processes under load, and prints one JSON line each:
 *   node tools/drill.cjs [restore|upgrade|proxies|webhooks|stop ...]
 * All of them take less than 15 minutes; after that the rest is ended and counts as failed.
 */
const { spawn } = require("node:child_process");
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");

const DRILLS = {
  restore: ["test/facilitator/app/restored-backup.ts", "test/facilitator/cli/reconcile-since.ts"],
  upgrade: ["test/facilitator/app/breaking-upgrade.ts", "test/facilitator/db/breaking-migration.ts"],
  proxies: ["test/facilitator/app/proxies.ts"],
  webhooks: ["test/facilitator/webhooks/delivery.ts"],
  stop: ["test/facilitator/app/long-stop.ts"],
};

const LIMIT_MS = 15 * 60_000;

/** @returns whether it ended well by then */
function run(files, figures, leftMs) {
  return new Promise((resolve) => {
    const args = [join(__dirname, "test.cjs"), "--no-compile", ...files];
    // Its own group: the tests' processes end with it.
    const child = spawn(process.execPath, args, {
      stdio: ["ignore", 2, 2],
      env: { ...process.env, DRILL_FIGURES: figures },
      detached: true,
    });
    const timer = setTimeout(() => {
      process.kill(-child.pid, "SIGTERM");
      // A process that its drill has stopped sees the end only when it goes on.
      process.kill(-child.pid, "SIGCONT");
    }, leftMs);
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve(code === 0);
    });
  });
}

async function main(names) {
  const unknown = names.find((name) => !Object.hasOwn(DRILLS, name));
  if (unknown) throw new Error(`${unknown} is no drill: use ${Object.keys(DRILLS).join(", ")}`);
  const folder = mkdtempSync(join(tmpdir(), "turnpike-drill-"));
  const beganMs = performance.now();
  let isWell = true;
  try {
    for (const name of names.length > 0 ? names : Object.keys(DRILLS)) {
      const figures = join(folder, name);
      writeFileSync(figures, "");
      const startedMs = performance.now();
      const leftMs = LIMIT_MS - (startedMs - beganMs);
      const ok = leftMs > 0 && (await run(DRILLS[name], figures, leftMs));
      const seconds = Math.round((performance.now() - startedMs) / 1_000);
      const measured = readFileSync(figures, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      process.stdout.write(`${JSON.stringify({ drill: name, ok, seconds, figures: measured })}\n`);
      isWell &&= ok;
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return isWell ? 0 : 1;
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  },
);
