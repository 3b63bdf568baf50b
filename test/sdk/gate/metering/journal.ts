import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { TurnpikeError } from "turnpike/protocol";
import { createFileMeterStore, type FileMeterStoreOptions } from "../../../../sdk/src/gate/metering/file-store";
import type { MeterStore } from "../../../../sdk/src/gate/metering/store";
import { idHashOf } from "../../../support/metered-chain";

const FACTS = { cap: 10n ** 9n, spent: 0n, debits: 0, paidThroughSec: 10_000, version: 0, blockNumber: 5 };

describe("The meter's journal", () => {
  let file: string;
  const stores: MeterStore[] = [];
  let mend = (): void => undefined;

  beforeEach(() => {
    file = path.join(mkdtempSync(path.join(tmpdir(), "turnpike-journal-")), "meter.journal");
  });
  afterEach(async () => {
    mend();
    for (const store of stores.splice(0)) await store.close();
    rmSync(path.dirname(file), { recursive: true, force: true });
  });

  async function opened(options: Partial<FileMeterStoreOptions> = {}): Promise<MeterStore> {
    const store = createFileMeterStore({ path: file, lockStaleMs: 2_000, ...options });
    await store.open();
    stores.push(store);
    return store;
  }
  /** Makes the methods of these names fail on every file, or wait. */
  async function brokenDisk(
    names: readonly ("datasync" | "sync" | "truncate")[],
    stalled?: Promise<void>,
  ): Promise<{ mend(): void }> {
    const handle = await open(file, "r");
    const prototype = Object.getPrototypeOf(handle);
    await handle.close();
    const whole = names.map((name) => [name, prototype[name]] as const);
    const fault = Object.assign(new TypeError("no space left"), { code: "ENOSPC" });
    for (const name of names) prototype[name] = () => stalled ?? Promise.reject(fault);
    mend = () => void Object.assign(prototype, Object.fromEntries(whole));
    return { mend };
  }
  async function closed(): Promise<void> {
    for (const store of stores.splice(0)) await store.close();
  }
  const reserve = (store: MeterStore, amount: bigint, n = 1) =>
    store.reserve({ idHash: idHashOf(n), amount, facts: FACTS, maxUnsettled: 10n ** 9n });

  it("writes a charge to disk before it returns it", async () => {
    const store = await opened();
    await reserve(store, 7n);
    expect(readFileSync(file, "utf8")).to.include('"amount":"7n"');
  });

  it("writes many parallel reservations of one subscription as one line", async () => {
    const store = await opened();
    await Promise.all(Array.from({ length: 500 }, () => reserve(store, 2n)));
    expect(readFileSync(file, "utf8").trim().split("\n").length).to.be.lessThan(5);
    expect(store.account(idHashOf(1))?.pending).to.equal(1_000n);
  });

  it("replays to the same totals, for any grouping of writes", async () => {
    const store = await opened();
    const idHash = idHashOf(1);
    const item = { idHash, amount: 4n, index: 0 } as const;
    await Promise.all([
      reserve(store, 9n),
      store.record({ kind: "lost", idHash, amount: 9n, reason: "clipped" }),
      reserve(store, 4n),
      store.record({ kind: "sealed", batch: 1, items: [item], payloads: ["payload"] }),
      reserve(store, 2n),
      store.record({ kind: "replaced", batch: 1, payload: "dearer" }),
      reserve(store, 1n, 2),
      store.record({ kind: "blocked", idHash: idHashOf(2), reason: "InsufficientFunds" }),
      store.record({ kind: "resolved", batch: 1, results: [{ kind: "settled" }], block: 7 }),
      store.record({ kind: "reopened", batch: 1 }),
    ]);
    const view = (of: MeterStore) => [[...of.accounts()], of.batches(), of.recent(), of.totals(), of.nextBatch()];
    const before = structuredClone(view(store));
    await closed();
    expect(view(await opened())).to.deep.equal(before);
    await closed();
    // Again through a snapshot.
    const compacting = await opened({ compactAtBytes: 1 });
    await compacting.record({ kind: "rekeyed", idHash, to: idHashOf(3), block: 8 });
    const moved = structuredClone(view(compacting));
    await closed();
    expect(readFileSync(file, "utf8").trim().split("\n")).to.have.length(1);
    expect(view(await opened())).to.deep.equal(moved);
  });

  it("restores exactly what was acknowledged, for a last write torn at any byte", async () => {
    const store = await opened();
    await reserve(store, 7n);
    const whole = statSync(file).size;
    await reserve(store, 5n);
    await closed();
    const bytes = readFileSync(file);
    for (let at = whole; at <= bytes.length; at++) {
      writeFileSync(file, bytes.subarray(0, at));
      const heir = await opened();
      expect(heir.account(idHashOf(1))?.pending, `torn at ${at}`).to.equal(at === bytes.length ? 12n : 7n);
      await reserve(heir, 1n, 2);
      await closed();
      const next = await opened();
      expect(next.account(idHashOf(2))?.pending, "appends after a torn line").to.equal(1n);
      await closed();
    }
  });

  it("refuses a journal with damage before whole entries, rather than charge less", async () => {
    const store = await opened();
    await reserve(store, 7n);
    await reserve(store, 5n);
    await closed();
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace('"7n"', '"6n"'));
    const error = await opened().catch((reason) => reason);
    expect(error.code).to.equal("ConfigError");
    expect(error.message).to.include("line 1");
  });

  it("treats garbage after the last entry as a torn write", async () => {
    const store = await opened();
    await reserve(store, 7n);
    await closed();
    appendFileSync(file, '0badc0de {"kind":"reserved"}\n\u0000\u0000\u0000');
    expect((await opened()).account(idHashOf(1))?.pending).to.equal(7n);
  });

  it("keeps its size bounded by snapshots with the same totals", async () => {
    const store = await opened({ compactAtBytes: 4_000 });
    for (let i = 0; i < 300; i++) await reserve(store, 1n, (i % 3) + 1);
    expect(statSync(file).size).to.be.lessThan(8_000);
    const before = [1, 2, 3].map((n) => store.account(idHashOf(n))?.pending);
    await closed();
    const heir = await opened();
    expect([1, 2, 3].map((n) => heir.account(idHashOf(n))?.pending)).to.deep.equal(before);
    expect(heir.totals().charged).to.equal(300n);
  });

  it("is locked by one process at a time", async () => {
    await opened();
    const second = createFileMeterStore({ path: file, lockStaleMs: 2_000 });
    expect((await second.open().catch((error) => error)).code).to.equal("LedgerLocked");
  }).timeout(120_000);

  const servedAgain = async (store: MeterStore): Promise<void> => {
    for (;;) {
      const answer = await reserve(store, 1n).catch((error) => error);
      if (answer.kind === "reserved") return;
      expect(answer.code).to.equal("Unavailable");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };

  it("HD8 refuses for a moment after a pause, then continues, because no other process took the lock", async () => {
    const failures: TurnpikeError[] = [];
    const store = await opened({ onFailure: (error) => failures.push(error) });
    await reserve(store, 10n);
    const untilMs = performance.now() + 1_800;
    while (performance.now() < untilMs);
    expect((await reserve(store, 5n).catch((error) => error)).code).to.equal("Unavailable");
    await servedAgain(store);
    expect(store.account(idHashOf(1))?.pending).to.equal(11n);
    expect(failures.map(({ code }) => code)).to.deep.equal(["Unavailable"]);
    await closed();
    expect((await opened()).account(idHashOf(1))?.pending, "and on disk").to.equal(11n);
  }).timeout(60_000);

  it("HD8 reacquires a lost lock, and reads what another process wrote meanwhile", async () => {
    const failures: TurnpikeError[] = [];
    const store = await opened({ onFailure: (error) => failures.push(error) });
    await reserve(store, 10n);
    rmSync(`${file}.lock`, { recursive: true });
    appendFileSync(file, readFileSync(file));
    while (failures.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    expect((await reserve(store, 5n).catch((error) => error)).code).to.equal("Unavailable");
    await servedAgain(store);
    expect(store.account(idHashOf(1))?.pending).to.equal(21n);
    await closed();
    expect((await opened()).account(idHashOf(1))?.pending, "and on disk").to.equal(21n);
  }).timeout(60_000);

  it("SM3 charges what a running meter has used, though the first attempt was refused as the lock was lost", async () => {
    const store = await opened({ onFailure: () => undefined });
    const idHash = idHashOf(1);
    const hold = { idHash, amount: 100n, ahead: 0n, facts: FACTS, maxUnsettled: 10n ** 9n };
    const names = ["0x01", "0x02"] as const;
    for (const name of names) await store.holdAhead({ ...hold, name });
    let release = (): void => undefined;
    const stalled = new Promise<void>((resolve) => {
      release = resolve;
    });
    const disk = await brokenDisk(["datasync"], stalled);
    const written = reserve(store, 1n);
    await new Promise((resolve) => setImmediate(resolve));
    // Both wait for that write to end.
    const charges = names.map((name) => ({ idHash, name, total: 40n, facts: FACTS, release: name === "0x01" }));
    const refused = charges.map((charge) => store.chargeHold(charge).catch(({ code }) => code));
    rmSync(`${file}.lock`, { recursive: true });
    expect(await Promise.all(refused)).to.deep.equal(["Unavailable", "Unavailable"]);
    disk.mend();
    release();
    await written;
    await servedAgain(store);
    expect(
      (await Promise.all(charges.map((charge) => store.chargeHold(charge)))).map(({ charged }) => charged),
    ).to.deep.equal([40n, 40n]);
    await closed();
    expect((await opened()).account(idHash)?.pending, "and on disk").to.equal(82n);
  }).timeout(60_000);

  it("fails closed when the disk fails, and the next start finds no refused call", async () => {
    const failures: unknown[] = [];
    const store = await opened({ onFailure: (error) => failures.push(error) });
    await reserve(store, 7n);
    const disk = await brokenDisk(["datasync"]);
    expect((await reserve(store, 5n).catch((error) => error)).code).to.equal("Unavailable");
    disk.mend();
    expect((await reserve(store, 5n).catch((error) => error)).code, "until a restart").to.equal("Unavailable");
    expect(failures).to.have.length(1);
    await closed();
    expect((await opened()).account(idHashOf(1))?.pending).to.equal(7n);
  });

  for (const [place, canMark] of [
    ["and is repaired by the next start", true],
    ["and says what to do where not even that can be noted", false],
  ] as const) {
    it(`refuses further calls when the refused ones cannot be truncated either, ${place}`, async () => {
      const failures: Error[] = [];
      const store = await opened({ onFailure: (error) => failures.push(error) });
      await reserve(store, 7n);
      const goodBytes = statSync(file).size;
      const disk = await brokenDisk(canMark ? ["datasync", "truncate"] : ["datasync", "truncate", "sync"]);
      expect((await reserve(store, 5n).catch((error) => error)).code).to.equal("Unavailable");
      await closed();
      expect(readFileSync(file, "utf8"), "the refused call is on disk").to.include('"amount":"5n"');
      if (canMark) {
        expect((await opened().catch((error) => error)).code, "while it cannot be repaired").to.equal("Unavailable");
      } else {
        const messages = failures.map(({ message }) => message).join(" ");
        expect(messages).to.include(`${goodBytes} bytes`).and.include(file);
      }
      disk.mend();
      if (!canMark) return;
      expect((await opened()).account(idHashOf(1))?.pending).to.equal(7n);
      await closed();
      expect((await opened()).account(idHashOf(1))?.pending, "repaired once, for good").to.equal(7n);
      expect(readdirSync(path.dirname(file)).filter((name) => name.includes("repair"))).to.deep.equal([]);
    });
  }

  it("does not charge refused calls when a snapshot cannot be written", async () => {
    const store = await opened({ compactAtBytes: 200 });
    for (let i = 0; i < 3; i++) await reserve(store, 7n);
    const disk = await brokenDisk(["sync"]);
    const outcome = await reserve(store, 5n).then(
      () => 5n,
      () => 0n,
    );
    disk.mend();
    await closed();
    expect((await opened()).account(idHashOf(1))?.pending).to.equal(21n + outcome);
  });

  it("is readable only by its owner", async () => {
    const store = await opened();
    await reserve(store, 7n);
    expect(statSync(file).mode & 0o077).to.equal(0);
  });
});
