/**
 * Bundles the Facilitator into one file that runs without a TypeScript loader: node facilitator/tools/build.cjs. The
 * dependencies of its package.json stay outside, since some are native; the workspace's own packages are bundled. The
 * output folder is as deep as the sources', so that it finds the dashboard's files.
 */
const { join, resolve } = require("node:path");
const { buildSync } = require("esbuild");
const { dependencies } = require("../package.json");

const FOLDER = resolve(__dirname, "..");
const NODE_CHECK =
  'const [nodeMajor, nodeMinor] = process.versions.node.split(".").map(Number);' +
  "if (nodeMajor < 20 || (nodeMajor === 20 && nodeMinor < 19)) {" +
  ' process.stderr.write("Node 20.19 or later is needed; this is " + process.versions.node + ".\\n"); process.exit(1); }';

const ENTRY_POINTS = ["protocol", "chain", "facilitator", "file-lock", "public-lookup"];

function build(outfile = join(FOLDER, "dist/program/facilitator.cjs")) {
  const sdk = resolve(FOLDER, "../sdk/src");
  buildSync({
    entryPoints: [join(FOLDER, "src/main.ts")],
    bundle: true,
    platform: "node",
    target: "node20",
    format: "cjs",
    external: Object.keys(dependencies).flatMap((name) => [name, `${name}/*`]),
    alias: Object.fromEntries(ENTRY_POINTS.map((entry) => [`turnpike/${entry}`, join(sdk, entry, "index.ts")])),
    // Before any import: an old Node fails in one of them without naming itself.
    banner: { js: `#!/usr/bin/env node\n${NODE_CHECK}` },
    outfile,
    logLevel: "error",
  });
  return outfile;
}

module.exports = { build };

if (require.main === module) process.stdout.write(`${build()}\n`);
