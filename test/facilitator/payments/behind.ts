/** The process that reads the chain is dead: unread blocks are unknown, and are not held against a payer. */
import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

describe("payments behind a reader that is gone", function () {
  this.timeout(240_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: BLOCK_MS, postgres });
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });

  it("S5 money in a block that is not read yet: come again, and not a lack of funds; it settles when somebody reads", async () => {
    const key = testKey("behind") as Hex;
    await fund(world.chain, walletOf(world.chain, key).address as Hex);
    const settings = { RELAYER_KEYS: key, RENEWALS: "false" };
    const reader = await world.core({ ...settings, ROLES: "indexer" });
    const other = await world.core({ ...settings, ROLES: "api,relayer" });
    await until(async () => other.indexer.applied() >= 0 && other.relayer.health().ok, "it follows");
    const poor = await world.signPayment({ payer: await world.payer(0n) });
    const before = await other.payments.authorize(await world.signPayment());
    expect(before.kind).to.equal("settled");
    await reader.stop();

    const signed = await world.signPayment({ payer: await world.payer() });
    const outcomes = await Promise.all([signed, poor].map((one) => other.payments.authorize(one)));
    const [rich, broke] = outcomes.map((outcome) =>
      outcome.kind === "refused" ? [outcome.error.code, outcome.error.retryable] : outcome.kind,
    );
    expect(rich, "who has the money").to.deep.equal(["Unavailable", true]);
    expect(broke, "who has none").to.deep.equal(["InsufficientFunds", false]);

    await world.core({ ...settings, ROLES: "indexer" });
    await until(async () => (await other.payments.authorize(signed)).kind === "settled", "it is settled");
  });
});
