/**
 * The generations of a folder's claims: the newest file counts, and it is deleted by nobody. A process may be paused
 * between any two calls here, also for several rotations, and then makes a file that was deleted long ago: so the
 * folder is listed again after a file was made or opened, and an older one is left. No lock is needed for that.
 */
import { linkSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { randomBytes, toHex, Unavailable } from "../../protocol";
import { ClaimFile } from "./claim-file";
import { lineOfRecord, ROTATED } from "./claim-line";
import { forget } from "./memory";

const FILE = /^claims-([0-9]{1,9})\.log$/;

/** A next generation before it has its name; a process that was killed leaves it. */
const UNNAMED = /^claims-([0-9]{1,9})\.log\.(?:[0-9a-fx.]+\.)?new$/;

/** Others must rotate between two listings for one to be in vain. */
const MAX_LISTINGS = 100;

const pathOf = (folder: string, generation: number): string => join(folder, `claims-${generation}.log`);

function numbersIn(folder: string, form: RegExp): number[] {
  return readdirSync(folder)
    .flatMap((name) => form.exec(name)?.[1] ?? [])
    .map(Number);
}

/** @returns -1 for a new folder */
export const newestIn = (folder: string): number => Math.max(-1, ...numbersIn(folder, FILE));

/** Opens and reads the newest generation; makes the first one of a new folder. */
export function openNewest(folder: string): ClaimFile {
  for (let listings = 0; listings < MAX_LISTINGS; listings++) {
    const newest = newestIn(folder);
    const file =
      newest < 0
        ? ClaimFile.open(pathOf(folder, 0), 0, "first")
        : ClaimFile.open(pathOf(folder, newest), newest, "later");
    // Of the newest at this moment every later rotation ends the lines, so its reader follows.
    if (file && newestIn(folder) === file.generation) return file.load();
    file?.close();
  }
  throw new Unavailable("The claim files are replaced faster than they can be opened.");
}

/**
 * Ends a file, and writes its living records to the next generation, unless another process has.
 * @param nowSec chain time, before which records expired
 * @throws Unavailable, or the system's error, when the disk takes not enough
 */
export function writeNext(folder: string, file: ClaimFile, nowSec: number): void {
  if (!file.isRotated) file.write(ROTATED);
  file.catchUp();
  // Others would go on in this file while a next one is there.
  if (!file.isRotated) throw new Unavailable("The end of the claim file could not be read.");
  forget(file.records, nowSec);
  const next = pathOf(folder, file.generation + 1);
  const unnamed = `${next}.${process.pid}.${toHex(randomBytes(8))}.new`;
  try {
    const living = [...file.records].map(([id, record]) => lineOfRecord(id, record)).join("\n");
    writeFileSync(unnamed, living, { flag: "wx", mode: 0o600, flush: true });
    // Fails where another process's is there. Where theirs was deleted since, ours is deleted as well, below.
    linkSync(unnamed, next);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EEXIST" && code !== "ENOENT") throw error;
  } finally {
    rmSync(unnamed, { force: true });
  }
  removeOld(folder);
}

/** Keeps the newest generation and the one before it, whose readers may not have seen its end yet. */
function removeOld(folder: string): void {
  const newest = newestIn(folder);
  for (const name of readdirSync(folder)) {
    const ended = FILE.exec(name)?.[1];
    const unnamed = UNNAMED.exec(name)?.[1];
    const isOld = (ended && Number(ended) < newest - 1) || (unnamed && Number(unnamed) <= newest);
    if (isOld) rmSync(join(folder, name), { force: true });
  }
}
