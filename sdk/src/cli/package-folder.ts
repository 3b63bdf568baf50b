import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { CommandFailed } from "./command-errors";

/** Returns the folder of the package. @param folder a folder in it */
export function packageFolder(folder: string): string {
  const manifest = join(folder, "package.json");
  if (existsSync(manifest) && JSON.parse(readFileSync(manifest, "utf8")).name === "turnpike") return folder;
  if (dirname(folder) !== folder) return packageFolder(dirname(folder));
  throw new CommandFailed("The package.json of turnpike is missing.", "Install the package again.");
}
