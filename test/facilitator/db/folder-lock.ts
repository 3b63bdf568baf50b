/** The lock of the embedded database's folder, whatever the clocks of its processes say. */
import { existsSync, mkdirSync, rmdirSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { sql } from "kysely";
import type { TurnpikeError } from "turnpike/protocol";
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

  it("a process that was paused while another took the folder over writes nothing more to it", async () => {
    const dir = path.join(owners.folder, "db");
    const store = await connectStore({ kind: "pglite", dir, lockMs: 600_000 });
    await sql`create table notes (id int)`.execute(store.db);
    rmdirSync(`${dir}.lock`);
    mkdirSync(`${dir}.lock`);
    const refused = await sql`insert into notes values (1)`.execute(store.db).catch((error: TurnpikeError) => error);
    expect(refused).to.include({ code: "Unavailable" });
    await store.close();
    expect(existsSync(`${dir}.lock`), "the other's").to.equal(true);
    rmdirSync(`${dir}.lock`);
    const next = await connectStore({ kind: "pglite", dir, lockMs: STALE_MS });
    expect((await sql`select * from notes`.execute(next.db)).rows).to.deep.equal([]);
    await next.close();
  });
});
