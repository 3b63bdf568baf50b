/**
 * A fresh clone of this repository after `npm ci`: the files that git knows or would add, none that a build made, and the
 * installed packages linked from here. Nothing is downloaded.
 */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

export const ROOT = path.resolve(__dirname, "../..");
/** Where `npm ci` puts packages. */
const INSTALLED = ["node_modules", "sdk/node_modules", "facilitator/node_modules"];
const MAX_OUTPUT_BYTES = 64_000_000;

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface FreshClone {
  readonly folder: string;
  /** Runs a program in the clone, or in a folder of it, and returns how it ended. */
  run(
    command: string,
    args: readonly string[],
    env?: Readonly<Record<string, string>>,
    cwd?: string,
  ): Promise<Finished>;
  remove(): void;
}

export async function freshClone(): Promise<FreshClone> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-clone-"));
  const listed = await finished("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT);
  if (listed.code !== 0) throw new Error(`git lists no files of ${ROOT}: ${listed.stderr}`);
  for (const file of listed.stdout.split("\0").filter(Boolean))
    if (existsSync(path.join(ROOT, file))) cpSync(path.join(ROOT, file), path.join(folder, file));
  for (const modules of INSTALLED) linkPackages(path.join(ROOT, modules), path.join(folder, modules));
  return {
    folder,
    run: (command, args, env = {}, cwd = folder) => finished(command, args, cwd, env),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Links each package by itself: a link to the whole folder would resolve workspaces to this repository. */
function linkPackages(from: string, to: string): void {
  if (!existsSync(from)) return;
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = path.join(from, entry.name);
    symlinkSync(entry.isSymbolicLink() ? readlinkSync(source) : source, path.join(to, entry.name));
  }
}

/** Runs a program with the environment of a newcomer's shell, and returns how it ended. */
export function finished(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Finished> {
  // What the test run itself was started with is not what a newcomer's shell has.
  const { TEST_REPORT: _report, TEST_TIMES: _times, HARDHAT_NETWORK: _network, NODE_ENV: _env, ...own } = process.env;
  return new Promise((resolve) => {
    execFile(command, args, { cwd, env: { ...own, ...env }, maxBuffer: MAX_OUTPUT_BYTES }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
      resolve({ code, stdout, stderr: error && stderr === "" ? error.message : stderr });
    });
  });
}
