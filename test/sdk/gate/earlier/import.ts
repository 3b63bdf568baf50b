/** What gates of an earlier version kept: the files were written by it. */
import fs, { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { fileClaims } from "turnpike/gate";
import { importStore } from "../../../../sdk/src/gate/earlier";
import { createFileMeterStore } from "../../../../sdk/src/gate/provider/create-meter";
import { idHashOf } from "../../../support/metered-chain";
import { expectCode, terminal } from "../../cli/support/run";
import { attempt, idOf, LEASE_MS, NOW_MS } from "../support/claim-store";

const METER = "meter-31337-00abcdef.log";
/** Its debits of calls by themselves are settled. */
const SETTLED_LINES = 8;

describe("a folder of an earlier version", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-earlier-"));
    cpSync(path.join(__dirname, "files"), folder, { recursive: true });
    const journal = path.join(folder, METER);
    writeFileSync(journal, readFileSync(journal, "utf8").split("\n").slice(0, SETTLED_LINES).join("\n").concat("\n"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const meter = () => createFileMeterStore({ path: path.join(folder, METER), leaseMs: 100 });

  it("HA1 is refused until it is imported, and every proof that was used stays used", async () => {
    expect(() => fileClaims({ folder })).to.throw(/earlier version.*npx turnpike store import/);
    const ran = await terminal().run("store", "import", folder);
    expectCode(ran, 0);
    expect(ran.out).to.include("5 claims").and.include(`${METER}: 3 subscriptions`);
    const store = fileClaims({ folder });
    const late = NOW_MS + LEASE_MS;
    const kinds = await Promise.all([0, 1, 2, 3, 4, 5].map((i) => attempt(store, idOf(i), late)));
    expect(kinds.map(({ kind }) => kind)).to.deep.equal([
      ...["used", "used", "acquired", "used", "acquired", "acquired"],
    ]);
    expect(kinds[2]).to.include({ releases: 1 });
    expect(kinds[3]).to.include({ isForRefund: true });
    expect(await store.grantKey()).to.equal(`0x${"7".padStart(64, "0")}`);
    await store.close();
  });

  it("HA1 brings back no older state when it is repeated after a crash between two renames", async () => {
    const { renameSync } = fs;
    // The file of the generation before is still there: its readers may not have seen its end.
    const id = idOf(77);
    const line = (act: string) => `\nA ${id} ${act} me ${NOW_MS} 1000 2000000000;\n`;
    writeFileSync(path.join(folder, "claims-0.log"), `${line("claim")}${line("release")}\nR;\n`);
    writeFileSync(path.join(folder, "claims-1.log"), line("claim") + line("use"), { flag: "a" });
    const { readdirSync: list } = fs;
    (fs as { readdirSync: unknown }).readdirSync = (of: string) => list(of).sort().reverse();
    for (let renames = 0; renames < 6; renames++) {
      let left = 1;
      (fs as { renameSync: unknown }).renameSync = (from: string, to: string) => {
        if (left-- === 0) throw Object.assign(new Error("killed"), { code: "EIO" });
        renameSync(from, to);
      };
      await importStore(folder).catch(() => undefined);
    }
    Object.assign(fs, { renameSync, readdirSync: list });
    await importStore(folder).catch(() => undefined);
    const store = fileClaims({ folder });
    expect((await attempt(store, id, NOW_MS + LEASE_MS)).kind).to.equal("used");
    await store.close();
  });

  it("A28 keeps every charge, and the numbers of receipts", async () => {
    await importStore(folder);
    const store = meter();
    await store.open();
    const owed = [1, 2, 4].map((n) => [store.account(idHashOf(n))?.pending, store.account(idHashOf(n))?.lost]);
    expect(owed).to.deep.equal([
      [21n, 0n],
      [7n, 0n],
      [7n, 1n],
    ]);
    expect(store.totals()).to.deep.equal({ charged: 45n, settled: 9n, lost: 1n });
    expect([store.nextBatch(), store.recent().length]).to.deep.equal([2, 1]);
    expect(store.account(idHashOf(2))?.blocked).to.equal("InsufficientFunds");
    const facts = { cap: 10n ** 9n, spent: 0n, debits: 2, paidThroughSec: 10_000, version: 2, blockNumber: 5 };
    const request = { amount: 1n, facts, maxUnsettled: 10n ** 9n, isReceipted: true };
    expect(await store.reserve({ idHash: idHashOf(1), ...request })).to.deep.include({
      receipt: { version: 2, paidThrough: 10_000, sequence: 5, total: 31n },
    });
    await store.close();
  });

  it("is imported once more after a crash before its files were renamed, to the same", async () => {
    const before = readdirSync(folder);
    await importStore(folder);
    for (const name of before) {
      if (readdirSync(folder).includes(`${name}.imported`))
        cpSync(path.join(folder, `${name}.imported`), path.join(folder, name));
    }
    await importStore(folder);
    expect(await importStore(folder).catch((error: Error) => error.message)).to.match(/nothing of an earlier version/);
    const store = meter();
    await store.open();
    expect(store.totals()).to.deep.equal({ charged: 45n, settled: 9n, lost: 1n });
    await store.close();
  });

  it("is refused where its journal is damaged, or single calls are being debited", async () => {
    const journal = path.join(folder, METER);
    cpSync(path.join(__dirname, "files", METER), journal);
    const refusal = () => importStore(folder).catch((error: Error) => error.message);
    expect(await refusal()).to.match(/start the earlier version until they are settled/);
    writeFileSync(journal, readFileSync(journal, "utf8").replace('"10n"', '"11n"'));
    expect(await refusal()).to.match(/is damaged at line 6/);
    expect(() => fileClaims({ folder }), "nothing was renamed").to.throw(/earlier version/);
  });
});
