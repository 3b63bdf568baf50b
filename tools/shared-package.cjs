#!/usr/bin/env node
/**
 * Builds and packs the SDK's package once for all suites and checks of a checkout: `node tools/shared-package.cjs` prints
 * the tarball's file. It is kept in cache/package under a hash of everything that it is made of. It has the sandbox's
 * program, and no documentation. Compile the contracts first.
 */
const { execFile } = require("node:child_process");
const { createHash } = require("node:crypto");
const {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} = require("node:fs");
const { createRequire } = require("node:module");
const { dirname, join } = require("node:path");
const { promisify } = require("node:util");

const exec = promisify(execFile);
const ROOT = join(__dirname, "..");
const SDK = join(ROOT, "sdk");
const ofSdk = createRequire(join(SDK, "package.json"));
const { lock } = ofSdk("proper-lockfile");
const KEPT = join(ROOT, "cache", "package");

/** What the package is made of. */
const SOURCES = [
  ...["sdk", "facilitator", "scripts", "examples", "deployments", "artifacts/contracts"],
  ...["tools/sandbox-program.cjs", "tools/shared-package.cjs"],
  ...["package.json", "package-lock.json", "tsconfig.json"],
];
const NOT_SOURCES = new Set(["node_modules", "dist", "docs"]);

/** Other processes may build it at the same time: they wait for the first one. */
const WAIT = { stale: 60_000, retries: { retries: 600, factor: 1, minTimeout: 500 } };

/** Returns the hash of the sources, by path and content. */
function keyOfSources() {
  const hash = createHash("sha256");
  const add = (path) => {
    const entries = entriesOf(path);
    if (entries === undefined) return void hash.update(`${path}\0`).update(readFileSync(join(ROOT, path)));
    for (const name of entries) if (!NOT_SOURCES.has(name)) add(`${path}/${name}`);
  };
  for (const path of SOURCES) if (existsSync(join(ROOT, path))) add(path);
  return hash.digest("hex").slice(0, 32);
}

/** Returns the names in a folder; undefined for a file. */
function entriesOf(path) {
  try {
    return readdirSync(join(ROOT, path)).sort();
  } catch (error) {
    if (error.code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Builds the package in `folder`, and packs it there. @returns the tarball's name and the paths in it */
async function build(folder) {
  const tsdown = join(dirname(ofSdk.resolve("tsdown/package.json")), "dist/run.mjs");
  const dist = join(folder, "dist");
  await exec(process.execPath, [tsdown, "--out-dir", dist, "--logLevel", "error"], { cwd: SDK });
  await exec(process.execPath, [join(__dirname, "sandbox-program.cjs"), join(dist, "sandbox")]);
  for (const file of ["package.json", "README.md", "AGENTS.md", "LICENSE"]) cpSync(join(SDK, file), join(folder, file));
  const { stdout } = await exec("npm", ["pack", "--json", "--ignore-scripts"], { cwd: folder });
  const [{ filename, files }] = JSON.parse(stdout);
  rmSync(dist, { recursive: true });
  return { filename, files: files.map(({ path }) => path) };
}

/** @returns the tarball's file, and the paths in it */
async function sharedPackage() {
  const home = join(KEPT, keyOfSources());
  const made = join(home, "tarball.json");
  mkdirSync(KEPT, { recursive: true });
  if (!existsSync(made)) {
    const release = await lock(KEPT, WAIT);
    try {
      if (!existsSync(made)) await keep(home);
    } finally {
      await release();
    }
  }
  const { filename, files } = JSON.parse(readFileSync(made, "utf8"));
  return { file: join(home, filename), files };
}

/** Builds it under another name, which is renamed when it is whole. A build that was killed leaves that name behind. */
async function keep(home) {
  const unfinished = join(KEPT, "unfinished");
  rmSync(unfinished, { recursive: true, force: true });
  rmSync(home, { recursive: true, force: true });
  mkdirSync(unfinished);
  writeFileSync(join(unfinished, "tarball.json"), JSON.stringify(await build(unfinished)));
  renameSync(unfinished, home);
}

module.exports = { sharedPackage };

if (require.main === module) {
  sharedPackage()
    .then(({ file }) => process.stdout.write(`${file}\n`))
    .catch((error) => {
      process.stderr.write(`${error.stderr || error.message}\n`);
      process.exitCode = 1;
    });
}
