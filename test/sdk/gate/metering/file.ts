import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { TurnpikeError } from "turnpike/protocol";
import { LogCells } from "../../../../sdk/src/gate/cells/log";
import type { MeterStore } from "../../../../sdk/src/gate/metering/store";
import { createFileMeterStore, type FileMeterStoreOptions } from "../../../../sdk/src/gate/provider/create-meter";
import { STALE_MS, useLockOwners, WRONG_CLOCKS } from "../../../support/lock-owners";
import { idHashOf } from "../../../support/metered-chain";
import { until } from "../../../support/until";
import { testSharedMeter } from "../support/shared-meter";

const FACTS = { cap: 10n ** 9n, spent: 0n, debits: 0, paidThroughSec: 10_000, version: 0, blockNumber: 5 };

describe("A meter in a file", () => {
  let folder: string;
  let file: string;
  const stores: MeterStore[] = [];
  let mend = (): void => undefined;

  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(tmpdir(), "turnpike-meter-"));
    file = path.join(folder, "meter.log");
  });
  afterEach(async () => {
    mend();
    await closed();
    fs.rmSync(folder, { recursive: true, force: true });
  });

  async function opened(options: Partial<FileMeterStoreOptions> = {}): Promise<MeterStore> {
    const store = createFileMeterStore({ path: file, leaseMs: 100, ...options });
    stores.push(store);
    await store.open();
    return store;
  }
  async function closed(): Promise<void> {
    for (const store of stores.splice(0)) await store.close();
  }
  function breakDisk(): void {
    const whole = fs.fdatasync;
    const fault = Object.assign(new TypeError("no space left"), { code: "ENOSPC" });
    (fs as { fdatasync: unknown }).fdatasync = (_fd: number, done: (error: Error) => void) => setImmediate(done, fault);
    mend = () => void Object.assign(fs, { fdatasync: whole });
  }
  const text = (): string => fs.readFileSync(path.join(folder, "meter-0.log"), "utf8");
  const reserve = (store: MeterStore, amount: bigint, n = 1) =>
    store.reserve({ idHash: idHashOf(n), amount, facts: FACTS, maxUnsettled: 10n ** 9n });
  const codeOf = (done: Promise<unknown>) => done.then(String, ({ code }: TurnpikeError) => code);

  it("writes a charge to disk before it returns it", async () => {
    const store = await opened();
    await reserve(store, 7n);
    expect(text()).to.include('"pending":"7n"');
  });

  it("writes many parallel reservations of one subscription as one line", async () => {
    const store = await opened();
    await Promise.all(Array.from({ length: 500 }, () => reserve(store, 2n)));
    expect(text().match(/"pending"/g)).to.have.length.lessThan(5);
    expect(store.account(idHashOf(1))?.pending).to.equal(1_000n);
  });

  it("has the same totals after a restart, and through a new generation", async () => {
    const store = await opened();
    const idHash = idHashOf(1);
    const item = { idHash, amount: 4n, index: 0 };
    await reserve(store, 9n);
    await store.record({ kind: "lost", idHash, amount: 9n, reason: "clipped" });
    await reserve(store, 4n);
    await store.record({ kind: "sealed", batch: 1, items: [item], payloads: ["payload"] });
    await reserve(store, 2n);
    await store.record({ kind: "replaced", batch: 1, payload: "dearer" });
    await reserve(store, 1n, 2);
    await store.record({ kind: "blocked", idHash: idHashOf(2), reason: "InsufficientFunds" });
    await store.record({ kind: "resolved", batch: 1, results: [{ kind: "settled" }], block: 7 });
    await store.record({ kind: "reopened", batch: 1 });
    const view = (of: MeterStore) => [
      [...of.everyAccount()].sort((a, b) => a.idHash.localeCompare(b.idHash)),
      of.batches(),
      of.recent(),
      of.totals(),
      of.nextBatch(),
    ];
    const before = structuredClone(view(store));
    await closed();
    expect(view(await opened())).to.deep.equal(before);
    await closed();
    const compacting = await opened({ compactAtBytes: 1 });
    for (let i = 0; i < 20; i++) await compacting.record({ kind: "replaced", batch: 1, payload: `dearer ${i}` });
    await compacting.record({ kind: "rekeyed", idHash, to: idHashOf(3), block: 8 });
    await compacting.reload();
    const owed = (of: MeterStore) => [...of.everyAccount()].filter(({ pending }) => pending > 0n);
    const moved = structuredClone([owed(compacting), compacting.batches(), compacting.totals()]);
    await closed();
    expect(fs.existsSync(path.join(folder, "meter-0.log"))).to.equal(false);
    const heir = await opened();
    expect([owed(heir), heir.batches(), heir.totals()]).to.deep.equal(moved);
  });

  it("keeps its size bounded with the same totals", async () => {
    const store = await opened({ compactAtBytes: 4_000 });
    for (let i = 0; i < 300; i++) await reserve(store, 1n, (i % 3) + 1);
    await closed();
    const logs = fs.readdirSync(folder).filter((name) => name.endsWith(".log"));
    for (const name of logs) expect(fs.statSync(path.join(folder, name)).size).to.be.lessThan(40_000);
    const heir = await opened();
    expect([1, 2, 3].map((n) => heir.account(idHashOf(n))?.pending)).to.deep.equal([100n, 100n, 100n]);
    expect(heir.totals().charged).to.equal(300n);
  });

  it("fails closed when the disk fails, and the next start finds no refused call", async () => {
    const failures: unknown[] = [];
    const store = await opened({ onFailure: (error) => failures.push(error) });
    await reserve(store, 7n);
    breakDisk();
    expect(await codeOf(reserve(store, 5n))).to.equal("Unavailable");
    mend();
    expect(await codeOf(reserve(store, 5n)), "until a restart").to.equal("Unavailable");
    expect(() => store.requireHealthy?.()).to.throw(/disk is full/);
    expect(failures).to.have.length(1);
    await Promise.all(stores.splice(0).map((one) => one.close().catch(() => undefined)));
    expect((await opened()).account(idHashOf(1))?.pending).to.equal(7n);
  });

  it("refuses what an earlier version kept, and says how it is imported", async () => {
    fs.writeFileSync(file, "");
    const refused = await opened().catch((error: Error) => error);
    expect(refused).to.include({ code: "ConfigError" });
    expect(String(refused)).to.match(/earlier version.*npx turnpike store import/);
  });

  it("HD8 charges on what others wrote, after a process that was paused goes on", async () => {
    const paused = await opened();
    await reserve(paused, 10n);
    const other = await opened();
    await reserve(other, FACTS.cap - 15n);
    const { kind, ...rest } = await reserve(paused, 10n);
    expect({ kind, ...rest }).to.include({ kind: "reserved", charged: 5n });
    await other.reload();
    expect(other.account(idHashOf(1))?.pending).to.equal(FACTS.cap);
  });

  describe("of several processes", () => {
    let spaces: string;
    const open: LogCells[] = [];
    before(() => {
      spaces = fs.mkdtempSync(path.join(tmpdir(), "turnpike-meters-"));
    });
    after(async () => {
      for (const cells of open) await cells.close();
      fs.rmSync(spaces, { recursive: true, force: true });
    });
    testSharedMeter((space) => {
      const name = space.trim().replaceAll(" ", "-");
      const cells = new LogCells({ folder: spaces, name, what: "meterFolder", rotateBytes: 4_000 });
      open.push(cells);
      return cells;
    });
  });
});

describe("the lease of a meter's sender", function () {
  this.timeout(60_000);
  const owners = useLockOwners();

  for (const { clock, shiftMs } of WRONG_CLOCKS) {
    it(`HG10 a process whose clock is ${clock} keeps it while it lives, and not for longer`, async () => {
      const file = path.join(owners.folder, "meter.log");
      const owner = await owners.start("journal", file, shiftMs);
      const store = createFileMeterStore({ path: file, leaseMs: STALE_MS });
      await store.open();
      const begunMs = performance.now();
      await until(async () => performance.now() - begunMs > 2 * STALE_MS, "two leases have passed", 30_000);
      expect(store.isSender, "it lives").to.equal(false);
      await owner.kill();
      await until(async () => store.isSender, "another one sends", 30_000);
      await store.close();
    });
  }
});
