import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { createFacilitatorClient } from "turnpike/facilitator";
import type { Hex } from "turnpike/protocol";
import { STEPS } from "../../facilitator/src/steps";
import { testKey } from "../support/chain";
import { emptyDatabase, type FacilitatorWorld, fund, startWorld, until, walletOf } from "../support/facilitator";
import { prepareVictims, type Victims } from "./support/kill-victim";
import { paymentToWire } from "./support/payments";

/** The client holds its answer; nothing of the service is left to do. */
const ANSWERED = "answered";

describe("payments of a process that is killed", function () {
  this.timeout(600_000);
  let world: FacilitatorWorld;
  let victims: Victims;
  let home: string;

  before(async () => {
    [world, victims] = await Promise.all([startWorld(), prepareVictims()]);
    home = mkdtempSync(path.join(tmpdir(), "turnpike-crash-"));
  });
  after(async () => {
    await victims?.stop();
    await world?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  for (const step of [...STEPS, ANSWERED]) {
    it(`B6 S1 killed after "${step}": one transfer, one event, and the service goes on`, async () => {
      const dir = path.join(home, step);
      cpSync(await emptyDatabase(), dir, { recursive: true });
      const key = testKey(`crash relayer ${step}`) as Hex;
      await fund(world.chain, walletOf(world.chain, key).address as Hex);
      const settings = {
        PGLITE_DIR: dir,
        DATABASE_URL: "",
        RELAYER_KEYS: key,
        PGLITE_LOCK_MS: "2000",
        RENEWALS: "false",
      };
      const signed = await world.signPayment();
      const victim = await victims.start({ ...world.env(settings), KILL_AFTER: step });
      if (!victim) expect.fail("it did not start");
      const answer = createFacilitatorClient({ url: victim.url })
        .authorize(paymentToWire(signed))
        .catch(() => undefined);
      if (step === ANSWERED) {
        expect((await answer)?.kind).to.equal("settled");
        await victim.kill();
      }
      expect(await victim.gone).to.equal("SIGKILL");

      const core = await world.core(settings);
      const id = world.idOf(signed);
      if (step !== "received") {
        // Accepted is accepted: it completes without anybody asking again.
        await until(async () => (await core.payments.status(id)).status === "settled", "the payment has completed");
      }
      const outcome = await core.payments.authorize(signed);
      if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
      const mine = (await world.transfers()).filter(({ from }) => from === signed.authorization.from);
      expect(mine.map(({ transaction }) => transaction)).to.deep.equal([outcome.proof.transaction]);
      expect(core.relayer.health(), "what was sent is known, and the lane goes on").to.include({ ok: true });
      // What webhooks are made of is written with the settlement, or not at all.
      const events = await core.store.db
        .selectFrom("events")
        .select("id")
        .where("object_id", "=", id)
        .where("type", "=", "payment.settled")
        .execute();
      expect(events).to.have.length(1);
      await core.stop();
    });
  }
});
