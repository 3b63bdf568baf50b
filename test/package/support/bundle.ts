/** Bundles as an application's own bundler makes them, and what went into them. */
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Plugin } from "esbuild";

export interface Bundle {
  readonly text: string;
  readonly bytes: number;
  readonly gzipBytes: number;
  /** the packages in it: `zod`, `@noble/curves`, ...; our own files are not listed */
  readonly packages: readonly string[];
  /** our own files in it, from the package's root */
  readonly files: readonly string[];
}

/** Bundles a program for browsers. `plugins` say where `turnpike` is. */
export async function bundle(contents: string, plugins: Plugin[] = [], cwd = process.cwd()): Promise<Bundle> {
  const { outputFiles, metafile } = await build({
    stdin: { contents, resolveDir: cwd, loader: "ts" },
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    logLevel: "silent",
    plugins,
  });
  const [output] = outputFiles;
  if (!output) throw new Error("esbuild wrote nothing");
  const inputs = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
  );
  const packages = inputs.flatMap((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
  return {
    text: output.text,
    bytes: output.contents.byteLength,
    gzipBytes: gzipSync(output.contents, { level: 9 }).byteLength,
    packages: [...new Set(packages)].filter((name) => name !== "turnpike").sort(),
    files: inputs.filter((path) => !path.includes("node_modules") && path !== "<stdin>").sort(),
  };
}

/** The entry points in the repository, before the package is built. */
export const fromSource: Plugin = {
  name: "turnpike from source",
  setup({ onResolve }) {
    onResolve({ filter: /^turnpike(\/|$)/ }, ({ path }) => {
      const entry = path.slice("turnpike".length);
      const file = /^\/gate\/./.test(entry) ? `${entry}.ts` : `${entry}/index.ts`;
      return { path: join(process.cwd(), "sdk/src", file) };
    });
  },
};
