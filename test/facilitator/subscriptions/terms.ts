import { expect } from "chai";
import { AbiCoder, id } from "ethers";
import { tokenInterface, turnpikeInterface } from "turnpike/chain";
import { changeResponseSchema, type FacilitatorEvent, permitSchema } from "turnpike/facilitator";
import { type Address, type Hex, idHashOf, randomBytes, secretHashOf, toHex } from "turnpike/protocol";
import { subscribeCall } from "../../../facilitator/src/subscriptions/acts";
import { signupArgs } from "../../support/acts";
import { type Payer, until } from "../../support/facilitator";
import { inWords, walletCodeOf } from "../../support/wallet-code";
import { expectRefused } from "../support/expect";
import { useService } from "../support/http-service";
import { expectProblem } from "../support/problem";
import { DAY_SEC, PRICE } from "../support/service";

const FUNDS = 1_000_000_000n;
const NONE: Hex = `0x${"0".repeat(64)}`;

describe("Facilitator: signups with an end or a voucher, voids, and plans that move", function () {
  this.timeout(180_000);
  const http = useService();

  const secretHash = () => secretHashOf(toHex(randomBytes(32)));
  const record = async (idHash: Hex) => {
    const found = await http.service.client.subscription(idHash);
    if (found.kind !== "found") throw found.error;
    return found.value;
  };
  const eventsOf = async (subject: Hex, type: string): Promise<readonly FacilitatorEvent[]> => {
    const found = await http.service.client.events({ limit: 200 });
    return found.kind === "found" ? found.value.events.filter((e) => e.subject === subject && e.type === type) : [];
  };
  const voiding = async (body: unknown) => {
    const response = await http.call("/subscriptions/void", { body });
    expect(response.status).to.equal(200);
    return changeResponseSchema.parse(await response.json());
  };

  it("signs up with an end, and the next act follows version 0", async () => {
    const { world, service } = http;
    const subscriber = await world.payer(FUNDS);
    const end = (await world.nowSec()) + 90 * DAY_SEC;
    const { idHash, request } = await world.signup(subscriber, { until: end, permit: FUNDS });
    const signedUp = await service.client.subscribe(request);
    expect(signedUp.kind === "done" && signedUp.change).to.include({ status: "ACTIVE", version: 0 });
    const again = await service.client.subscribe(request);
    expect(again).to.deep.equal(signedUp);
    expect(await record(idHash)).to.include({ until: end, intro: false });
    const next = await world.change("next", subscriber, { idHash, until: end + DAY_SEC, nextPlanId: NONE });
    const set = await service.client.change({ idHash, act: "next", request: next });
    expect(set.kind === "done" && set.change.version).to.equal(1);
    expect(await record(idHash)).to.include({ until: end + DAY_SEC, version: 1 });
    const past = await world.change("next", subscriber, { idHash, version: 1, until: 1, nextPlanId: NONE });
    expectRefused(await service.client.change({ idHash, act: "next", request: past }), "UntilReached");
    const other = await world.signup(subscriber, { secretHash: request.secretHash as Hex });
    expectRefused(await service.client.subscribe(other.request), "IdHashUsed");
  });

  it("L33 refuses a signup whose terms are not the plan's, and one without its voucher", async () => {
    const { world, service } = http;
    const subscriber = await world.payer(FUNDS);
    const cheaper = await world.signup(subscriber, { terms: { amount: PRICE - 1n }, permit: FUNDS });
    expectRefused(await service.client.subscribe(cheaper.request), "InvalidSignature");
    const { request } = await world.signup(subscriber, { voucher: { firstAmount: 100n, firstInterval: 0 } });
    const { voucher, ...bare } = request;
    expectRefused(await service.client.subscribe(bare), "InvalidSignature");
    const stolen = { ...request, voucher: voucher && { ...voucher, signer: subscriber.address } };
    expectRefused(await service.client.subscribe(stolen), "InvalidVoucher");
    expect(await world.balanceOf(subscriber.address)).to.equal(FUNDS);
  });

  it("B13 spends no gas on a free trial of a wallet that holds nothing", async () => {
    const { world, service } = http;
    const trial = { voucher: { firstAmount: 0n, firstInterval: DAY_SEC } };
    const poor = await world.signup(await world.payer(0n), trial);
    expectRefused(await service.client.subscribe(poor.request), "InsufficientFunds");
    const funded = await world.signup(await world.payer(PRICE), trial);
    const outcome = await service.client.subscribe(funded.request);
    expect(outcome.kind).to.equal("done");
    expect(await record(funded.idHash)).to.include({ intro: true, status: "ACTIVE" });
  });

  for (const read of [true, false]) {
    it(`A22 submits the permit of a trial whose signup a stranger copied without it, ${read ? "before" : "while"} it is asked for`, async () => {
      const { world, service } = http;
      const trial = { voucher: { firstAmount: 0n, firstInterval: DAY_SEC }, permit: FUNDS };
      const subscriber = await world.payer(FUNDS);
      const { idHash, request } = await world.signup(subscriber, trial);
      const copied = signupArgs(subscriber.address, request, { ...request, permit: undefined });
      await world.act(await world.chain.wallet("copier"), "subscribe", copied);
      if (read) await until(async () => (await service.client.subscription(idHash)).kind === "found", "it is read");
      const done = await until(async () => {
        const outcome = await service.client.subscribe(request);
        return outcome.kind === "done" && outcome.change;
      }, "the signup is answered");
      expect(done).to.include({ idHash, status: "ACTIVE", version: 0 });
      const { token, turnpike } = world.contracts;
      const data = tokenInterface.encodeFunctionData("allowance", [subscriber.address, turnpike]);
      expect(BigInt(await world.chain.provider.call({ to: token, data }))).to.equal(FUNDS);
      // Asked again, it sends nothing more, and answers the same.
      const again = await service.client.subscribe(request);
      expect(again.kind === "done" && again.change).to.deep.equal(done);
      expect(await record(idHash)).to.include({ intro: true, status: "ACTIVE" });
    });
  }

  it("L32 voids a signed signup once, and for ever", async () => {
    const { world, service } = http;
    const subscriber = await world.payer(FUNDS);
    const secret = secretHash();
    const idHash = idHashOf(subscriber.address, secret);
    const signup = await world.signup(subscriber, { secretHash: secret, permit: FUNDS });
    const body = world.voiding(subscriber, secret);
    const voided = await voiding(body);
    expect(voided).to.include({ idHash, status: "CANCELLED", version: 0, paidThrough: 0 });
    expect((await voiding(body)).transaction).to.equal(voided.transaction);
    expectRefused(await service.client.subscribe(signup.request), "IdHashUsed");
    expect(await record(idHash)).to.include({ status: "CANCELLED", planId: NONE, subscriber: subscriber.address });
    const used = await world.signup(subscriber, { permit: FUNDS });
    await service.client.subscribe(used.request);
    const late = world.voiding(subscriber, used.request.secretHash as Hex);
    await expectProblem(await http.call("/subscriptions/void", { body: late }), 409, "IdHashUsed");
    const poor = await world.payer(0n);
    await expectProblem(
      await http.call("/subscriptions/void", { body: world.voiding(poor, secretHash()) }),
      422,
      "InsufficientFunds",
    );
  });

  it("L31 reports a payee that is proposed, withdrawn and applied, and charges the new one", async () => {
    const { world, service } = http;
    const planId = await world.plan();
    const next = (await world.payer(0n)).address;
    await world.act(world.provider, "proposePayTo", [planId, next]);
    const [proposed] = await until(async () => {
      const found = await eventsOf(planId, "plan.payee_proposed");
      return found.length === 1 && found;
    }, "the proposal is reported");
    expect(proposed?.data).to.include({ payTo: world.payee, by: world.provider.address });
    expect(proposed?.data.proposedPayTo).to.include({ payTo: next });
    await world.act(world.provider, "withdrawPayTo", [planId]);
    await until(async () => (await eventsOf(planId, "plan.payee_proposed")).length === 2, "the withdrawal is reported");
    const open = await service.client.plan(planId);
    expect(open.kind === "found" && open.value.proposedPayTo).to.equal(undefined);
    await world.act(world.provider, "proposePayTo", [planId, next]);
    await world.chain.advance(7 * DAY_SEC);
    await world.act(world.provider, "applyPayTo", [planId]);
    const [moved] = await until(async () => {
      const found = await eventsOf(planId, "plan.payee_changed");
      return found.length === 1 && found;
    }, "the move is reported");
    expect(moved?.data).to.include({ payTo: next, previousPayTo: world.payee, proposedPayTo: null });
    const plan = await service.client.plan(planId);
    expect(plan.kind === "found" && plan.value).to.include({ payTo: next, firstPayTo: world.payee });
    const subscriber = await world.payer(FUNDS);
    const before = await world.signup(subscriber, { planId, permit: FUNDS });
    expectRefused(await service.client.subscribe(before.request), "InvalidSignature");
    const { request } = await world.signup(subscriber, { planId, terms: { payTo: next }, permit: FUNDS });
    expect((await service.client.subscribe(request)).kind).to.equal("done");
    expect(await world.balanceOf(next)).to.equal(PRICE);
  });

  it("reports a transferred plan to both providers, and lists it for the new one", async () => {
    const { world, service } = http;
    const planId = await world.plan({ payTo: world.provider.address as Address });
    const heir = await world.chain.wallet("heir");
    await world.act(world.provider, "offerPlan", [planId, heir.address]);
    await world.act(heir, "acceptPlan", [planId]);
    const [mine] = await until(async () => {
      const found = await eventsOf(planId, "plan.transferred");
      return found.length > 0 && found;
    }, "the provider before learns of it");
    expect(mine?.data).to.include({ provider: heir.address, previousProvider: world.provider.address });
    const plan = await service.client.plan(planId);
    const { address: firstProvider } = world.provider;
    expect(plan.kind === "found" && plan.value).to.include({ provider: heir.address, firstProvider });
  });

  it("passes a wallet's permit on as bytes, and a key's with a v of 27 or 28", async () => {
    const { request } = await http.world.signup(await http.world.payer(0n));
    const permitOf = (signature: Hex) => {
      const permit = permitSchema.parse({ value: "5", deadline: "6", signature });
      const call = subscribeCall({ ...request, maxOverage: 0n, deadline: 1n, permit } as never);
      const bytes = turnpikeInterface.decodeFunctionData("subscribe", call.data).permit as Hex;
      return AbiCoder.defaultAbiCoder().decode(["tuple(uint256, uint256, bytes)"], bytes)[0][2] as Hex;
    };
    expect(permitOf(`0x${"ab".repeat(97)}`)).to.equal(`0x${"ab".repeat(97)}`);
    expect(permitOf(`0x${"12".repeat(64)}00`)).to.equal(`0x${"12".repeat(64)}1b`);
    expect(permitOf(`0x${"12".repeat(64)}1c`)).to.equal(`0x${"12".repeat(64)}1c`);
  });

  describe("of accounts with code, whose permits are bytes", () => {
    /** An account that has code, funds, and a key that signs for it. */
    async function account(isKeys: boolean): Promise<Payer> {
      const { world } = http;
      const { key, address: owner } = await world.payer(0n);
      const address = isKeys ? owner : (await world.payer(0n)).address;
      await world.chain.provider.send("hardhat_setCode", [address, walletCodeOf(owner)]);
      await world.contracts.mint(address, FUNDS);
      return { address, key };
    }
    const permitOf = async (owner: Payer, value: bigint) => {
      const permit = await http.world.permit(owner, value);
      return { ...permit, signature: inWords(permit.signature) };
    };

    for (const [name, isKeys] of [
      ["a contract wallet", false],
      ["a key's account that was given code (EIP-7702)", true],
    ] as const) {
      it(`POST /permits sets the approval of ${name}, and refuses a signature that it does not accept`, async () => {
        const { world, service } = http;
        const owner = await account(isKeys);
        const named = { token: world.contracts.token, owner: owner.address };
        const stranger = { ...owner, key: (await world.payer(0n)).key };
        expectRefused(
          await service.client.permit({ ...named, ...(await permitOf(stranger, 77n)) }),
          "InvalidSignature",
        );
        const permit = await permitOf(owner, 77n);
        const applied = await service.client.permit({ ...named, ...permit });
        expect(applied.kind === "done" && applied.permit.approval).to.equal(77n);
        const again = await service.client.permit({ ...named, ...permit });
        expect(again.kind === "done" && again.permit.approval).to.equal(77n);
      });

      it(`${name} signs up with its permit in one transaction, and raises its cap with another`, async () => {
        const { world, service } = http;
        const owner = await account(isKeys);
        const { idHash, request } = await world.signup(owner);
        const signature = isKeys ? request.signature : inWords(request.signature);
        const signedUp = await service.client.subscribe({
          ...request,
          signature,
          permit: await permitOf(owner, PRICE),
        });
        if (signedUp.kind !== "done") throw new Error(JSON.stringify(signedUp));
        expect(signedUp.change.status).to.equal("ACTIVE");
        const receipt = await world.chain.provider.getTransactionReceipt(signedUp.change.transaction);
        const approval = id("Approval(address,address,uint256)");
        const subscribed = turnpikeInterface.getEvent("Subscribed")?.topicHash;
        const topics = receipt?.logs.map(({ topics: [first] }) => first);
        expect(topics).to.include.members([approval, subscribed]);
        expect(await world.balanceOf(owner.address)).to.equal(FUNDS - PRICE);
        const raise = await world.change("max-overage", owner, { idHash, cap: PRICE });
        const raised = await service.client.change({
          idHash,
          act: "max-overage",
          request: {
            ...raise,
            signature: isKeys ? raise.signature : inWords(raise.signature),
            permit: await permitOf(owner, 2n * PRICE),
          },
        });
        expect(raised.kind === "done" && raised.change.version).to.equal(1);
        const found = await service.client.account({ address: owner.address, token: world.contracts.token });
        expect(found.kind === "found" && found.value.approval).to.equal(2n * PRICE);
      });
    }
  });
});
