/** Keeps claims in one file that any number of processes on this machine share. */
import { ConfigError } from "../../protocol";
import { aNumber, aText, optionsOf } from "../../protocol/option-checks";
import { LogCells } from "../cells/log";
import type { ClaimStore } from "./record";
import { claimsOn } from "./store";

export interface FileClaimsOptions {
  /** created when absent, readable by its owner only */
  readonly folder: string;
  /** how much a file may grow beyond its living records, at least; default 16 MiB */
  readonly rotateBytes?: number;
  /**
   * how much space all kept answers may take, bytes; default 700 MiB. The oldest are deleted first, also where the disk
   * is full: claims need it more
   */
  readonly answersBytes?: number;
}

const MIB = 1_024 * 1_024;

/** The name of the log. */
export const CLAIM_LOG = "gate";

const isEarlier = (file: string): boolean => /^(?:claims-[0-9]+\.log|grant\.key)$/.test(file);

const checkOptions = optionsOf<FileClaimsOptions>({ folder: aText, rotateBytes: aNumber, answersBytes: aNumber }, [
  "folder",
]);

/** @throws ConfigError when the folder cannot be used */
export function fileClaims(options: FileClaimsOptions): ClaimStore {
  checkOptions(options, "");
  const { folder, rotateBytes = 16 * MIB, answersBytes = 700 * MIB } = options;
  if (!Number.isSafeInteger(answersBytes) || answersBytes < 0) {
    throw new ConfigError(`claims: answersBytes is ${answersBytes}; use a whole number of bytes`);
  }
  const cells = new LogCells({ folder, name: CLAIM_LOG, what: "claims", isEarlier, rotateBytes, answersBytes });
  cells.open();
  return claimsOn(cells);
}
