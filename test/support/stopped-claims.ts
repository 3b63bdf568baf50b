/**
 * A gate's claims in a process that stops before the n-th of its calls of the file system, in the rotation that its
 * first claim begins. Once it goes on it sells what it can, and prints the number of each payment that it sold.
 */
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { openShop, sellAll, sellOne } from "./claim-shop";
import { stopBefore } from "./stopping";

const [, , folder = "", name = "", at = "0"] = process.argv;
const list = fs.readdirSync;
const newest = () => Math.max(-1, ...list(folder).map((file) => Number(/^claims-(\d+)\.log$/.exec(file)?.[1] ?? -1)));

async function main(): Promise<void> {
  const before = newest();
  const counted = await stopBefore(Number(at), folder);
  const store = openShop(folder);
  await sellOne(store, `first of ${name}`, name);
  // Also after a lock that a stopped process has, for as long as that counts.
  for (const begunMs = performance.now(); newest() <= Math.max(0, before) && performance.now() - begunMs < 8_000; )
    await sleep(5);
  fs.writeSync(1, `calls ${counted.calls}\n`);
  for (const sold of await sellAll(store, name)) fs.writeSync(1, `sold ${sold}\n`);
  await store.close();
}

void main();
