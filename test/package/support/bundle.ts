/** Bundles as an application's own bundler makes them, and what went into them. */
import { resolve as absolute } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Metafile } from "esbuild";

export interface Bundle {
  /** the entry's own file */
  readonly text: string;
  /** of the entry and of what it imports statically */
  readonly bytes: number;
  readonly gzipBytes: number;
  /** gzipped, of what is loaded when it is first used */
  readonly laterGzipBytes: number;
  /** the packages in all of it: `zod`, `@noble/curves`, ...; our own files are not listed */
  readonly packages: readonly string[];
  /** `turnpike/agent`, ... */
  readonly ownFolders: readonly string[];
  /** bytes in the entry and what it imports statically, by package, or by folder of our own; the heaviest first */
  readonly weights: readonly (readonly [part: string, bytes: number])[];
}

export interface BundleOptions {
  /** where the packages are */
  readonly cwd: string;
  /** default: browser */
  readonly platform?: "browser" | "node";
  /** whether what is loaded later has files of its own; default: no, it is in the entry */
  readonly splitting?: boolean;
  /** default: esm */
  readonly format?: "esm" | "cjs";
}

const OUT = "/out";

/** Bundles a program. Modules of Node are an error in a bundle for browsers. */
export async function bundle(
  contents: string,
  { cwd, platform = "browser", splitting = false, format = "esm" }: BundleOptions,
): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: cwd, loader: "ts" },
    absWorkingDir: cwd,
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format,
    platform,
    target: "es2022",
    outdir: OUT,
    splitting,
    logLevel: "silent",
  });
  const files = new Map(outputFiles.map((file) => [file.path, file]));
  const { outputs } = metafile;
  const entry = Object.keys(outputs).find((path) => outputs[path]?.entryPoint === "<stdin>");
  if (entry === undefined) throw new Error("esbuild wrote nothing");
  const first = new Set(reachedFrom(outputs, entry));
  const fileOf = (path: string) => {
    const file = files.get(absolute(cwd, path));
    if (!file) throw new Error(`esbuild wrote no ${path}`);
    return file;
  };
  const sum = (paths: Iterable<string>, of: (path: string) => number) =>
    [...paths].reduce((total, path) => total + of(path), 0);
  const gzipped = (path: string) => gzipSync(fileOf(path).contents, { level: 9 }).byteLength;
  const later = Object.keys(outputs).filter((path) => !first.has(path));
  return {
    text: fileOf(entry).text,
    bytes: sum(first, (path) => fileOf(path).contents.byteLength),
    gzipBytes: sum(first, gzipped),
    laterGzipBytes: sum(later, gzipped),
    packages: [...weightsOf(outputs, Object.keys(outputs)).keys()].filter((part) => !isOwn(part)).sort(),
    ownFolders: [...weightsOf(outputs, Object.keys(outputs)).keys()].filter(isOwn).sort(),
    weights: [...weightsOf(outputs, first)].sort(([, one], [, other]) => other - one),
  };
}

const isOwn = (part: string): boolean => part.split("/")[0] === "turnpike";

type Outputs = Metafile["outputs"];

function reachedFrom(outputs: Outputs, path: string, seen: readonly string[] = []): readonly string[] {
  if (seen.includes(path)) return seen;
  const imported = (outputs[path]?.imports ?? []).filter(
    ({ kind, external }) => kind === "import-statement" && !external,
  );
  return imported.reduce<readonly string[]>(
    (reached, each) => reachedFrom(outputs, each.path, reached),
    [...seen, path],
  );
}

/** @returns bytes by package, as `zod`, and of our own package by folder, as `turnpike/agent` */
function weightsOf(outputs: Outputs, paths: Iterable<string>): Map<string, number> {
  const weights = new Map<string, number>();
  for (const path of paths) {
    for (const [input, { bytesInOutput }] of Object.entries(outputs[path]?.inputs ?? {})) {
      // A package that browsers leave out has an empty module in its place.
      if (bytesInOutput === 0 || input === "<stdin>" || input.startsWith("(disabled):")) continue;
      const part = partOf(input);
      weights.set(part, (weights.get(part) ?? 0) + bytesInOutput);
    }
  }
  return weights;
}

function partOf(input: string): string {
  const [, name = input, rest = ""] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\/(.*)/.exec(input) ?? [];
  const [, folder = ""] = /^dist\/(.*)\/[^/]+$/.exec(rest) ?? [];
  return name === "turnpike" && folder !== "" ? `turnpike/${folder}` : name;
}
