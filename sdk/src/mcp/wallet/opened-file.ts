import type { Stats } from "node:fs";
import { open } from "node:fs/promises";

/** A file's text, and its mode when it was opened. */
export interface OpenedFile {
  readonly text: string;
  readonly mode: number;
}

/**
 * Reads a file as UTF-8. What is checked is the very file that is read: no other can take its place in between.
 * @param check gets the facts of the opened file before it is read; what it throws is thrown
 */
export async function readOpened(path: string, check?: (facts: Stats) => Promise<void>): Promise<OpenedFile> {
  const handle = await open(path, "r");
  try {
    const facts = await handle.stat();
    await check?.(facts);
    return { text: await handle.readFile("utf8"), mode: facts.mode };
  } finally {
    await handle.close();
  }
}
