/**
 * Claims, an agent's ledger and a meter's journal on a small disk, which this process has to itself. Prints a line of
 * JSON.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keccakText } from "turnpike/protocol";
import { fileReceipts } from "../../sdk/src/agent/file-ledger/file-receipts";
import { fileClaims } from "../../sdk/src/gate/purchases/store";
import { openWriter } from "./writers";

const [, , disk = ""] = process.argv;
const NOW_MS = 1_800_000_000_000;
const SALES = 300;

const messageOf = (error: { message: string }) => error.message;

/** Writes until the disk takes nothing more. */
function fill(path: string): void {
  for (const bytes of [4_096, 1]) {
    try {
      for (;;) writeFileSync(path, Buffer.alloc(bytes), { flag: "a" });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  }
}

async function main(): Promise<void> {
  const folder = join(disk, "claims");
  const store = fileClaims({ folder, rotateBytes: 8_000 });
  const act = { act: "claim", owner: "o", nowMs: NOW_MS, leaseMs: 60_000, keepUntilSec: 1_800_001_000 } as const;
  const idOf = (i: number) => keccakText(`payment ${i}`);
  const claim = (i: number) => store.claim(idOf(i), act, 1_800_000_000);
  const kinds = new Map<string, number>();
  const count = (kind: string) => kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  for (let i = 0; i < SALES; i++) {
    const { kind } = await claim(i);
    if (kind !== "acquired") continue;
    // Of a new minute after every 20.
    const nowMs = NOW_MS + Math.floor(i / 20) * 60_000;
    const isUsed = await store.apply(idOf(i), { act: "use", owner: "o" }, { text: "1.k.a", nowMs, keepSec: 3_600 });
    count(isUsed ? "sold" : "lost");
    await new Promise(setImmediate);
  }
  const lastAnswer = (await store.served?.(idOf(SALES - 1), NOW_MS))?.answer;
  await store.ready?.();

  rmSync(join(folder, "answers"), { recursive: true, force: true });
  const ledger = await openWriter("ledger", join(disk, "ledger"));
  const journal = await openWriter("journal", join(disk, "journal"));
  const another = await openWriter("ledger", join(disk, "another"));
  await another.keep("before");
  await another.close();
  const receipts = fileReceipts(join(disk, "receipts"));
  const receipt = { chainId: 1, turnpike: `0x${"11".repeat(20)}`, idHash: idOf(0), text: "r".repeat(1_000) } as const;
  await receipts.add([receipt]);
  const answered = Array.from({ length: 20 }, (_, i) => 10 * SALES + i);
  for (const i of answered) await claim(i);
  const filler = join(disk, "filler");
  fill(filler);
  const faults: Record<string, string> = {};
  const warnings: string[] = [];
  process.on("warning", ({ message }) => warnings.push(message));
  for (const i of answered) {
    const answer = { text: `1.k.${"a".repeat(4_000)}`, nowMs: NOW_MS + 3_600_000, keepSec: 3_600 };
    await store.apply(idOf(i), { act: "use", owner: "o" }, answer).catch(() => undefined);
  }
  await new Promise(setImmediate);
  if (warnings.length === 1) faults.answers = warnings[0] as string;
  // What the last blocks of the files have left is used first.
  for (let i = 0; i < 100 && !faults.claims; i++) await claim(SALES + i).catch((e) => (faults.claims = messageOf(e)));
  await store.ready?.().catch((e) => (faults.ready = messageOf(e)));
  for (const [name, writer] of Object.entries({ ledger, journal }))
    for (let i = 0; i < 100 && !faults[name]; i++)
      await writer.keep(`${name} ${i}`).catch((e) => (faults[name] = messageOf(e)));
  for (let i = 0; i < 100 && !faults.receipts; i++)
    await receipts.add([receipt]).catch((e) => (faults.receipts = messageOf(e)));
  await openWriter("ledger", join(disk, "another")).catch((e) => (faults.another = messageOf(e)));

  rmSync(filler);
  await store.ready?.();
  for (let i = 0; i < SALES; i++) count(`then ${(await claim(i)).kind}`);
  await ledger.keep("with space");
  process.stdout.write(JSON.stringify({ kinds: Object.fromEntries(kinds), lastAnswer, faults }));
  await store.close();
  process.exit(0);
}

mkdirSync(disk, { recursive: true });
void main();
