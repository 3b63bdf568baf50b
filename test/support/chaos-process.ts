/** A process of `chaos.ts`: sells payments and charges subscriptions until it is killed. Prints what it acknowledged. */
import { writeSync } from "node:fs";
import path from "node:path";
import { type Hex, keccakText } from "turnpike/protocol";
import { LogCells } from "../../sdk/src/gate/cells/log";
import { createFileMeterStore } from "../../sdk/src/gate/provider/create-meter";
import { claimsOn } from "../../sdk/src/gate/purchases/store";

const [, , kind = "", folder = "", name = "", seed = "0"] = process.argv;
const print = (line: string): number => writeSync(1, `${line}\n`);
let state = Number(seed) + 1;
const random = (below: number): number => {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((state / 2_147_483_648) * below);
};
const turn = () => new Promise((resolve) => (random(8) === 0 ? setTimeout(resolve, random(4)) : setImmediate(resolve)));

async function sell(): Promise<void> {
  const cells = new LogCells({ folder, name: "gate", what: "claims", rotateBytes: 1_500, answersBytes: 100_000 });
  const store = claimsOn(cells);
  for (let i = 0; ; i++) {
    const n = random(40) + Math.floor(i / 60) * 20;
    const id: Hex = keccakText(`chaos ${n}`);
    const owner = `${name}-${i}`.slice(0, 22);
    const act = { act: "claim", owner, nowMs: Date.now(), leaseMs: 400, keepUntilSec: 2_000_000_000 } as const;
    try {
      const { kind } = await store.claim(id, act, 1_800_000_000 + random(1_000));
      await turn();
      if (kind !== "acquired") continue;
      const end = (["use", "use", "use", "release", "withdraw"] as const)[random(5)] ?? "use";
      const answer = { text: `1.${owner}`, nowMs: Date.now(), keepSec: 60 };
      const held = await store.apply(id, { act: end, owner }, end === "use" ? answer : undefined);
      if (end === "use" && held) print(`sold ${n} ${owner}`);
    } catch (error) {
      print(`error ${(error as Error).message}`);
      await turn();
    }
  }
}

async function charge(): Promise<void> {
  const store = createFileMeterStore({ path: path.join(folder, "meter.log"), leaseMs: 300, compactAtBytes: 3_000 });
  await store.open();
  const idHashes = [1, 2, 3].map((n): Hex => `0x${n.toString(16).padStart(64, "0")}`);
  const facts = { cap: 10n ** 12n, spent: 0n, debits: 0, paidThroughSec: 10_000, version: 1, blockNumber: 5 };
  for (;;) {
    const idHash = idHashes[random(3)] as Hex;
    const amount = BigInt(1 + random(50));
    print(`asked ${amount}`);
    try {
      const answer = await store.reserve({
        idHash,
        amount,
        facts,
        maxUnsettled: 10n ** 12n,
        isReceipted: true,
      } as never);
      if (answer.kind === "reserved")
        print(`charged ${answer.charged} ${idHash.slice(-1)}-${answer.receipt?.sequence}`);
      else print(`refused ${answer.kind}`);
    } catch (error) {
      print(`error ${(error as Error).message}`);
    }
    const [left] = store.batches();
    if (left && random(4) === 0) {
      const results = left.items.map(() => ({ kind: "settled" }));
      await store.record({ kind: "resolved", batch: left.id, results, block: 5 } as never).catch(() => undefined);
    }
    if (store.isSender && random(12) === 0 && store.batches().length === 0) {
      const account = store.account(idHash);
      if (account && account.pending > 0n) {
        const batch = store.nextBatch();
        const items = [{ idHash, amount: account.pending, calls: account.calls, index: account.nextIndex }];
        try {
          await store.record({ kind: "sealed", batch, items, payloads: [`0x${name}`] } as never);
          await turn();
          const results = [{ kind: random(3) > 0 ? "settled" : "failed" }];
          await store.record({ kind: "resolved", batch, results, block: 5 } as never);
          print(`resolved ${batch}`);
        } catch (error) {
          print(`error ${(error as Error).message}`);
        }
      }
    }
    await turn();
  }
}

void (kind === "sell" ? sell() : charge());
