/** Makes the folders of files that hold secrets. Node only. */
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Makes a folder, and those above it, for their owner alone. Not by `mkdir` with `recursive`: that never returns for a
 * folder which the system lets nobody make, such as one in `/proc`.
 * @throws the system's error, with its `code`
 */
export async function makeFolder(path: string): Promise<void> {
  const make = () => mkdir(path, { mode: 0o700 });
  try {
    await make();
  } catch (error) {
    const { code } = error as { readonly code?: string };
    if (code === "EEXIST") return;
    const parent = dirname(path);
    if (code !== "ENOENT" || parent === path) throw error;
    await makeFolder(parent);
    await make().catch((again: { readonly code?: string }) => {
      // Another process made it meanwhile.
      if (again.code !== "EEXIST") throw again;
    });
  }
}
