/** The lock of the embedded database's folder, whatever the clocks of its processes say. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { lockFolder } from "../../../facilitator/src/db/folder-lock";
import { bundled } from "../../support/bundled";

const STALE_MS = 2_000;
const DAY_MS = 86_400_000;

describe("the lock of a database's folder", function () {
  this.timeout(60_000);
  let home: string;
  let folder: string;
  let script: string;
  const children: ChildProcess[] = [];

  before(() => {
    home = mkdtempSync(path.join(tmpdir(), "turnpike-lock-"));
    script = bundled(path.join(__dirname, "support/lock-process.ts"), home);
  });
  beforeEach(() => {
    folder = mkdtempSync(path.join(home, "db-"));
  });
  after(() => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });

  /** A process whose clock is off by this much. Ends once it has the lock. */
  async function owner(shiftMs: number): Promise<ChildProcess> {
    const child = spawn(
      process.execPath,
      ["-r", path.join(__dirname, "../support/shifted-clock.cjs"), script, folder],
      {
        env: { PATH: process.env.PATH, CLOCK_SHIFT_MS: String(shiftMs), STALE_MS: String(STALE_MS) },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    children.push(child);
    await once(child.stdout as NodeJS.ReadableStream, "data");
    return child;
  }

  for (const [clock, shiftMs] of [
    ["a day ahead", DAY_MS],
    ["a day behind", -DAY_MS],
  ] as const) {
    it(`HG10 a process whose clock is ${clock} keeps it while it lives, and not for longer`, async () => {
      const child = await owner(shiftMs);
      expect(await lockFolder(folder, STALE_MS), "it lives").to.equal(undefined);
      child.kill("SIGKILL");
      await once(child, "exit");
      const release = await lockFolder(folder, STALE_MS);
      if (!release) return expect.fail("it was killed");
      await release();
      expect(existsSync(`${folder}.lock`)).to.equal(false);
    });
  }

  it("HG10 of two processes that find a dead one's lock of tomorrow, one gets it", async () => {
    mkdirSync(`${folder}.lock`);
    const tomorrow = new Date(Date.now() + DAY_MS);
    utimesSync(`${folder}.lock`, tomorrow, tomorrow);
    const got = await Promise.all([lockFolder(folder, STALE_MS), lockFolder(folder, STALE_MS)]);
    const releases = got.flatMap((release) => release ?? []);
    expect(releases).to.have.length(1);
    await releases[0]?.();
  });
});
