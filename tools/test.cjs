/**
 * The whole test command. Most tests wait for blocks rather than compute, so two halves run side by side; the laws, which
 * take all cores, come last. With arguments it is `hardhat test` with those arguments.
 */
const { spawn } = require("node:child_process");
const { readdirSync } = require("node:fs");
const { join } = require("node:path");

const HARDHAT = require.resolve("hardhat/internal/cli/cli.js");

/** Runs a program; what it prints is shown at once, or kept until it has ended. */
function run(args, { shown }) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { stdio: shown ? "inherit" : ["ignore", "pipe", "pipe"] });
    const kept = [];
    child.stdout?.on("data", (chunk) => kept.push(chunk));
    child.stderr?.on("data", (chunk) => kept.push(chunk));
    child.on("close", (code) => {
      process.stdout.write(Buffer.concat(kept));
      resolve(code ?? 1);
    });
  });
}

/** What is no test of this command: helpers, and suites that need more than npm ci (`test:interop`, `test:frameworks`, `test:image`, `test:redis`). */
const LEFT_OUT = new Set(["support", "node_modules", "interop", "frameworks", "image", "redis"]);

function testFiles(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return LEFT_OUT.has(entry.name) ? [] : testFiles(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

async function main(args) {
  if (args.length > 0) return run([HARDHAT, "test", ...args], { shown: true });
  const compiled = await run([HARDHAT, "compile", "--quiet"], { shown: true });
  if (compiled !== 0) return compiled;
  const files = testFiles("test");
  const isService = (file) => file.startsWith(join("test", "facilitator"));
  const halves = await Promise.all([
    run([HARDHAT, "test", "--no-compile", ...files.filter((file) => !isService(file))], { shown: true }),
    run([HARDHAT, "test", "--no-compile", ...files.filter(isService)], { shown: false }),
  ]);
  const laws = await run([join(__dirname, "forge.cjs"), "test"], { shown: true });
  return [...halves, laws].find((code) => code !== 0) ?? 0;
}

main(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
