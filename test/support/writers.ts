/** An agent's ledger and a meter's journal as one: what was kept is found again when the file is opened next. */
import { keccakText } from "turnpike/protocol";
import { fileLedger } from "../../sdk/src/agent/file-ledger";
import { createFileMeterStore } from "../../sdk/src/gate/provider/create-meter";

const STALE_MS = 2_000;

export type WriterKind = "ledger" | "journal";

export interface Writer {
  /** Resolves once it is kept. */
  keep(name: string): Promise<void>;
  has(name: string): boolean;
  close(): Promise<void>;
}

const FACTS = { cap: 10n ** 9n, spent: 0n, debits: 0, paidThroughSec: 10_000, version: 0, blockNumber: 5 };

export async function openWriter(kind: WriterKind, path: string): Promise<Writer> {
  return kind === "ledger" ? openLedger(path) : openJournal(path);
}

async function openLedger(path: string): Promise<Writer> {
  const ledger = fileLedger(path, { staleMs: STALE_MS });
  const found = new Set((await ledger.load()).map(({ id }) => id));
  return {
    keep: (name) =>
      ledger.append({
        type: "spend",
        id: name,
        state: "held",
        atSec: Math.floor(Date.now() / 1_000),
        payTo: `0x${"11".repeat(20)}`,
        amount: "1",
      }),
    has: (name) => found.has(name),
    close: () => ledger.close(),
  };
}

async function openJournal(path: string): Promise<Writer> {
  const store = createFileMeterStore({ path, leaseMs: STALE_MS, compactAtBytes: 1, onFailure: () => undefined });
  await store.open();
  return {
    async keep(name) {
      await store.reserve({ idHash: keccakText(name), amount: 7n, facts: FACTS, maxUnsettled: 10n ** 9n });
    },
    has: (name) => store.account(keccakText(name))?.pending === 7n,
    close: () => store.close(),
  };
}
