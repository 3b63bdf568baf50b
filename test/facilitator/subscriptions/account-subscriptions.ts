import { expect } from "chai";
import { Contract, Wallet } from "ethers";
import type { AccountWire, Subscription } from "turnpike/facilitator";
import { type Address, type Hex, idHashOf, PERMIT2, randomBytes, secretHashOf, toHex } from "turnpike/protocol";
import type { Payer } from "../../support/facilitator";
import { expectProblem } from "../support/problem";
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

  it("come in pages, each once, and a cursor of no page is refused", async () => {
    const subscriber = await world.payer(FUNDS);
    const hashes: Hex[] = [];
    for (let count = 0; count < 5; count++) hashes.push(await subscribe(subscriber));
    const walked: Subscription[][] = [];
    for (let cursor: string | undefined; ; ) {
      const found = await service.client.subscriptionsOf(subscriber.address, { limit: 2, ...(cursor && { cursor }) });
      if (found.kind !== "found") throw found.error;
      const { subscriptions, more, next } = found.value;
      expect(more).to.equal(next !== undefined);
      walked.push([...subscriptions]);
      if (next === undefined) break;
      cursor = next;
    }
    expect(walked.map(({ length }) => length)).to.deep.equal([2, 2, 1]);
    expect(walked.flat().map(({ idHash }) => idHash)).to.have.members(hashes);
    for (const query of ["cursor=1", "limit=101", "limit=0"]) {
      const answer = await fetch(`${service.url}/accounts/${subscriber.address}/subscriptions?${query}`);
      const [field] = query.split("=");
      const problem = await expectProblem(answer, 400, "InvalidRequest");
      expect(problem.message).to.match(new RegExp(`^${field}: must be `));
    }
  });

  it("and the approval of another spender than Turnpike are read by anyone, as the chain has them", async () => {
    const owner = await world.payer(FUNDS);
    const { token } = world.contracts;
    const approvalOf = async (spender?: string): Promise<string> => {
      const query = new URLSearchParams({ token, ...(spender && { spender }) });
      return ((await (await fetch(`${service.url}/accounts/${owner.address}?${query}`)).json()) as AccountWire)
        .approval;
    };
    await world.chain.provider.send("hardhat_setBalance", [owner.address, "0xde0b6b3a7640000"]);
    const abi = ["function approve(address, uint256) returns (bool)"];
    const contract = new Contract(token, abi, new Wallet(owner.key, world.chain.provider));
    await (await contract.getFunction("approve")(PERMIT2, 7n)).wait();
    expect([await approvalOf(), await approvalOf(PERMIT2)]).to.deep.equal(["0", "7"]);
    const wrong = await fetch(`${service.url}/accounts/${owner.address}?token=${token}&spender=me`);
    expect((await expectProblem(wrong, 400, "InvalidRequest")).message).to.match(/^spender: must be an address/);
  });

  it("are not looked up for what is no address", async () => {
    const answer = await fetch(`${service.url}/accounts/0x12/subscriptions`);
    expect(answer.status).to.equal(400);
  });
});
