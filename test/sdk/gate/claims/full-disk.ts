/** A disk of 256 kB that kept answers fill, and then another file. Needs Linux: the disk is one in memory. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { bundled } from "../../../support/bundled";

const FULL = /its disk is full/;

describe("stores on a full disk", function () {
  this.timeout(120_000);
  let home: string;
  before(() => {
    home = mkdtempSync(path.join(tmpdir(), "turnpike-full-"));
  });
  after(() => rmSync(home, { recursive: true, force: true }));

  /** Mounts the disk for the process alone: it ends with it. */
  function onSmallDisk(script: string): string {
    const disk = path.join(home, "disk");
    mkdirSync(disk);
    const mounted = 'mount -t tmpfs -o size=256k,mode=700 tmpfs "$1" && exec "$2" "$3" "$1"';
    const args = ["-rm", "sh", "-c", mounted, "sh", disk, process.execPath, script];
    const { stdout, stderr, status } = spawnSync("unshare", args, { encoding: "utf8" });
    expect(status, stderr).to.equal(0);
    return stdout;
  }

  it("delete kept answers rather than refuse claims, lose no claim, and name the full disk in words", () => {
    const found = JSON.parse(onSmallDisk(bundled(path.join(__dirname, "../../../support/full-disk.ts"), home)));
    expect(found.kinds).to.deep.equal({ sold: 300, "then used": 300 });
    expect(found.lastAnswer, "the newest are kept").to.equal("1.k.a");
    expect(Object.keys(found.faults)).to.have.members([
      ...["answers", "claims", "ready", "ledger", "receipts", "journal", "another"],
    ]);
    for (const [name, message] of Object.entries(found.faults)) {
      expect(message, name).to.match(FULL).and.not.include("ENOSPC");
    }
  });
});
