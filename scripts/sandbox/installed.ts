/** Finds what the user has installed for `npx turnpike sandbox`. */
import { createRequire } from "node:module";
import path from "node:path";

/**
 * @param name of a package, or of a file in it
 * @param folder of the project that is searched after the packages beside this program: npx may have those elsewhere
 * @returns the files, the first one first
 */
export function installed(name: string, folder: string): readonly string[] {
  return [__filename, path.join(folder, "any.js")].flatMap((from) => {
    try {
      return [createRequire(from).resolve(name)];
    } catch {
      return [];
    }
  });
}
