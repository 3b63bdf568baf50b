/**
 * The package as a user gets it: built, packed by npm, unpacked into an empty project. Its dependencies are linked from
 * this repository, so that nothing is downloaded.
 */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

const SDK = resolve(__dirname, "../../../sdk");
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

const { sharedPackage }: { sharedPackage(): Promise<Tarball> } = require("../../../tools/shared-package.cjs");

/** Installs a tarball in an empty project; the one that this repository builds unless given. */
export async function emptyProject(tarball?: Tarball): Promise<Project> {
  const { file, files } = tarball ?? (await sharedPackage());
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
