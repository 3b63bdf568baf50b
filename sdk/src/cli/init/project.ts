/** Writes a new project into a new folder, whole or not at all. Touches nothing that exists. */
import { mkdir, mkdtemp, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { UsageError } from "../command-errors";
import { packageFolder } from "../package-folder";
import { IS_PUBLISHED, VERSION } from "../version";

/** One file of a new project. */
export interface ProjectFile {
  readonly name: string;
  readonly text: string;
  /** whether only the user may read it */
  readonly isSecret?: boolean;
}

/** @throws UsageError when the folder exists, or cannot be made */
export async function writeProject(folder: string, files: readonly ProjectFile[]): Promise<void> {
  const draft = await mkdtemp(join(dirname(folder), `.${basename(folder)}-`)).catch((cause: { code?: string }) => {
    throw new UsageError(
      `The folder ${dirname(folder)} cannot be written (${cause.code}).`,
      "Name a folder in one that exists.",
    );
  });
  let isMade = false;
  try {
    for (const { name, text, isSecret } of files) {
      await writeFile(join(draft, name), text, { flag: "wx", mode: isSecret ? 0o600 : 0o644 });
    }
    // An empty folder of that name would be replaced by the rename below.
    await mkdir(folder);
    isMade = true;
    await rename(draft, folder);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (isMade) await rmdir(folder);
    if ((error as { code?: string }).code !== "EEXIST") throw error;
    throw new UsageError(`The folder ${folder} exists.`, "Name a new one: `init` writes into no folder that exists.");
  }
}

/** Returns the manifest of a project whose program starts with `npm start`. */
export function manifestOf(folder: string, program: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+|-+$/g, "");
  const manifest = {
    name: name || "turnpike-project",
    version: "0.0.0",
    private: true,
    type: "module",
    engines: { node: ">=20.19" },
    scripts: { start: `node --env-file=.env ${program}` },
    dependencies: { turnpike: IS_PUBLISHED ? VERSION : `file:${packageFolder(__dirname)}` },
  };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}
