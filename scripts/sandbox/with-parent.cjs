// Runs a program as a child process, and ends it when this process's own parent is gone or closes the channel, however
// that came about: a program that is no Node program cannot watch its parent itself.
const { spawn } = require("node:child_process");

const [file, ...args] = process.argv.slice(2);
const child = spawn(file, args, { stdio: ["ignore", "inherit", "inherit"] });
child.once("error", (error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
child.once("exit", (code) => process.exit(code ?? 1));
process.once("disconnect", () => child.kill("SIGKILL"));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill("SIGKILL"));
