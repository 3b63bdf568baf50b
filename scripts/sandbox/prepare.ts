/** Builds what the sandbox needs, in parallel: the contracts' artifacts and types, and the dashboard. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import type { Progress } from "./progress";

const ROOT = path.resolve(__dirname, "../..");

const HARDHAT = require.resolve("hardhat/internal/cli/cli.js");

const DASHBOARD = path.join(ROOT, "facilitator/tools/build-dashboard.cjs");

/** The sandbox deploys these alone. Without the tests' contracts the first compile takes half the time. */
export const DEPLOYED: readonly string[] = [
  "contracts/Turnpike.sol",
  "contracts/BatchSettler.sol",
  "contracts/test/TestToken.sol",
  "contracts/test/Permit2Proxies.sol",
];

/** Written by a full compile. Where it exists, a partial compile would remove it. */
const WHOLE = path.join(ROOT, "artifacts/contracts/test/FaultyTokens.sol");

/** @throws Error with the compiler's output when a build fails */
export async function prepare(progress: Progress, signal: AbortSignal): Promise<void> {
  const sources: Record<string, string> = existsSync(WHOLE) ? {} : { TURNPIKE_SOURCES: DEPLOYED.join(",") };
  const title = existsSync(WHOLE) ? "Compile what changed in the contracts" : "Compile the contracts";
  await Promise.all([
    progress.during(title, run([HARDHAT, "compile", "--quiet"], sources, signal)),
    progress.during("Build the dashboard", run([DASHBOARD, "--quiet"], {}, signal)),
  ]);
}

async function run(args: readonly string[], env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
  // A process group of its own on POSIX: the compiler starts another process, which must end with it.
  const isGroup = process.platform !== "win32";
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: isGroup,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => {
      output = (output + chunk).slice(-64_000);
    });
  const kill = (): void => killAll(child, isGroup);
  process.once("exit", kill);
  signal.addEventListener("abort", kill, { once: true });
  try {
    const code = await new Promise<number | null>((resolve, reject) =>
      child.once("error", reject).once("close", resolve),
    );
    if (code !== 0) throw new Error(`${path.basename(args[0] ?? "")} ended with ${code}:\n${output}`);
  } finally {
    process.off("exit", kill);
    signal.removeEventListener("abort", kill);
  }
}

function killAll(child: ChildProcess, isGroup: boolean): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    if (isGroup) process.kill(-child.pid, "SIGTERM");
    else child.kill();
  } catch {
    // It ended between the check and the signal.
  }
}
