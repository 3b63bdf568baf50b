/** The lock under which one process rotates the file of claims, whatever the clocks of the processes say. */
import { appendFileSync, existsSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { keccakText, type TurnpikeError } from "turnpike/protocol";
import { endLine } from "../../../../sdk/src/gate/cells/log/line";
import { fileClaims } from "../../../../sdk/src/gate/purchases/store";
import { useLockOwners, WRONG_CLOCKS } from "../../../support/lock-owners";

const NOW_SEC = 1_800_000_000;

describe("the lock of the claims' rotation", function () {
  this.timeout(120_000);
  const owners = useLockOwners();

  for (const { clock, shiftMs, leftMs } of WRONG_CLOCKS) {
    it(`HG10 a process whose clock is ${clock} rotates alone while it lives, and others continue after its death`, async () => {
      const { folder } = owners;
      const store = fileClaims({ folder });
      const claim = async () => {
        const act = { act: "claim", owner: "a", nowMs: 1, leaseMs: 1_000, keepUntilSec: NOW_SEC + 60 } as const;
        return store.claim(keccakText("a payment"), act, NOW_SEC);
      };
      const owner = await owners.start("rotation", folder, shiftMs);
      // It has begun the rotation, and not written the next file.
      appendFileSync(path.join(folder, "gate-0.log"), endLine(0));
      const refused = await claim().catch((error: TurnpikeError) => error);
      expect(refused, "it lives").to.include({ code: "Unavailable" });
      expect(existsSync(path.join(folder, "gate-1.log"))).to.equal(false);
      await owner.kill(path.join(folder, "gate.lock"), leftMs);
      expect((await claim()).kind).to.equal("acquired");
      expect(existsSync(path.join(folder, "gate.lock"))).to.equal(false);
      await store.close();
    });
  }
});
