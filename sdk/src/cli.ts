#!/usr/bin/env node
/** The program behind `npx turnpike`. */
import { homedir } from "node:os";
import { sleepFor } from "./agent/core/effects";
import { runCli } from "./cli/run";

const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  // A second signal ends the program at once.
  process.once(signal, () => interrupted.abort(new Error(`interrupted by ${signal}`)));
}

runCli(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  home: homedir(),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  fetch: (input, init) => fetch(input, init),
  sleep: sleepFor,
  signal: interrupted.signal,
}).then((code) => {
  process.exitCode = code;
});
