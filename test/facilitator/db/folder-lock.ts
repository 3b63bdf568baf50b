/** The lock of the embedded database's folder, whatever the clocks of its processes say. */
import { existsSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { connectStore } from "../../../facilitator/src/db/open";
import { DAY_MS, STALE_MS, useLockOwners } from "../../support/lock-owners";

describe("the lock of a database's folder", function () {
  this.timeout(180_000);
  const owners = useLockOwners();

  it("HG10 a process whose clock is a day behind keeps it while it lives, and not for longer", async () => {
    const dir = path.join(owners.folder, "db");
    const open = () => connectStore({ kind: "pglite", dir, lockMs: STALE_MS });
    const owner = await owners.start("file", dir, -DAY_MS);
    const refused = await open().catch((error: Error) => error);
    expect(refused)
      .to.be.an("error")
      .with.property("message")
      .that.matches(/is in use by another process/);
    await owner.kill(`${dir}.lock`, DAY_MS);
    await (await open()).close();
    expect(existsSync(`${dir}.lock`)).to.equal(false);
  });
});
