import { expect } from "chai";
import { Unavailable } from "turnpike/protocol";
import { createSubscriptions } from "../../../facilitator/src/subscriptions";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";

describe("Facilitator: a process that knows less than the database or the chain", function () {
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

  it("HA3 a restarted process whose node is silent says what the database says of a settled payment", async () => {
    await world.loseDatabase();
    const first = await world.core({ RENEWALS: "false" });
    const signed = await world.signPayment();
    const settled = await first.payments.authorize(signed);
    if (settled.kind !== "settled") expect.fail(`it is ${settled.kind}`);
    await first.stop();
    const second = await world.core({ RENEWALS: "false" });
    const { accounts } = second.relayer as { accounts: { facts: unknown } };
    accounts.facts = () => Promise.reject(new Unavailable("the node is silent"));
    const again = await second.payments.authorize(signed);
    expect(again.kind).to.equal("settled");
    const other = await second.payments.authorize(await world.signPayment());
    expect(other).to.deep.include({ kind: "refused" });
  });
});
