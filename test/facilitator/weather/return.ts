/** What leaves first when a chain makes blocks again. */
import { expect } from "chai";
import type { Core } from "../../../facilitator/src/app/core";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";

const BLOCK_MS = 200;

describe("chain weather: what is sent first", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    world = await startWorld({ blockMs: BLOCK_MS });
    core = await world.core({ LANE_IN_FLIGHT: "1", BUMP_AFTER_MS: "60000" });
  });
  after(() => world?.stop());

  it("HG4 renewals that wait leave before what was queued earlier", async () => {
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    const submit = (purpose: string, idempotencyKey: string) =>
      core.relayer.submit({ purpose, idempotencyKey, to: world.contracts.token, data: "0x", gasLimit: 60_000n });
    const first = await submit("settle", "in flight");
    await until(async () => core.relayer.health().lanes[0]?.inFlight === 1, "the lane is full");
    const ids = [first, await submit("settle", "1"), await submit("debit", "2"), await submit("renew", "3")];
    await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    for (const id of ids) expect((await core.relayer.waitFor(id, 60_000)).kind).to.equal("mined");
    const rows = await core.store.db.selectFrom("transactions").select(["id", "nonce"]).execute();
    const nonces = new Map(rows.map(({ id, nonce }) => [id, nonce]));
    expect(ids.map((id) => nonces.get(id))).to.deep.equal([0, 2, 3, 1]);
  });
});
