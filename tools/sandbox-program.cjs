#!/usr/bin/env node
/**
 * Builds what `npx turnpike sandbox` runs into a folder of the package: node tools/sandbox-program.cjs sdk/dist/sandbox.
 * The folder is laid out as the repository is, so that the same code finds the same files:
 * - scripts/sandbox: one bundle of the sandbox and the Facilitator with their packages, and the guard of the chain
 * - artifacts: the bytes of the contracts that the sandbox deploys
 * - dashboard/dist: the Facilitator's dashboard
 * - LICENSES.txt: of the packages in the bundle
 * What the package depends on, and what the user installs for the sandbox alone, is not in it. Compile the contracts first.
 */
const { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { dirname, join, resolve } = require("node:path");
const { build } = require("esbuild");
const { buildDashboard } = require("../facilitator/tools/build-dashboard.cjs");

const ROOT = resolve(__dirname, "..");
const PROGRAM = "scripts/sandbox/program.js";

/** By source; the others are read for their runtime code alone. */
const DEPLOYED = {
  "contracts/Turnpike.sol": ["Turnpike"],
  "contracts/TurnpikeLens.sol": ["TurnpikeLens"],
  "contracts/BatchSettler.sol": ["BatchSettler"],
  "contracts/test/TestToken.sol": ["TestToken"],
};
const PLACED = { "contracts/test/Permit2Proxies.sol": ["ExactPermit2ProxyDouble", "UptoPermit2ProxyDouble"] };

const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));

function writeJson(file, value) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(value));
}

/** Writes artifacts with the fields that scripts/deploy/artifact.ts and scripts/sandbox/permit2.ts read. */
function writeArtifacts(folder) {
  for (const [source, names] of Object.entries(DEPLOYED)) {
    for (const name of names) {
      const at = join(ROOT, "artifacts", source);
      const { buildInfo } = readJson(join(at, `${name}.dbg.json`));
      const { solcLongVersion, output } = readJson(resolve(at, buildInfo));
      const { bytecode, deployedBytecode } = output.contracts[source][name].evm;
      const { object, immutableReferences } = deployedBytecode;
      const evm = { bytecode: { object: bytecode.object }, deployedBytecode: { object, immutableReferences } };
      const contract = { metadata: JSON.stringify({ sources: {} }), evm };
      writeJson(join(folder, source, `${name}.dbg.json`), { buildInfo: `${name}.build.json` });
      const contracts = { [source]: { [name]: contract } };
      writeJson(join(folder, source, `${name}.build.json`), { solcLongVersion, input: {}, output: { contracts } });
    }
  }
  for (const [source, names] of Object.entries(PLACED)) {
    for (const name of names) {
      const { deployedBytecode } = readJson(join(ROOT, "artifacts", source, `${name}.json`));
      writeJson(join(folder, source, `${name}.json`), { deployedBytecode });
    }
  }
}

/** A JSON body is UTF-8: the tables of other encodings, half a megabyte, stay out. */
const withoutEncodings = {
  name: "no tables of encodings",
  setup({ onLoad }) {
    onLoad({ filter: /iconv-lite[\\/]encodings[\\/]tables[\\/]/ }, () => ({ contents: "[]", loader: "json" }));
  },
};

/** The user may have installed it in the project, and have this program elsewhere. */
const installedDatabase = {
  name: "the database that the user has installed",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^@electric-sql\/pglite$/ }, ({ path }) => ({ path, namespace: "installed" }));
    onLoad({ filter: /^/, namespace: "installed" }, ({ path }) => ({
      contents:
        'const { installed } = require("./scripts/sandbox/installed");' +
        `module.exports = require(installed("${path}", process.cwd())[0]);`,
      resolveDir: ROOT,
    }));
  },
};

/** @returns the files in the bundle */
async function writeProgram(outfile) {
  const { name, dependencies } = readJson(join(ROOT, "sdk/package.json"));
  const given = Object.keys(dependencies);
  // Loaded by settings that the sandbox does not use, or by what it does not call.
  const tracing = ["core", "resources", "sdk-trace-base", "exporter-trace-otlp-http", "exporter-trace-otlp-proto"];
  const unused = [
    ...["@aws-sdk/client-kms", "hardhat", "hardhat/*", "pg-native"],
    ...tracing.map((each) => `@opentelemetry/${each}`),
  ];
  const { metafile } = await build({
    entryPoints: [join(ROOT, "scripts/sandbox/packaged.ts")],
    absWorkingDir: ROOT,
    bundle: true,
    platform: "node",
    target: "node20",
    format: "cjs",
    minify: true,
    external: [...given.flatMap((each) => [each, `${each}/*`]), ...unused],
    alias: {
      [`${name}/file-lock`]: join(ROOT, "sdk/src/file-lock/index.ts"),
      // Its native build is for one machine.
      secp256k1: createRequire(join(ROOT, "facilitator/package.json")).resolve("secp256k1/elliptic.js"),
    },
    plugins: [withoutEncodings, installedDatabase, ownEntries(name)],
    legalComments: "none",
    metafile: true,
    outfile,
    logLevel: "error",
  });
  return Object.keys(metafile.inputs);
}

/** The package's own entry points are found beside the bundle: by the name of the package that it is part of. */
const ownEntries = (name) => ({
  name: "own entry points",
  setup({ onResolve }) {
    const entries = Object.keys(readJson(join(ROOT, "sdk/package.json")).exports).map((entry) => join(name, entry));
    onResolve({ filter: new RegExp(`^${name}(/|$)`) }, ({ path }) =>
      entries.includes(path) ? { path, external: true } : undefined,
    );
  },
});

function licensesOf(inputs) {
  const folders = inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []);
  const texts = [...new Set(folders)].sort().map((each) => {
    const folder = join(ROOT, each);
    const { name, version, license } = readJson(join(folder, "package.json"));
    const file = readdirSync(folder).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
    return `${name} ${version} (${license})\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : ""}\n`;
  });
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}

async function main(target) {
  rmSync(target, { recursive: true, force: true });
  const inputs = await writeProgram(join(target, PROGRAM));
  copyFileSync(join(ROOT, "scripts/sandbox/with-parent.cjs"), join(target, dirname(PROGRAM), "with-parent.cjs"));
  writeArtifacts(join(target, "artifacts"));
  await buildDashboard(join(target, "dashboard/dist"));
  writeFileSync(join(target, "LICENSES.txt"), licensesOf(inputs));
}

main(resolve(process.argv[2] ?? join(ROOT, "sdk/dist/sandbox"))).catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
});
