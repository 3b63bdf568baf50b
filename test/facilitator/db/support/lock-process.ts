/** A process that locks the folder that it is given, and keeps the lock until it is killed. */
import { lockFolder } from "../../../../facilitator/src/db/folder-lock";

async function main(): Promise<void> {
  const release = await lockFolder(process.argv[2] ?? "", Number(process.env.STALE_MS));
  process.stdout.write(release ? "locked\n" : "in use\n");
  setInterval(() => undefined, 60_000);
}

void main();
