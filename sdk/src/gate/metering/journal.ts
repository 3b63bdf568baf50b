/**
 * An append-only file whose lines are durable before anybody is told: entries that arrive while the disk works share
 * the next write and fsync (group commit). Compacts itself into one snapshot. Knows no meaning of an entry beyond that
 * reservations of one subscription in one group add up.
 */
import { type FileHandle, open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { type TurnpikeError, Unavailable } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { Entry } from "./books";
import { decodeLines, encodeLine, type Line, type SnapshotEntry } from "./entry-line";

export interface JournalOptions {
  readonly path: string;
  /** the books as they stand, everything appended so far included */
  readonly snapshot: () => SnapshotEntry;
  /** bytes after which the file is replaced by a snapshot */
  readonly compactAtBytes: number;
  readonly onFailure: (error: TurnpikeError) => void;
}

type Reservation = {
  -readonly [K in keyof Extract<Entry, { kind: "reserved" }>]: Extract<Entry, { kind: "reserved" }>[K];
};

interface Group {
  readonly lines: Line[];
  /** this group's line for a subscription since its last other entry */
  readonly reservations: Map<Hex, Reservation>;
  readonly durable: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Journal {
  private group: Group | undefined;
  private writing: Promise<void> | undefined;
  private failure: TurnpikeError | undefined;
  private compactAtBytes: number;

  private constructor(
    private readonly options: JournalOptions,
    private file: FileHandle,
    private sizeBytes: number,
  ) {
    this.compactAtBytes = options.compactAtBytes;
  }

  /** Reads what is there, tells each entry, and cuts off what a crash left half written. */
  static async open(options: JournalOptions, tell: (line: Line) => void): Promise<Journal> {
    const file = await open(options.path, "a+", 0o600);
    try {
      const bytes = await readFile(options.path);
      const { lines, wholeBytes } = decodeLines(bytes);
      if (wholeBytes < bytes.length) {
        await file.truncate(wholeBytes);
        await file.datasync();
      }
      if (bytes.length === 0) await syncFolder(options.path);
      for (const line of lines) tell(line);
      return new Journal(options, file, wholeBytes);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** @throws Unavailable once a write has failed: what the disk holds is then unknown until the file is read again */
  requireHealthy(): void {
    if (this.failure) throw this.failure;
  }

  reserved(idHash: Hex, amount: bigint, block: number): Promise<void> {
    const group = this.openGroup();
    const line = group.reservations.get(idHash);
    if (line === undefined) {
      const first: Reservation = { kind: "reserved", idHash, amount, calls: 1, block };
      group.reservations.set(idHash, first);
      group.lines.push(first);
    } else {
      line.amount += amount;
      line.calls += 1;
      line.block = Math.max(line.block, block);
    }
    return group.durable;
  }

  append(entry: Entry): Promise<void> {
    const group = this.openGroup();
    // What is reserved after this entry must stand after it.
    group.reservations.clear();
    group.lines.push(entry);
    return group.durable;
  }

  /** Resolves when everything appended so far is durable and the file is closed. */
  async close(): Promise<void> {
    while (this.writing) await this.writing;
    await this.file.close();
  }

  private openGroup(): Group {
    this.requireHealthy();
    if (this.group === undefined) {
      this.group = createGroup();
      this.writing ??= this.write();
    }
    return this.group;
  }

  private async write(): Promise<void> {
    // Whoever reserves in this turn of the event loop shares the first write.
    await new Promise<void>((resolve) => setImmediate(resolve));
    for (let group = this.group; group !== undefined; group = this.group) {
      this.group = undefined;
      try {
        if (this.sizeBytes >= this.compactAtBytes) await this.compact();
        else await this.appendLines(group.lines);
        group.resolve();
      } catch (cause) {
        this.fail(cause, group);
        break;
      }
    }
    this.writing = undefined;
  }

  private async appendLines(lines: readonly Line[]): Promise<void> {
    let text = "";
    for (const line of lines) text += encodeLine(line);
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) at += (await this.file.write(bytes, at)).bytesWritten;
    await this.file.datasync();
    this.sizeBytes += bytes.length;
  }

  /** The snapshot is taken in the turn in which the group was: it holds the group's entries, and no later ones. */
  private async compact(): Promise<void> {
    const bytes = Buffer.from(encodeLine(this.options.snapshot()));
    const draft = `${this.options.path}.new`;
    const file = await open(draft, "w", 0o600);
    try {
      await file.writeFile(bytes);
      await file.sync();
      await rename(draft, this.options.path);
    } finally {
      await file.close();
    }
    await syncFolder(this.options.path);
    await this.file.close();
    this.file = await open(this.options.path, "a+", 0o600);
    this.sizeBytes = bytes.length;
    // Books that are large by themselves are not written out again for every group.
    this.compactAtBytes = Math.max(this.options.compactAtBytes, 2 * bytes.length);
  }

  private fail(cause: unknown, group: Group): void {
    this.failure = new Unavailable("The meter's journal cannot be written.", { cause, retryAfterSec: 30 });
    // Best effort: nobody was told of these entries, so they should not be found by the next start either.
    this.file.truncate(this.sizeBytes).catch(() => undefined);
    group.reject(this.failure);
    this.group?.reject(this.failure);
    this.group = undefined;
    this.options.onFailure(this.failure);
  }
}

function createGroup(): Group {
  let resolve: () => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const durable = new Promise<void>((onDone, onError) => {
    resolve = onDone;
    reject = onError;
  });
  return { lines: [], reservations: new Map(), durable, resolve, reject };
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
