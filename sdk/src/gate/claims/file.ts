/** Keeps claims in one file that any number of processes on this machine share. */
import { readdirSync } from "node:fs";
import { ConfigError } from "../../protocol";
import { aNumber, aText, optionsOf } from "../../protocol/option-checks";
import { LogCells } from "../cells/log";
import type { ClaimStore } from "./rules";
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
  requireCurrent(folder);
  const cells = new LogCells({ folder, name: "gate", what: "claims", rotateBytes, answersBytes });
  cells.open();
  return claimsOn(cells);
}

/** What an earlier version kept, and this one would not see: its proofs could be used once more. */
const EARLIER = /^(?:claims-[0-9]+\.log|grant\.key)$/;

/** @throws ConfigError */
function requireCurrent(folder: string): void {
  let names: readonly string[] = [];
  try {
    names = readdirSync(folder);
  } catch {
    // A folder that cannot be read is reported where it is opened.
  }
  if (!names.some((name) => EARLIER.test(name))) return;
  throw new ConfigError(
    `claims: ${folder} is of an earlier version; stop its gates and run \`npx turnpike store import ${folder}\``,
  );
}
