import { expect } from "chai";
import { RIGHTS, setOperator } from "turnpike/chain";
import { createFacilitatorClient } from "turnpike/facilitator";
import { until } from "../../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { type Service, type ServiceWorld, startServiceWorld } from "../../support/service";

describe("Facilitator: debits of several processes on one PostgreSQL", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let world: ServiceWorld;
  let services: Service[];
  before(async () => {
    postgres = await startPostgres();
    world = await startServiceWorld({ postgres });
    services = [await world.service({ RENEWALS: "false" }), await world.service({ RENEWALS: "false" })];
  });
  after(async () => {
    await world.stop();
    await postgres.stop();
  });

  it("S5 A28 the same debit, asked of both forty times at once, is collected once, with the same answer to all", async () => {
    const [one] = services as [Service, Service];
    for (const account of (await one.client.supported()).relayers) {
      await setOperator(world.provider, world.contracts.turnpike, {
        planId: world.planId,
        account,
        rights: RIGHTS.debit,
      });
    }
    const subscriber = await world.payer(1_000_000_000n);
    const { idHash, request } = await world.signup(subscriber, { permit: 1_000_000_000n, maxOverage: 5_000_000n });
    expect((await one.client.subscribe(request)).kind).to.equal("done");
    const apiKey = await one.apiKey({ scopes: ["debits"] });
    const clients = services.map(({ url }) => createFacilitatorClient({ url, apiKey }));
    const items = [0, 1, 2].map((index) => ({ idHash, amount: String(100_000 * (index + 1)), index }));
    const before = await world.balanceOf(world.payee);

    // A process that is behind the chain may not know of the operator yet: nothing is sent by it then.
    const ask = (place: number) =>
      until(async () => {
        const outcome = await (clients[place % 2] as (typeof clients)[0]).debits(items);
        if (outcome.kind === "refused") throw outcome.error;
        return outcome.results.every(({ status }) => status === "settled") && outcome.results;
      }, "all three are settled");
    const all = await Promise.all(Array.from({ length: 40 }, (_, place) => ask(place)));
    expect(new Set(all.map((results) => JSON.stringify(results))).size).to.equal(1);
    expect((await world.balanceOf(world.payee)) - before).to.equal(600_000n);
  });
});
