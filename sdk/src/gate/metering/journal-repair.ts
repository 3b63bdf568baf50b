/**
 * What becomes of a journal that could not be written: the entries that nobody was told of are cut off, so that no later
 * start charges for calls that were refused. Where the disk does not even allow that, a note beside the journal says
 * from which byte on it counts for nothing, and no start opens it before it is cut.
 */
import { type FileHandle, open, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { ConfigError, Unavailable } from "../../protocol/errors";

const NOTE = /^([0-9]{1,15})\n$/;
const noteOf = (path: string): string => `${path}.repair`;

/** @returns whether the journal is as it was told, or the next start will make it so */
export async function cutBack(file: FileHandle, path: string, wholeBytes: number): Promise<boolean> {
  try {
    await file.truncate(wholeBytes);
    await file.datasync();
    return true;
  } catch {
    // What the disk holds is not known: the note decides, if there can be one.
    return leaveNote(path, wholeBytes);
  }
}

async function leaveNote(path: string, wholeBytes: number): Promise<boolean> {
  try {
    const note = await open(noteOf(path), "w", 0o600);
    try {
      await note.writeFile(`${wholeBytes}\n`);
      await note.sync();
    } finally {
      await note.close();
    }
    await syncFolder(path);
    return true;
  } catch {
    // Told to the operator by whoever asked.
    return false;
  }
}

/** Cuts off what a note says. @throws Unavailable while that fails; ConfigError for a note that cannot be read */
export async function repair(file: FileHandle, path: string): Promise<void> {
  const note = await readFile(noteOf(path), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (note === undefined) return;
  const wholeBytes = NOTE.exec(note)?.[1];
  if (wholeBytes === undefined) {
    throw new ConfigError(
      `${noteOf(path)} is damaged: the end of the meter's journal may hold calls that were refused. Remove the note to charge them all the same.`,
    );
  }
  try {
    const { size } = await file.stat();
    if (size > Number(wholeBytes)) await file.truncate(Number(wholeBytes));
    await file.datasync();
    await rm(noteOf(path));
    await syncFolder(path);
  } catch (cause) {
    throw new Unavailable("The meter's journal has to be repaired first, and cannot be.", { cause, retryAfterSec: 30 });
  }
}

/** A new name in a folder is durable only once the folder is. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
