import { expect } from "chai";
import { id } from "ethers";
import { turnpikeInterface } from "turnpike/chain";
import {
  type Address,
  type Hex,
  idHashOf,
  signDigest,
  typedDataDigest,
  UINT256_MAX,
  voucherTypedData,
} from "turnpike/protocol";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import type { Core } from "../../../facilitator/src/app/core";
import { dumpText } from "../../../facilitator/src/cli/maintenance/dump";
import { createEndWatch } from "../../../facilitator/src/subscriptions/renewals/ends";
import type { FundedWallet } from "../../../scripts/sandbox/chain";
import { ownArgs, signupArgs } from "../../support/acts";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { nextTermsOf } from "../../support/next-terms";

const DAY = 86_400;
const NONE: Hex = `0x${"0".repeat(64)}`;

describe("Facilitator: terms on a chain that is reorganised", function () {
  this.timeout(180_000);
  let world: FacilitatorWorld;
  let core: Core;
  let provider: FundedWallet;
  let heir: FundedWallet;
  let subscriber: FundedWallet;
  let planId: Hex;
  let months: Hex;
  let idHash: Hex;
  let snapshot: string;
  let kept: Awaited<ReturnType<typeof everything>>;
  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);

  before(async () => {
    world = await startWorld({ blockMs: undefined });
    core = await world.core();
    [provider, heir, subscriber] = await Promise.all([
      world.chain.wallet("provider"),
      world.chain.wallet("heir"),
      world.chain.wallet("subscriber"),
    ]);
    await world.contracts.mint(subscriber.address, 10n ** 12n);
    const token = world.token.connect(subscriber) as typeof world.token;
    await (await token.getFunction("approve")(world.contracts.turnpike, 10n ** 12n)).wait();
    planId = await plan({ interval: 30 * DAY, months: false, amount: 1_000n });
    months = await plan({ interval: 1, months: true, amount: 3_000n });
    idHash = await subscribed("a subscription", planId);
  });
  beforeEach(async () => {
    await core.indexer.catchUp();
    kept = await everything();
    snapshot = await rpc("evm_snapshot");
  });
  after(() => world.stop());

  async function plan(own: { interval: number; months: boolean; amount: bigint }): Promise<Hex> {
    const terms = { token: world.contracts.token, grace: DAY, payTo: world.payee, ...own };
    return (await act(provider, "createPlan", [terms, id(String(own.amount)), "{}"])) as Hex;
  }
  async function subscribed(name: string, of: Hex): Promise<Hex> {
    await act(subscriber, "subscribe", [of, id(name), 500n]);
    return idHashOf(subscriber.address as Address, id(name) as Hex);
  }
  async function act(wallet: FundedWallet, method: string, args: readonly unknown[]): Promise<string> {
    const call = {
      to: world.contracts.turnpike,
      data: turnpikeInterface.encodeFunctionData(method, ownArgs(wallet.address, method, args)),
    };
    const answer = await wallet.call(call);
    expect((await (await wallet.sendTransaction({ ...call, gasLimit: 1_000_000n })).wait())?.status).to.equal(1);
    return answer;
  }
  async function everything() {
    const { db } = core.store;
    return {
      dump: (await dumpText(db, world.chain.chainId)).split("\n").filter((line) => !line.startsWith("events")),
      due: await db.selectFrom("renewal_due").selectAll().orderBy("id_hash").execute(),
      ends: await db.selectFrom("subscription_ends").selectAll().orderBy("id_hash").execute(),
      standing: (await db.selectFrom("rollup_standing").selectAll().execute())
        .filter(({ count }) => count !== 0)
        .map((row) => JSON.stringify(row))
        .sort(),
    };
  }
  /** Everything is as it was once these acts are reorganised away. */
  async function expectReverted(): Promise<void> {
    await core.indexer.catchUp();
    expect(await everything()).to.not.deep.equal(kept);
    expect(await findWrongSums(core.store.db, world.chain.chainId, 0)).to.deep.equal([]);
    const height = await world.chain.provider.getBlockNumber();
    await rpc("evm_revert", [snapshot]);
    while ((await world.chain.provider.getBlockNumber()) <= height) await rpc("evm_mine");
    await core.indexer.catchUp();
    expect(await everything()).to.deep.equal(kept);
    expect(await findWrongSums(core.store.db, world.chain.chainId, 0)).to.deep.equal([]);
  }
  const row = (of: Hex) =>
    core.store.db.selectFrom("subscriptions").selectAll().where("id_hash", "=", of).executeTakeFirst();
  const planRow = (of: Hex) =>
    core.store.db.selectFrom("plans").selectAll().where("plan_id", "=", of).executeTakeFirst();
  const eventsOf = (type: string) =>
    core.store.db.selectFrom("events").selectAll().where("type", "=", type).where("reverted", "=", false).execute();

  it("B8 an end and a scheduled change, and the renewal that makes it", async () => {
    const end = (await world.nowSec()) + 90 * DAY;
    const shown = await nextTermsOf(world.chain.provider, world.contracts.turnpike, months);
    await act(subscriber, "setNext", [idHash, end, months, shown, { version: 0, deadline: 0, signature: "0x" }]);
    await core.indexer.catchUp();
    expect(await row(idHash)).to.include({ until: end, next_plan_id: months, version: 1, plan_id: planId });
    await world.chain.advance(30 * DAY);
    await act(provider, "renew", [idHash]);
    await core.indexer.catchUp();
    expect(await row(idHash)).to.include({ until: end, next_plan_id: null, version: 1, plan_id: months });
    expect((await row(idHash))?.anchor_day).to.be.greaterThan(0);
    const [renewed] = await eventsOf("subscription.renewed");
    expect(renewed?.payload).to.include({ charged: "3000", planId: months });
    await expectReverted();
  });

  it("B8 a signup by voucher with an end", async () => {
    const secretHash = id("a trial") as Hex;
    const until = (await world.nowSec()) + 300 * DAY;
    const first = { firstAmount: 10n, firstInterval: 7 * DAY };
    const message = {
      planId: months,
      secretHash,
      subscriber: subscriber.address as Address,
      token: world.contracts.token,
      ...first,
    };
    const deployment = { chainId: world.chain.chainId, turnpike: world.contracts.turnpike };
    const digest = typedDataDigest(voucherTypedData(deployment, { ...message, deadline: UINT256_MAX }));
    const signature = signDigest(digest, provider.privateKey as Hex);
    const voucher = { ...first, signer: provider.address, deadline: UINT256_MAX, signature };
    const signup = { planId: months, secretHash, maxOverage: 0, until };
    await act(subscriber, "subscribe", signupArgs(subscriber.address, signup, { voucher }));
    await core.indexer.catchUp();
    const trial = idHashOf(message.subscriber, secretHash);
    expect(await row(trial)).to.include({ intro: true, until, version: 0, plan_id: months });
    const created = (await eventsOf("subscription.created")).find((event) => event.object_id === trial);
    expect(created?.payload).to.include({ charged: "10" });
    await expectReverted();
  });

  it("B8 a voided secret", async () => {
    const secretHash = id("never used") as Hex;
    await act(subscriber, "void", [secretHash]);
    await core.indexer.catchUp();
    const voided = await row(idHashOf(subscriber.address as Address, secretHash));
    expect(voided).to.include({ plan_id: NONE, cancelled: true, subscriber: subscriber.address });
    await expectReverted();
  });

  it("B8 a payee that is proposed, and one that moved", async () => {
    await act(provider, "proposePayTo", [planId, heir.address]);
    await core.indexer.catchUp();
    expect(await planRow(planId)).to.include({
      pay_to: world.payee,
      proposed_pay_to: heir.address,
      first_provider: null,
      first_pay_to: null,
    });
    await world.chain.advance(7 * DAY);
    await act(heir, "applyPayTo", [planId]);
    await core.indexer.catchUp();
    expect(await planRow(planId)).to.include({
      pay_to: heir.address,
      first_pay_to: world.payee,
      proposed_pay_to: null,
    });
    const [moved] = await eventsOf("plan.payee_changed");
    expect(moved?.payload).to.include({ payTo: heir.address, previousPayTo: world.payee });
    await expectReverted();
  });

  it("B8 a plan that another provider took over, with its subscriptions", async () => {
    for (const by of [provider, await world.chain.wallet("payee")])
      await act(by, "proposePayTo", [planId, provider.address]);
    await act(provider, "offerPlan", [planId, heir.address]);
    await act(heir, "acceptPlan", [planId]);
    await core.indexer.catchUp();
    expect(await planRow(planId)).to.include({ provider: heir.address, first_provider: provider.address });
    const standing = await core.store.db.selectFrom("rollup_standing").selectAll().where("count", ">", 0).execute();
    expect(standing.map((sum) => sum.provider).sort()).to.deep.equal(["", heir.address].sort());
    const transferred = await eventsOf("plan.transferred");
    expect(transferred.map((event) => event.provider).sort()).to.deep.equal([heir.address, provider.address].sort());
    await expectReverted();
  });

  it("B8 L35 a plan that was stopped, with each of its subscriptions, which a plan change saves", async () => {
    await act(provider, "stopPlan", [planId]);
    await core.indexer.catchUp();
    expect(await planRow(planId)).to.include({ deprecated: true, stopped_at: await world.nowSec() });
    expect(await row(idHash)).to.include({ ending: true, cancelled: false, version: 0 });
    const stopped = await eventsOf("plan.stopped");
    expect(stopped.map((event) => event.object_id)).to.deep.equal([planId]);
    expect(stopped[0]?.payload).to.include({ deprecated: true, stopped: true });
    const [ended] = (await eventsOf("subscription.cancelled")).filter((event) => event.object_id === idHash);
    expect(ended?.payload).to.include({ atPeriodEnd: true, ending: true, status: "ACTIVE" });
    const due = core.store.db.selectFrom("renewal_due").select("id_hash").where("id_hash", "=", idHash);
    expect(await due.executeTakeFirst()).to.equal(undefined);
    await act(subscriber, "changePlan", [idHash, months, 0, UINT256_MAX]);
    await core.indexer.catchUp();
    expect(await row(idHash)).to.include({ ending: false, plan_id: months, version: 1 });
    expect(await due.executeTakeFirst()).to.include({ id_hash: idHash });
    await expectReverted();
  });

  it("L27 reports an end that was reached while paused with the same id when the chain is read again", async () => {
    const { chainId } = world.chain;
    const auth = { version: 0, deadline: 0, signature: "0x" };
    const shown = await nextTermsOf(world.chain.provider, world.contracts.turnpike, NONE);
    await act(subscriber, "setNext", [idHash, (await world.nowSec()) + DAY, NONE, shown, auth]);
    await act(subscriber, "pause", [idHash]);
    const reported = async ({ indexer, store, feed }: Core) => {
      await indexer.catchUp();
      const ends = createEndWatch({ store, feed, chainId });
      await ends.check();
      await ends.check();
      const found = store.db.selectFrom("events").select(["id", "block_time", "payload"]);
      const standing = found.where("type", "=", "subscription.cancelled").where("reverted", "=", false);
      return standing.where("object_id", "=", idHash).execute();
    };
    expect(await reported(core)).to.deep.equal([]);
    await world.chain.advance(30 * DAY);
    const first = await reported(core);
    expect(first).to.have.lengthOf(1);
    expect(await core.store.db.selectFrom("subscription_ends").selectAll().execute()).to.deep.equal([]);
    await world.loseDatabase();
    expect(await reported(await world.core())).to.deep.equal(first);
  });
});
