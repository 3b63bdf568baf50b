/** The lock of a meter's journal, whatever the clocks of its processes say. */
import { existsSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import type { TurnpikeError } from "turnpike/protocol";
import { createFileMeterStore } from "../../../../sdk/src/gate/metering/file-store";
import { STALE_MS, useLockOwners, WRONG_CLOCKS } from "../../../support/lock-owners";

describe("the lock of a meter's journal", function () {
  this.timeout(60_000);
  const owners = useLockOwners();

  for (const { clock, shiftMs, leftMs } of WRONG_CLOCKS) {
    it(`HG10 a process whose clock is ${clock} keeps it while it lives, and not for longer`, async () => {
      const file = path.join(owners.folder, "meter.journal");
      const owner = await owners.start("journal", file, shiftMs);
      const store = createFileMeterStore({ path: file, lockStaleMs: STALE_MS });
      const refused = await store.open().catch((error: TurnpikeError) => error);
      expect(refused?.code, "it lives").to.equal("LedgerLocked");
      await owner.kill(`${file}.lock`, leftMs);
      await store.open();
      await store.close();
      expect(existsSync(`${file}.lock`)).to.equal(false);
    });
  }
});
