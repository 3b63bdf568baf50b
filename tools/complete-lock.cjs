#!/usr/bin/env node
// Completes package-lock.json. A registry that lacks the builds of other platforms leaves their optional packages out
// of the lock, and `npm ci` then refuses it everywhere. Run it after every `npm install`; it writes nothing when all
// are present.
const { readFileSync, writeFileSync } = require("node:fs");
const path = require("node:path");

/** The workspace's lock, or that of the given folder. */
const FILE = path.resolve(process.argv[2] ?? path.resolve(__dirname, ".."), "package-lock.json");
const OS = ["android", "darwin", "win32", "freebsd", "openharmony", "linux"];
const CPU = {
  amd64: "x64",
  x64: "x64",
  arm64: "arm64",
  ia32: "ia32",
  ppc64: "ppc64",
  riscv64: "riscv64",
  s390x: "s390x",
  arm: "arm",
};

/** Returns optional packages that are named but not locked, as [where they are named, name, version]. */
function missingFrom(packages) {
  return Object.entries(packages).flatMap(([where, { optionalDependencies = {} }]) =>
    Object.entries(optionalDependencies)
      .filter(([name]) => !isLocked(packages, where, name))
      .map(([name, version]) => [where, name, version]),
  );
}

/** Resolves like Node: next to the package that names it, then in every folder above. */
function isLocked(packages, where, name) {
  const folder = where ? `${where}/node_modules/${name}` : `node_modules/${name}`;
  if (packages[folder]) return true;
  return (
    where !== "" &&
    isLocked(
      packages,
      where.includes("/node_modules/") ? where.slice(0, where.lastIndexOf("/node_modules/")) : "",
      name,
    )
  );
}

function entryFor(name, version, isDev) {
  const tail = name.split("/").pop();
  const os = OS.find((one) => tail.includes(one));
  const cpu = CPU[/(?<=-)(amd64|x64|arm64|ia32|ppc64|riscv64|s390x|arm)(?=-|$)/.exec(tail)?.[1]];
  if (!os || !cpu || !/^[0-9.]+$/.test(version)) throw new Error(`${name}@${version}: for which platform is it?`);
  const libc =
    os !== "linux" ? undefined : tail.includes("musl") ? ["musl"] : tail.includes("gnu") ? ["glibc"] : undefined;
  return { version, cpu: [cpu], ...(isDev ? { dev: true } : {}), ...(libc ? { libc } : {}), optional: true, os: [os] };
}

if (require.main === module) {
  const lock = JSON.parse(readFileSync(FILE, "utf8"));
  const missing = missingFrom(lock.packages);
  for (const [where, name, version] of missing) {
    lock.packages[`node_modules/${name}`] = entryFor(name, version, lock.packages[where].dev);
  }
  if (missing.length > 0) {
    const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1));
    writeFileSync(FILE, `${JSON.stringify({ ...lock, packages: Object.fromEntries(sorted) }, null, 2)}\n`);
  }
  process.stdout.write(`${missing.length} packages of other platforms added\n`);
}

module.exports = { missingFrom };
