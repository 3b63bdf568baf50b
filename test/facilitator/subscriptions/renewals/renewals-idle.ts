import { expect } from "chai";
import type { KyselyPlugin } from "kysely";
import pino from "pino";
import type { StoreTopic } from "../../../../facilitator/src/db/open";
import { noProgress } from "../../../../facilitator/src/lib/progress";
import { createRenewals } from "../../../../facilitator/src/subscriptions/renewals/runner";
import { createMetrics } from "../../../../facilitator/src/telemetry/metrics";
import { type FacilitatorWorld, startWorld, until } from "../../../support/facilitator";

describe("Facilitator: renewals while nothing happens", function () {
  this.timeout(180_000);
  let world: FacilitatorWorld;
  before(async () => {
    world = await startWorld({});
  });
  after(() => world.stop());

  it("asks the database nothing until the next block", async () => {
    const core = await world.core({ POLL_MS: "10" });
    let questions = 0;
    let pauses = 0;
    const counting: KyselyPlugin = {
      transformQuery({ node }) {
        questions += 1;
        return node;
      },
      transformResult: async ({ result }) => result,
    };
    const { notifier } = core.store;
    const store = {
      ...core.store,
      db: core.store.db.withPlugin(counting),
      notifier: {
        ...notifier,
        wait(topic: StoreTopic, timeoutMs: number) {
          pauses += 1;
          return notifier.wait(topic, timeoutMs);
        },
      },
    };
    const metrics = createMetrics();
    const log = pino({ level: "silent" });
    await core.indexer.catchUp();
    const renewals = createRenewals({ ...core, store, clock: core.indexer.clock, log, metrics, progress: noProgress });
    try {
      const pausesMore = async (count: number): Promise<number> => {
        const enough = pauses + count;
        await until(async () => pauses >= enough, "the runner has paused some more", 60_000);
        return questions;
      };
      const idle = await pausesMore(5);
      expect(idle, "it has looked").to.be.greaterThan(0);
      expect(await pausesMore(20)).to.equal(idle);
      await world.chain.provider.send("evm_mine", []);
      await until(async () => questions > idle, "it looks again", 60_000);
    } finally {
      await renewals.stop();
      metrics.close();
    }
  });
});
