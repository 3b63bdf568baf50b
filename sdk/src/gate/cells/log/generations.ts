/**
 * The generations of a log in a folder: the newest file counts, and nobody deletes it. A process may be paused between
 * any two calls here, also while others begin several generations, and then makes a file that was deleted long ago. So
 * the folder is listed again after a file was made or opened, and an older one is left. No lock is needed for that.
 */
import { closeSync, linkSync, openSync, readdirSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { randomBytes, toHex, Unavailable } from "../../../protocol";
import { fullDisk, LogFile, syncData, syncFolder, withSpace } from "./file";
import { cellLine, endLine, headLine, type SnapshotCell } from "./line";

/** A log is the files `<folder>/<name>-<generation>.log`. */
export interface LogPlace {
  readonly folder: string;
  readonly name: string;
}

/** Others must begin generations between two listings for one to be in vain. */
const MAX_LISTINGS = 100;

export const pathOf = ({ folder, name }: LogPlace, generation: number): string =>
  join(folder, `${name}-${generation}.log`);

/** Returns the generation of a file's name; `isNamed` false: it is being written, or its writer was killed. */
function generationIn(
  name: string,
  entry: string,
): { readonly generation: number; readonly isNamed: boolean } | undefined {
  if (!entry.startsWith(`${name}-`)) return undefined;
  const found = /^([0-9]{1,9})\.log(\.[0-9a-fx.]+\.new)?$/.exec(entry.slice(name.length + 1));
  return found ? { generation: Number(found[1]), isNamed: found[2] === undefined } : undefined;
}

/** @returns -1 for a new folder */
export function newestIn({ folder, name }: LogPlace): number {
  const found = readdirSync(folder).map((entry) => generationIn(name, entry));
  return Math.max(-1, ...found.flatMap((one) => (one?.isNamed ? one.generation : [])));
}

/** Opens and reads the newest generation; makes the first one of a new log. @param before the one that was open */
export function openNewest(place: LogPlace, before?: LogFile): LogFile {
  for (let listings = 0; listings < MAX_LISTINGS; listings++) {
    const newest = newestIn(place);
    const generation = Math.max(0, newest);
    const file = LogFile.open(pathOf(place, generation), generation, newest < 0 ? "first" : "later", before);
    // Of the newest at this moment every later one is begun by a line in it, so its reader follows.
    if (file && newestIn(place) === generation) return file.load();
    file?.close();
  }
  throw new Unavailable("The files of the store are replaced faster than they can be opened.");
}

/**
 * Ends a generation, and writes its cells to the next one, unless another process has. Others append meanwhile, until
 * it has ended; what they changed is written last.
 * @param nowSec cells that were to be kept until before this moment are left out
 * @throws Unavailable, or the system's error, when the disk takes not enough
 */
export async function writeNext(
  place: LogPlace,
  file: LogFile,
  nowSec: number,
  freeSpace: () => boolean = () => false,
): Promise<void> {
  const next = pathOf(place, file.generation + 1);
  const draft = new Draft(`${next}.${process.pid}.${toHex(randomBytes(8))}.new`, freeSpace);
  try {
    let sweptSec = file.sweptSec ?? nowSec;
    do {
      // Another process may have ended it meanwhile, and left out what was to be kept until before another moment.
      sweptSec = file.sweptSec ?? sweptSec;
      draft.begin();
      for await (const slice of file.cells.snapshot(sweptSec)) draft.write(slice);
      await draft.sync();
      if (!file.isEnded) withSpace(() => file.write(endLine(sweptSec)), freeSpace);
      file.catchUp();
      // Others would go on in this file while a next one is there.
      if (!file.isEnded) throw new Unavailable("The end of the store's file could not be read.");
    } while (file.sweptSec !== sweptSec);
    draft.write(file.cells.takeChanged(sweptSec));
    draft.finish();
    await draft.sync();
    // Fails where another process's is there. Where theirs was deleted since, ours is deleted as well, below.
    linkSync(draft.path, next);
    await syncFolder(place.folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EEXIST" && code !== "ENOENT") throw error;
  } finally {
    file.cells.takeChanged(0);
    draft.close();
    rmSync(draft.path, { force: true });
  }
  removeOld(place);
}

/** A next generation before it has its name. */
class Draft {
  readonly path: string;
  readonly #freeSpace: () => boolean;
  #fd: number | undefined;
  #bytes = 0;

  constructor(path: string, freeSpace: () => boolean) {
    this.path = path;
    this.#freeSpace = freeSpace;
  }

  /** Begins, or begins again. */
  begin(): void {
    this.close();
    this.#fd = openSync(this.path, "w", 0o600);
    this.#bytes = 0;
    this.#append(headLine(0));
  }

  write(cells: readonly SnapshotCell[]): void {
    let text = "";
    for (const [key, cell, isListed] of cells) {
      const { untilSec = 0, version = 0 } = cell ?? {};
      text += cellLine({ key, text: cell?.text, isListed, untilSec }, version);
    }
    this.#append(text);
  }

  /** Says at its head where it ends. */
  finish(): void {
    writeSync(this.#fd as number, headLine(this.#bytes), 0, "latin1");
  }

  sync(): Promise<void> {
    return syncData(this.#fd as number);
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #append(text: string): void {
    const bytes = Buffer.from(text, "latin1");
    for (let at = 0; at < bytes.length; ) {
      const written = withSpace(
        () => writeSync(this.#fd as number, bytes, at, bytes.length - at, this.#bytes),
        this.#freeSpace,
      );
      if (written === 0) throw fullDisk({ code: "ENOSPC" });
      at += written;
      this.#bytes += written;
    }
  }
}

/** Keeps the newest generation: those that still read an earlier one have it open. */
function removeOld(place: LogPlace): void {
  const newest = newestIn(place);
  for (const entry of readdirSync(place.folder)) {
    const found = generationIn(place.name, entry);
    if (found && found.generation < (found.isNamed ? newest : newest + 1)) {
      rmSync(join(place.folder, entry), { force: true });
    }
  }
}
