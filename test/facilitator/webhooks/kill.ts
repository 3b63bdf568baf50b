import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "chai";
import { LEASE_MS } from "../../../facilitator/src/db/leases";
import { DELIVERY_STEPS } from "../../../facilitator/src/webhooks/delivery";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { RUN_TYPESCRIPT } from "../../support/typescript";
import { CHAIN_ID, openOutbox } from "./support/outbox";
import { startReceiver } from "./support/receiver";

describe("Facilitator: webhooks and sudden death", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres.stop());

  for (const step of DELIVERY_STEPS) {
    it(`S1 S6 a process killed after "${step}" loses no event: the next delivers it under the same id`, async () => {
      const url = await postgres.database();
      const receiver = await startReceiver();
      const outbox = await openOutbox(url);
      const { id } = await outbox.endpoint(receiver.url);
      // Committed, and nobody has sent it.
      const [eventId = ""] = await outbox.emit([{}]);

      const child = spawn(process.execPath, [...RUN_TYPESCRIPT, `${__dirname}/support/webhook-process.ts`], {
        env: { ...process.env, DATABASE_URL: url, CHAIN_ID: String(CHAIN_ID), KILL_AFTER: step },
        stdio: "inherit",
      });
      const [, signal] = await once(child, "exit");
      expect(signal).to.equal("SIGKILL");

      const worker = outbox.worker();
      outbox.clock.nowMs = Date.now() + 3_000;
      await outbox.drain(worker);
      const [during] = await outbox.deliveries(id);
      expect(during?.state, "while the dead process's lease runs").to.equal("pending");
      outbox.clock.nowMs += LEASE_MS;
      await outbox.drain(worker);
      const [delivery] = await outbox.deliveries(id);
      expect(delivery).to.include({ event_id: eventId, state: "delivered", attempts: 1 });
      expect(receiver.received).to.have.length(step === "sent" ? 2 : 1);
      for (const { headers } of receiver.received) expect(headers["webhook-id"]).to.equal(eventId);
      await outbox.close();
      await receiver.stop();
    });
  }
});
