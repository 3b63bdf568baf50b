#!/usr/bin/env node
// Bundles the dashboard into facilitator/dashboard/dist, which the Facilitator serves at `/`. Prints the size of what a
// browser loads, and fails above the limit.
const { copyFileSync, mkdirSync, readFileSync } = require("node:fs");
const path = require("node:path");
const { gzipSync } = require("node:zlib");
const { build } = require("esbuild");

const HOME = path.resolve(__dirname, "../dashboard");
const DIST = path.join(HOME, "dist");
const MAX_GZIP_BYTES = 140_000;

/** @returns the bytes that a browser loads */
async function buildDashboard(folder = DIST) {
  mkdirSync(folder, { recursive: true });
  await build({
    entryPoints: { dashboard: path.join(HOME, "src/main.tsx") },
    outdir: folder,
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    tsconfig: path.join(HOME, "tsconfig.json"),
    legalComments: "none",
    logLevel: "warning",
  });
  copyFileSync(path.join(HOME, "index.html"), path.join(folder, "index.html"));
  const sizes = ["index.html", "dashboard.js", "dashboard.css"].map(
    (name) => gzipSync(readFileSync(path.join(folder, name))).length,
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function main() {
  const value = await buildDashboard();
  if (!process.argv.includes("--quiet"))
    process.stdout.write(`${JSON.stringify({ figure: "dashboard.gzipBytes", value, goal: MAX_GZIP_BYTES })}\n`);
  if (value > MAX_GZIP_BYTES) process.exitCode = 1;
}

module.exports = { buildDashboard };

if (require.main === module) {
  main().catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
