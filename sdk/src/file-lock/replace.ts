/**
 * Replaces a file that a lock guards. A process may be paused between its look at the lock and the rename, while another
 * takes the lock over: so its next holder first removes what others have
 * not renamed yet, and reads after that.
 */
import { randomBytes } from "node:crypto";
import { type FileHandle, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** What follows the path in the name of a file that is not renamed yet; also of a note beside it. */
const UNFINISHED = /^(?:\.repair)?(?:\.[0-9]+\.[0-9a-f]{16})?\.new$/;

/** Removes what other processes were about to rename to this path. For the holder of the lock, before it reads. */
export async function removeUnfinished(path: string): Promise<void> {
  const folder = dirname(path);
  const start = basename(path);
  for (const name of await readdir(folder)) {
    if (!name.startsWith(start) || !UNFINISHED.test(name.slice(start.length))) continue;
    await rm(join(folder, name), { force: true });
  }
}

/**
 * Replaces a file whole or not at all.
 * @param requireOwn throws where the lock is not this process's any more
 * @returns the new file, open for appending
 */
export async function replaceFile(path: string, content: Buffer | string, requireOwn: () => void): Promise<FileHandle> {
  const unfinished = `${path}.${process.pid}.${randomBytes(8).toString("hex")}.new`;
  const file = await open(unfinished, "ax", 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
    // It is there before the look at the lock: the next holder removes it, and the rename fails.
    requireOwn();
    await rename(unfinished, path);
    await syncFolder(path);
    return file;
  } catch (error) {
    await file.close();
    await rm(unfinished, { force: true });
    throw error;
  }
}

/** A new name in a folder is durable only once the folder is. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
