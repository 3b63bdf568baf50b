/** A TypeScript program as one JavaScript file: a process that a test starts and kills is there in half a second. */
import path from "node:path";
import { buildSync } from "esbuild";

/**
 * @param external packages that it loads when it runs
 * @returns the file, in `folder`; it loads its other dependencies from this workspace
 */
export function bundled(entry: string, folder: string, external: readonly string[] = []): string {
  const outfile = path.join(folder, `${path.basename(entry, ".ts")}.cjs`);
  buildSync({
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node20",
    logLevel: "error",
    external: ["pg-native", ...external],
  });
  return outfile;
}
