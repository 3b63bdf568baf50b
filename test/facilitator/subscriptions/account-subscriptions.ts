import { expect } from "chai";
import type { Subscription } from "turnpike/facilitator";
import { type Address, type Hex, idHashOf, randomBytes, secretHashOf, toHex } from "turnpike/protocol";
import type { Payer } from "../../support/facilitator";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const FUNDS = 1_000_000_000n;

describe("Facilitator: an account's subscriptions", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service({ RENEWALS: "false", ACTS_PER_HOUR: "1000" });
  });
  after(() => world.stop());

  async function subscribe(subscriber: Payer, planId?: Hex): Promise<Hex> {
    const { idHash, request } = await world.signup(subscriber, { permit: FUNDS, ...(planId ? { planId } : {}) });
    const outcome = await service.client.subscribe(request);
    expect(outcome.kind).to.equal("done");
    return idHash;
  }
  const listOf = async (account: Address): Promise<readonly Subscription[]> => {
    const found = await service.client.subscriptionsOf(account);
    if (found.kind !== "found") throw found.error;
    expect(found.value.more).to.equal(false);
    return found.value.subscriptions;
  };

  it("are those of that account alone, however its address is written", async () => {
    const subscriber = await world.payer(FUNDS);
    const other = await world.payer(FUNDS);
    expect(await listOf(subscriber.address)).to.deep.equal([]);
    const planId = await world.plan({ amount: 1_000_000n });
    const hashes = [await subscribe(subscriber), await subscribe(subscriber, planId)];
    await subscribe(other);
    for (const written of [subscriber.address, subscriber.address.toLowerCase() as Address]) {
      const listed = await listOf(written);
      expect(listed.map(({ idHash }) => idHash)).to.have.members(hashes);
      expect(listed.every((each) => each.subscriber === subscriber.address && each.status === "ACTIVE")).to.equal(true);
    }
  });

  it("name a rekeyed one by its new key alone", async () => {
    const subscriber = await world.payer(FUNDS);
    const idHash = await subscribe(subscriber);
    const newSecretHash = secretHashOf(toHex(randomBytes(32)));
    const request = await world.change("rekey", subscriber, { idHash, newSecretHash });
    expect((await service.client.change({ idHash, act: "rekey", request })).kind).to.equal("done");
    expect((await listOf(subscriber.address)).map((each) => each.idHash)).to.deep.equal([
      idHashOf(subscriber.address, newSecretHash),
    ]);
  });

  it("are not looked up for what is no address", async () => {
    const answer = await fetch(`${service.url}/accounts/0x12/subscriptions`);
    expect(answer.status).to.equal(400);
  });
});
