import { expect } from "chai";
import { createSubscriptions } from "../../facilitator/src/subscriptions";
import { type FacilitatorWorld, startWorld } from "../support/facilitator";

describe("Facilitator: subscriptions while the rows are behind the chain", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  before(async () => {
    world = await startWorld();
  });
  after(() => world?.stop());

  it("HA3 where no process reads the chain, a subscription without a row is not unknown", async () => {
    const core = await world.core({ RENEWALS: "false" });
    const { config, store, relayer, indexer } = core;
    const answerAt = async (lagSec: number) => {
      const behind = { ...indexer, health: () => ({ ...indexer.health(), ok: true, lagSec }) };
      const subscriptions = createSubscriptions({ config, store, relayer, indexer: behind, clock: indexer.clock });
      const error = await subscriptions.get(`0x${"1d".repeat(32)}`).catch((thrown: unknown) => thrown);
      return (error as { code?: string }).code;
    };
    expect(await answerAt(config.maxLagSec)).to.equal("UnknownSubscription");
    expect(await answerAt(config.maxLagSec + 1)).to.equal("Unavailable");
  });
});
