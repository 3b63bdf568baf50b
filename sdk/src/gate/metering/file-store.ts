/** Keeps a meter's books in one file that any number of processes on this machine share. */
import { basename, dirname, resolve } from "node:path";
import type { TurnpikeError } from "../../protocol/errors";
import { LogCells } from "../cells/log";
import { sharedMeterStore } from "./shared-store";
import type { MeterStore } from "./store";

export interface FileMeterStoreOptions {
  /** the files' folder and the start of their names, with `.log` */
  readonly path: string;
  /** how long the sender's lease outlives its last sign of life; default 20,000 */
  readonly leaseMs?: number;
  /** how much a file may grow before it is replaced by its living records, at least; default 32 MiB */
  readonly compactAtBytes?: number;
  /** Called once, when the disk has failed; default: a warning. Everything is refused until a restart. */
  readonly onFailure?: (error: TurnpikeError) => void;
}

const MIB = 1_024 * 1_024;

export function createFileMeterStore(options: FileMeterStoreOptions): MeterStore {
  const { leaseMs = 20_000, compactAtBytes: rotateBytes = 32 * MIB, onFailure } = options;
  const path = resolve(options.path);
  const cells = new LogCells({
    folder: dirname(path),
    name: basename(path, ".log"),
    what: "meterFolder",
    // The journal of an earlier version.
    isEarlier: (file) => file === basename(path),
    rotateBytes,
    onFailure,
  });
  return sharedMeterStore(cells, { leaseMs, refreshMs: Math.min(500, leaseMs / 10) });
}
