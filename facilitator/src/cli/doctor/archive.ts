/** Checks the folder of ARCHIVE_DIR: while it cannot be written, no old event is deleted and the database grows. */
import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import type { Finding } from "../../chain/contract-checks";
import type { FacilitatorConfig } from "../../config";

const SUBJECT = "ARCHIVE_DIR";

const GIB = 2 ** 30;

/** Files of 10,000 events are small; a disk with less than this is nearly full for other reasons too. */
const LOW_BYTES = GIB;

/** The process with this role writes the files. */
const WRITER = "indexer";

export async function examineArchive({
  archiveDir: dir,
  roles,
}: Pick<FacilitatorConfig, "archiveDir" | "roles">): Promise<Finding[]> {
  if (dir === undefined || !roles.includes(WRITER)) return [];
  const fault = await faultOf(dir);
  if (fault) return [{ subject: SUBJECT, ...fault }];
  const { bavail, bsize } = await statfs(dir);
  const freeBytes = bavail * bsize;
  const detail = `${dir} can be written, and its disk has ${(freeBytes / GIB).toFixed(1)} GiB left`;
  if (freeBytes >= LOW_BYTES) return [{ level: "ok", subject: SUBJECT, detail }];
  return [
    { level: "warn", subject: SUBJECT, detail, remedy: "move old files away, or name a folder on a larger disk" },
  ];
}

async function faultOf(dir: string): Promise<Omit<Finding, "subject"> | undefined> {
  try {
    if (!(await stat(dir)).isDirectory())
      return { level: "fail", detail: `${dir} is no folder`, remedy: "name a folder, or unset it" };
    await access(dir, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    const { code = "unknown error" } = error as NodeJS.ErrnoException;
    // The service would make it; more often a volume is not mounted, or its name is misspelled.
    if (code === "ENOENT")
      return { level: "fail", detail: `${dir} does not exist`, remedy: "make the folder, or mount its volume there" };
    return {
      level: "fail",
      detail: `${dir} cannot be written (${code})`,
      remedy: "let this user write to it, or name another folder; until then no old event is deleted",
    };
  }
}
