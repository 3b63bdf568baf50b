/** The lock of a path, whatever the clocks of its processes say. */
import { existsSync, mkdirSync, rmdirSync, utimesSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { type FileLock, lockFile } from "turnpike/file-lock";
import { DAY_MS, STALE_MS, useLockOwners, WRONG_CLOCKS } from "../../support/lock-owners";

describe("the lock of a path", function () {
  this.timeout(60_000);
  const owners = useLockOwners();
  let file: string;

  beforeEach(() => {
    file = path.join(owners.folder, "file");
  });

  const locked = async (): Promise<FileLock> => {
    const lock = await lockFile(file, { staleMs: STALE_MS });
    if (!lock) throw new Error("a live process has it");
    return lock;
  };
  /** The lock of a process that was killed while its clock was off. */
  const deadLock = (shiftMs: number): void => {
    mkdirSync(`${file}.lock`);
    const time = new Date(Date.now() + shiftMs);
    utimesSync(`${file}.lock`, time, time);
  };

  for (const { clock, shiftMs, leftMs } of WRONG_CLOCKS) {
    it(`HG10 a process whose clock is ${clock} keeps it while it lives, and not for longer`, async () => {
      const owner = await owners.start("file", file, shiftMs);
      expect(await lockFile(file, { staleMs: STALE_MS }), "it lives").to.equal(undefined);
      await owner.kill(`${file}.lock`, leftMs);
      const lock = await locked();
      expect(lock.isOwn()).to.equal(true);
      await lock.release();
      expect(existsSync(`${file}.lock`)).to.equal(false);
    });
  }

  it("HG10 of two that find a dead one's lock of tomorrow, one gets it", async () => {
    deadLock(DAY_MS);
    const got = await Promise.all([1, 2].map(() => lockFile(file, { staleMs: STALE_MS })));
    const locks = got.flatMap((lock) => lock ?? []);
    expect(locks).to.have.length(1);
    await locks[0]?.release();
  });

  it("HG10 takes nothing over by a watch in which it was suspended itself, as the owner may have been", async () => {
    deadLock(0);
    const taken = locked();
    let untilMs = performance.now();
    // Between two looks at it.
    setTimeout(
      () => {
        untilMs = performance.now() + STALE_MS;
        while (performance.now() < untilMs);
      },
      STALE_MS / 4 + 100,
    );
    const lock = await taken;
    expect(performance.now() - untilMs).to.be.at.least(STALE_MS);
    await lock.release();
  });

  it("leaves the lock in place that another process has taken over, and says that it is not its own", async () => {
    const lost: Error[] = [];
    const lock = await lockFile(file, { staleMs: STALE_MS, onLost: (cause) => lost.push(cause) });
    rmdirSync(`${file}.lock`);
    deadLock(-DAY_MS);
    expect(lock?.isOwn()).to.equal(false);
    await lock?.release();
    await lock?.release();
    expect(existsSync(`${file}.lock`)).to.equal(true);
    expect(lost).to.deep.equal([]);
  });

  it("waits as long as it is asked to", async () => {
    const lock = await locked();
    const begunMs = performance.now();
    expect(await lockFile(file, { staleMs: 600_000, waitMs: 50 })).to.equal(undefined);
    expect(performance.now() - begunMs).to.be.lessThan(30_000);
    await lock.release();
  });

  it("throws what the system says of a place where nothing can be locked", async () => {
    const place = path.join(file, "below no folder");
    const fault = await lockFile(place, { staleMs: STALE_MS }).catch((error: NodeJS.ErrnoException) => error);
    expect(fault).to.have.property("code", "ENOENT");
  });
});
