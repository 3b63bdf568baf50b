/** Keeps how far `reconcile --since` has compared in a file, so that the next run continues there. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { ConfigError, networkOfChain } from "turnpike/protocol";
import { z } from "zod";

const cursorSchema = z.strictObject({
  chainId: z.int().positive(),
  comparedBlock: z.int().min(0),
  /** differences that a run found which did not end */
  differences: z.int().min(0),
});

export type FileCursor = z.output<typeof cursorSchema>;

/** @returns undefined when there is no such file @throws ConfigError when it is not this chain's cursor */
export function readCursorFile(file: string, chainId: number): FileCursor | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new ConfigError(`--cursor ${file} cannot be read: name a file that this user can read and write`, { cause });
  }
  const cursor = cursorSchema.safeParse(jsonOf(text)).data;
  if (!cursor) throw new ConfigError(`--cursor ${file} is no cursor of reconcile: delete it, or name another file`);
  if (cursor.chainId !== chainId)
    throw new ConfigError(
      `--cursor ${file} is of ${networkOfChain(cursor.chainId).name}, and this is ${networkOfChain(chainId).name}: name another file`,
    );
  return cursor;
}

/** Replaces the file at once: a run that is killed leaves the former one. */
export function writeCursorFile(file: string, cursor: FileCursor): void {
  const next = `${file}.next`;
  try {
    writeFileSync(next, `${JSON.stringify(cursor)}\n`);
    renameSync(next, file);
  } catch (cause) {
    throw new ConfigError(`--cursor ${file} cannot be written: name a file that this user can read and write`, {
      cause,
    });
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
