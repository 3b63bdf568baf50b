/**
 * Writes an agent's ledger or a meter's journal in a process that stops before the n-th of its calls of the file system.
 * Prints the name of what is kept, once that is promised.
 */
import { dirname } from "node:path";
import { stopBefore } from "./stopping";
import { openWriter, type WriterKind } from "./writers";

const [, , kind = "", path = "", name = "", at = "0"] = process.argv;

async function main(): Promise<void> {
  const counted = await stopBefore(Number(at), dirname(path));
  const print = (text: string) => process.stdout.write(`${text}\n`);
  try {
    const writer = await openWriter(kind as WriterKind, path);
    await writer.keep(name);
    print(`kept ${name}`);
    await writer.close();
  } catch (error) {
    print(`refused ${(error as { readonly code?: string }).code}`);
  }
  print(`calls ${counted.calls}`);
}

void main();
