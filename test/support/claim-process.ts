/** One of several processes that race for the same claims: prints the number of each payment that it acquired. */
// Not through the entry point: three processes at once load what they need and no more.

import { keccakText } from "turnpike/protocol";
import { fileClaims } from "../../sdk/src/gate/purchases/store";

const [, , folder = "", name = "", count = "0"] = process.argv;

async function race(): Promise<void> {
  const store = fileClaims({ folder, rotateBytes: 20_000 });
  for (let i = 0; i < Number(count); i++) {
    const owner = `${name}-${i}`;
    const act = { act: "claim", owner, nowMs: Date.now(), leaseMs: 3_600_000, keepUntilSec: 2_000_000_000 } as const;
    const { kind } = await store.claim(keccakText(`raced ${i}`), act, 1_800_000_000);
    await new Promise(setImmediate);
    if (kind === "acquired") process.stdout.write(`${i}\n`);
  }
  await store.close();
}

void race();
