/**
 * Mocha's root hooks: writes what each file cost to $TEST_TIMES, one line of JSON each: seconds by the clock, and
 * seconds of processor by its worker and by all processes that it started. The first file of a worker carries its boot.
 */
const { appendFileSync, readdirSync, readFileSync } = require("node:fs");
const { relative } = require("node:path");

const TICKS_PER_SECOND = 100;

let before = { at: performance.now(), cpu: cpuSeconds() };

/** Seconds of processor of this process, of its children that have ended, and of those that run. */
function cpuSeconds() {
  const { user, system } = process.cpuUsage();
  const own = (user + system) / 1_000_000;
  return process.platform === "linux" ? own + descendants() : own;
}

function descendants() {
  const processes = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const stat = statOf(pid);
    if (stat) processes.set(pid, stat);
  }
  const ticksBelow = (pid) =>
    [...processes].reduce(
      (sum, [child, { parent, own, ended }]) => (parent === pid ? sum + own + ended + ticksBelow(child) : sum),
      0,
    );
  const self = String(process.pid);
  return ((processes.get(self)?.ended ?? 0) + ticksBelow(self)) / TICKS_PER_SECOND;
}

/** @returns undefined where the process has ended meanwhile */
function statOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    const ticks = (from) => Number(fields[from]) + Number(fields[from + 1]);
    return { parent: fields[1], own: ticks(11), ended: ticks(13) };
  } catch {
    return undefined;
  }
}

exports.mochaHooks = {
  afterAll() {
    const file = this.test.parent.suites[0]?.file;
    const now = { at: performance.now(), cpu: cpuSeconds() };
    const times = { seconds: (now.at - before.at) / 1_000, cpu: now.cpu - before.cpu };
    before = now;
    if (file)
      appendFileSync(process.env.TEST_TIMES, `${JSON.stringify({ file: relative(process.cwd(), file), ...times })}\n`);
  },
};
