/**
 * Writes rows to files before they are deleted: gzip of one JSON object a line, with a checksum beside it. A file is
 * written under another name, synced, renamed, and read back before the database lists it as complete.
 */
import { createHash } from "node:crypto";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import type { Db } from "./open";

const compress = promisify(gzip);

const decompress = promisify(gunzip);

export interface ArchiveOptions {
  readonly dir: string;
  readonly db: Db;
  readonly chainId: number;
  readonly nowMs: () => number;
}

export interface ArchivedRow {
  readonly seq: number;
}

export class Archive {
  readonly #options: ArchiveOptions;

  constructor(options: ArchiveOptions) {
    this.#options = options;
  }

  async through(kind: string): Promise<number> {
    const row = await this.#options.db
      .selectFrom("archive_files")
      .select("last_seq")
      .where("chain_id", "=", this.#options.chainId)
      .where("kind", "=", kind)
      .orderBy("last_seq", "desc")
      .limit(1)
      .executeTakeFirst();
    return row?.last_seq ?? 0;
  }

  /** Writes one file. @param rows in order of `seq` @throws when the file cannot be written, or reads back differently */
  async write(kind: string, rows: readonly [ArchivedRow, ...ArchivedRow[]]): Promise<void> {
    const { dir, db, chainId, nowMs } = this.#options;
    const [first] = rows;
    const last = rows.at(-1) ?? first;
    const text = Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const packed = await compress(text);
    const sha256 = createHash("sha256").update(packed).digest("hex");
    // A restored backup numbers other events the same, and another deployment may write to the same folder.
    const name = `${kind}-${chainId}-${first.seq}-${last.seq}-${sha256.slice(0, 8)}.ndjson.gz`;
    await mkdir(dir, { recursive: true });
    await writeWhole(path.join(dir, name), packed);
    if (!(await decompress(await readFile(path.join(dir, name)))).equals(text))
      throw new TypeError(`archive ${name} does not read back as it was written: check the disk of ARCHIVE_DIR`);
    await writeWhole(path.join(dir, `${name}.sha256`), `${sha256}  ${name}\n`);
    await db
      .insertInto("archive_files")
      .values({
        chain_id: chainId,
        kind,
        first_seq: first.seq,
        last_seq: last.seq,
        name,
        rows: rows.length,
        bytes: packed.length,
        sha256,
        created_at_ms: nowMs(),
      })
      .execute();
  }
}

/** Replaces a file at once, and returns when it is on the disk. */
async function writeWhole(file: string, content: Buffer | string): Promise<void> {
  const next = `${file}.next`;
  const handle = await open(next, "w", 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(next, file);
  const folder = await open(path.dirname(file), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
