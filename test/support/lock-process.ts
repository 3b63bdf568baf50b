/** A process that takes the lock of its arguments, and keeps it until it is killed. Prints a line once it has it. */
import { join } from "node:path";
import { fileLedger } from "../../sdk/src/agent/file-ledger";
import { lockFile } from "../../sdk/src/file-lock";
import { createFileMeterStore } from "../../sdk/src/gate/provider/create-meter";

const [, , kind = "", path = ""] = process.argv;
const staleMs = Number(process.env.STALE_MS);

const LOCKS: Readonly<Record<string, () => Promise<unknown>>> = {
  file: () => lockFile(path, { staleMs }),
  ledger: () => fileLedger(path, { staleMs }).load(),
  journal: () => createFileMeterStore({ path, leaseMs: staleMs }).open(),
  rotation: () => lockFile(path, { staleMs, lockPath: join(path, "gate.lock") }),
};

async function main(): Promise<void> {
  await LOCKS[kind]?.();
  process.stdout.write("locked\n");
  setInterval(() => undefined, 60_000);
}

void main();
