/**
 * Keeps what each file and suite of tests cost, compares it with the last accepted run, and judges suites by budgets in
 * seconds of processor, which other load on the machine changes less than seconds by the clock.
 *
 * A run writes cache/test-times/<suite>.json. `node tools/kept-times.cjs` accepts these: it writes them to
 * tools/test-times.json, whose budgets are changed by hand.
 */
const { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } = require("node:fs");
const { basename, join } = require("node:path");

const RUNS = join(__dirname, "..", "cache", "test-times");
const ACCEPTED = join(__dirname, "test-times.json");

const SHOWN = 20;

/** What a file must have grown by to be listed: times differ from run to run. */
const GROWTH = { seconds: 2, share: 0.3 };

const accepted = () => JSON.parse(readFileSync(ACCEPTED, "utf8"));

/**
 * Returns the files in turns: of those left, the one that waits most, then the one that calculates most. Side by side
 * they keep the cores busy, and none that takes long starts last.
 */
function inTurns(files) {
  const known = Object.assign({}, ...Object.values(accepted()).map((suite) => suite.files));
  const idleOf = (file) => (known[file] ? known[file].seconds - 2 * known[file].cpu : 0);
  const left = [...files].sort((a, b) => idleOf(b) - idleOf(a));
  return files.map((_, turn) => (turn % 2 === 0 ? left.shift() : left.pop()));
}

/** Sums up lines of tools/test-times.cjs. @param seconds of the whole run, by the clock */
function summary(lines, seconds) {
  const files = Object.fromEntries(
    lines.map(({ file, ...cost }) => [file, { seconds: tenths(cost.seconds), cpu: tenths(cost.cpu) }]),
  );
  return { seconds: tenths(seconds), cpu: tenths(lines.reduce((sum, { cpu }) => sum + cpu, 0)), files };
}

const tenths = (value) => Math.round(value * 10) / 10;

/** Returns the files that cost more processor than when they were last accepted, most growth first. */
function grown(now, before) {
  return Object.entries(now.files)
    .map(([file, { cpu }]) => ({ file, cpu, was: before?.files?.[file]?.cpu ?? 0 }))
    .filter(({ cpu, was }) => cpu - was > GROWTH.seconds && cpu - was > was * GROWTH.share)
    .sort((a, b) => b.cpu - b.was - (a.cpu - a.was));
}

/** Returns the table of a run. */
function report(suite, now, before) {
  const row = (...cells) => cells.map((cell) => String(cell).padStart(8)).join("");
  const costliest = Object.entries(now.files).sort(([, a], [, b]) => b.cpu - a.cpu);
  return [
    `\n${suite}: ${now.seconds} s, ${now.cpu} s of processor${before?.budget ? ` of ${before.budget}` : ""}`,
    row("seconds", "cpu", "was"),
    ...costliest
      .slice(0, SHOWN)
      .map(([file, { seconds, cpu }]) => `${row(seconds, cpu, before?.files?.[file]?.cpu ?? "-")}  ${file}`),
    ...(before?.files ? grown(now, before).map(({ file, cpu, was }) => `grew from ${was} to ${cpu} s: ${file}`) : []),
  ].join("\n");
}

/** Returns why a run costs too much, or undefined. */
function overBudget(suite, now, before) {
  if (!before?.budget || now.cpu <= before.budget) return undefined;
  const names = grown(now, before).map(({ file }) => file);
  return (
    `${suite} took ${now.cpu} s of processor, and its budget is ${before.budget}: ` +
    `make it cheaper, or raise the budget in tools/test-times.json. It grew in: ${names.join(" ") || "no single file"}`
  );
}

/** Writes a run down and prints its table. @returns whether it was within its budget */
function keep(suite, lines, seconds) {
  const now = summary(lines, seconds);
  mkdirSync(RUNS, { recursive: true });
  writeFileSync(join(RUNS, `${suite}.json`), `${JSON.stringify(now, null, 2)}\n`);
  const before = accepted()[suite];
  console.log(report(suite, now, before));
  const complaint = overBudget(suite, now, before);
  if (complaint) console.error(complaint);
  return complaint === undefined;
}

/** Accepts the times of every suite that was run. */
function accept() {
  const all = accepted();
  for (const name of existsSync(RUNS) ? readdirSync(RUNS) : []) {
    const suite = basename(name, ".json");
    all[suite] = { budget: all[suite]?.budget ?? null, ...JSON.parse(readFileSync(join(RUNS, name), "utf8")) };
  }
  writeFileSync(ACCEPTED, `${JSON.stringify(all, null, 2)}\n`);
}

module.exports = { grown, keep, inTurns, overBudget, summary };

if (require.main === module) accept();
