#!/usr/bin/env node
// Bundles the dashboard and the payer's portal into facilitator/dashboard/dist, which the Facilitator serves at `/` and `/me`. Prints the size of what a
// browser loads, and fails above the limit.
const { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const path = require("node:path");
const { gzipSync } = require("node:zlib");
const { build } = require("esbuild");

const HOME = path.resolve(__dirname, "../dashboard");
const DIST = path.join(HOME, "dist");
/** of both together */
const MAX_GZIP_BYTES = 140_000;

/** @returns the bytes that a browser loads */
async function buildDashboard(folder = DIST) {
  mkdirSync(folder, { recursive: true });
  const options = {
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
    metafile: true,
  };
  const builds = await Promise.all([
    build({ ...options, entryPoints: { dashboard: path.join(HOME, "src/main.tsx") }, splitting: true }),
    build({ ...options, entryPoints: { me: path.join(HOME, "src/me.tsx"), early: path.join(HOME, "src/early.ts") } }),
  ]);
  const outputs = Object.assign({}, ...builds.map(({ metafile }) => metafile.outputs));
  const names = [...Object.keys(outputs).map((file) => path.basename(file)), "index.html", "me.html"];
  // What is loaded at once: a browser that learns of it from the page itself asks for it a round trip earlier.
  const script = Object.entries(outputs).find(([file]) => path.basename(file) === "dashboard.js");
  const needs = script[1].imports.filter(({ kind }) => kind === "import-statement");
  const links = needs.map((one) => `<link rel="modulepreload" href="${path.basename(one.path)}">`).join("");
  const html = readFileSync(path.join(HOME, "index.html"), "utf8");
  writeFileSync(path.join(folder, "index.html"), html.replace("</head>", `${links}</head>`));
  copyFileSync(path.join(HOME, "me.html"), path.join(folder, "me.html"));
  for (const old of readdirSync(folder)) if (!names.includes(old)) rmSync(path.join(folder, old));
  const sizes = names.map((name) => gzipSync(readFileSync(path.join(folder, name))).length);
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
