/** The lock of an agent's ledger, whatever the clocks of its processes say. */
import { existsSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import type { Ledger } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { STALE_MS, useLockOwners, WRONG_CLOCKS } from "../../support/lock-owners";
import { rejection } from "./support/rejection";

describe("the lock of an agent's ledger", function () {
  this.timeout(60_000);
  const owners = useLockOwners();

  for (const { clock, shiftMs, leftMs } of WRONG_CLOCKS) {
    it(`HG10 a process whose clock is ${clock} keeps it while it lives, and not for longer`, async () => {
      const file = path.join(owners.folder, "agent.jsonl");
      const open = async (): Promise<Ledger> => {
        const ledger = fileLedger(file, { staleMs: STALE_MS });
        await ledger.load();
        return ledger;
      };
      const owner = await owners.start("ledger", file, shiftMs);
      expect((await rejection(open())).code, "it lives").to.equal("LedgerLocked");
      await owner.kill(`${file}.lock`, leftMs);
      await (await open()).close();
      expect(existsSync(`${file}.lock`)).to.equal(false);
    });
  }
});
