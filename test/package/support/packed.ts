/**
 * The package as a user gets it: built, packed by npm, unpacked into an empty project. Its dependencies are linked from
 * this repository, so that nothing is downloaded.
 */
import { execFile } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, realpath, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { until } from "../../support/until";

const SDK = resolve(__dirname, "../../../sdk");
const SANDBOX_PROGRAM = resolve(__dirname, "../../../tools/sandbox-program.cjs");
const APP = join(__dirname, "app");
const exec = promisify(execFile);

export interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, unknown>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

export interface Project {
  readonly folder: string;
  readonly manifest: Manifest;
  /** every path of the tarball */
  readonly files: readonly string[];
  /** Runs a program with this Node in the project. @returns what it printed; throws with what it said when it failed */
  run(...args: string[]): Promise<string>;
  remove(): Promise<void>;
}

export interface Tarball {
  readonly file: string;
  readonly files: readonly string[];
}
const BUILD_MS = 300_000;

let packed: Promise<Tarball> | undefined;

/** Built once, however many tests install it. */
function ownTarball(): Promise<Tarball> {
  packed ??= pack();
  return packed;
}

/** Of all test processes of one run, which have the folder of its report in common, the first builds it. */
async function pack(): Promise<Tarball> {
  const report = process.env.TEST_REPORT;
  if (report === undefined) {
    const own = await mkdtemp(join(tmpdir(), "turnpike-packed-"));
    process.once("exit", () => rmSync(own, { recursive: true, force: true }));
    return build(own);
  }
  const folder = join(dirname(report), "packed");
  const made = join(folder, "tarball.json");
  const isFirst = await mkdir(folder).then(
    () => true,
    () => false,
  );
  if (isFirst) {
    const tarball = await build(folder).catch((error: unknown) => ({ failed: String(error) }));
    await writeFile(`${made}.new`, JSON.stringify(tarball));
    await rename(`${made}.new`, made);
  }
  await until(async () => existsSync(made), "the package is built", BUILD_MS);
  const tarball = JSON.parse(await readFile(made, "utf8")) as Tarball | { readonly failed: string };
  if ("failed" in tarball) throw new Error(tarball.failed);
  return tarball;
}

async function build(built: string): Promise<Tarball> {
  // A place of its own: other builds in sdk/dist do not come between.
  const tsdown = join(dirname(createRequire(join(SDK, "x.js")).resolve("tsdown/package.json")), "dist/run.mjs");
  await exec(process.execPath, [tsdown, "--out-dir", join(built, "dist")], { cwd: SDK });
  await exec(process.execPath, [SANDBOX_PROGRAM, join(built, "dist/sandbox")]);
  for (const file of ["package.json", "README.md", "AGENTS.md", "LICENSE"])
    await cp(join(SDK, file), join(built, file));
  const { stdout } = await exec("npm", ["pack", "--json", "--ignore-scripts"], { cwd: built });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  return { file: join(built, packed.filename), files: packed.files.map(({ path }) => path) };
}

/** Installs a tarball in an empty project; the one that this repository builds unless given. */
export async function emptyProject(tarball?: Tarball): Promise<Project> {
  const { file, files } = tarball ?? (await ownTarball());
  const folder = await realpath(await mkdtemp(join(tmpdir(), "turnpike-package-")));
  const modules = join(folder, "node_modules");
  await mkdir(join(modules, "turnpike"), { recursive: true });
  await exec("tar", ["-xzf", file, "--strip-components=1", "-C", join(modules, "turnpike")]);
  const manifest = JSON.parse(await readFile(join(modules, "turnpike/package.json"), "utf8")) as Manifest;
  const types = ["@types/node", "@types/express"];
  for (const name of [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies), ...types]) {
    const from = [join(SDK, "node_modules"), resolve(SDK, "../node_modules")].map((place) => join(place, name));
    const target = await firstOf(from);
    if (!target) continue;
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(target, join(modules, name));
  }
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: "an-empty-project", private: true }));
  await cp(APP, folder, { recursive: true });
  return {
    folder,
    manifest,
    files,
    async run(...args) {
      try {
        return (await exec(process.execPath, args, { cwd: folder })).stdout;
      } catch (error) {
        const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
        throw new Error(`${args.join(" ")} failed:\n${stdout}${stderr}`);
      }
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

async function firstOf(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    const found = await realpath(path).catch(() => undefined);
    if (found) return found;
  }
  return undefined;
}
