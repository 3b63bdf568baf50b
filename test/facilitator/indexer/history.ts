import { expect } from "chai";
import { EventFragment, id, keccak256 } from "ethers";
import { lensInterface, turnpikeInterface } from "turnpike/chain";
import {
  type Address,
  type Hex,
  idHashOf,
  lensAddressOf,
  STATUSES,
  secretHashOf,
  signDigest,
  statusAt,
  typedDataDigest,
  UINT256_MAX,
  voucherTypedData,
} from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { FundedWallet } from "../../../scripts/sandbox/chain";
import { ownArgs, signupArgs } from "../../support/acts";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { nextTermsOf } from "../../support/next-terms";

const SEED = 20_261_121;
const ACTS = 260;
const HOUR = 3_600;
const DAY = 24 * HOUR;
const NONE = `0x${"0".repeat(64)}`;

const FAILURES = ["RenewalFailed", "DebitFailed", "EIP712DomainChanged"];
const EVENTS = turnpikeInterface.fragments.flatMap((fragment) =>
  fragment instanceof EventFragment && !FAILURES.includes(fragment.name) ? [fragment.name] : [],
);

/** A small deterministic generator, so that a failing history can be run again. */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe("the indexer's records and the contract's", function () {
  this.timeout(240_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    // Each act is a block of its own.
    world = await startWorld({ blockMs: undefined });
    core = await world.core();
  });
  after(() => world.stop());

  it("L22 S8 agree after a random history, and are the same when read again from the first block", async () => {
    const { all: idHashes, plans } = await liveThroughAHistory();
    await core.indexer.catchUp();
    const states = await chainStates(idHashes);
    const { db } = core.store;
    let compared = 0;
    let voided = 0;
    for (const [index, idHash] of idHashes.entries()) {
      const chain = states[index];
      const row = await db.selectFrom("subscriptions").selectAll().where("id_hash", "=", idHash).executeTakeFirst();
      if (!chain || chain.subscription.subscriber === `0x${"0".repeat(40)}`) {
        expect(row).to.equal(undefined);
        continue;
      }
      const { subscription: s, allowance: a } = chain;
      if (s.planId === NONE) {
        expect(row, "voided").to.include({ subscriber: s.subscriber, plan_id: NONE, cancelled: true, version: 0 });
        voided += 1;
        continue;
      }
      const plan = await db
        .selectFrom("plans")
        .selectAll()
        .where("plan_id", "=", chain.subscription.planId)
        .executeTakeFirstOrThrow();
      const allowance = await db.selectFrom("allowances").selectAll().where("id_hash", "=", idHash).executeTakeFirst();
      expect(row, idHash).to.include({
        subscriber: s.subscriber,
        plan_id: s.planId,
        paid_through: Number(s.paidThrough),
        version: Number(s.version),
        paused: s.paused,
        ending: s.ending,
        cancelled: s.cancelled,
        intro: s.intro,
        anchor_day: Number(s.anchorDay),
        until: Number(s.until),
        next_plan_id: s.nextPlanId === NONE ? null : s.nextPlanId,
      });
      const spent = allowance && allowance.cycle === Number(s.paidThrough) ? BigInt(allowance.spent) : 0n;
      expect({ cap: BigInt(allowance?.cap ?? 0), spent, debits: BigInt(allowance?.debits ?? 0) }).to.deep.equal({
        cap: a.cap,
        spent: a.spent,
        debits: a.debits,
      });
      const status = statusAt(
        {
          known: true,
          cancelled: s.cancelled,
          ending: s.ending,
          paused: s.paused,
          paidThroughSec: Number(s.paidThrough),
          intervalSec: plan.interval_sec,
          months: plan.months,
          anchorDay: Number(s.anchorDay),
          untilSec: Number(s.until),
          graceSec: plan.grace_sec,
        },
        await world.nowSec(),
      );
      expect(status).to.equal(STATUSES[Number(s.status)]);
      const due = await db.selectFrom("renewal_due").selectAll().where("id_hash", "=", idHash).executeTakeFirst();
      const willFallDue = !s.paused && !s.ending && !s.cancelled;
      expect(due?.paid_through, "due").to.equal(willFallDue ? Number(s.paidThrough) : undefined);
      compared += 1;
    }
    expect(compared).to.be.greaterThan(10);
    expect(voided).to.be.greaterThan(0);
    await comparePlans(plans);
    const logs = await world.chain.provider.getLogs({ address: world.contracts.turnpike, fromBlock: 0 });
    const emitted = new Set(logs.map((log) => turnpikeInterface.parseLog(log)?.name));
    const missing = EVENTS.filter((name) => !emitted.has(name));
    expect(missing, "what this history never did").to.deep.equal([]);

    // Far enough behind that the second reading takes many blocks at once.
    await world.chain.provider.send("hardhat_mine", ["0x200"]);
    await core.indexer.catchUp();
    const before = await everything(core);
    await core.stop();
    await world.loseDatabase();
    core = await world.core({ ADOPT_NONCE: "true" });
    expect(await everything(core)).to.deep.equal(before);
  });

  async function liveThroughAHistory(): Promise<{ all: Hex[]; plans: Hex[] }> {
    const pick = generator(SEED);
    const provider = await world.chain.wallet("provider");
    const subscribers = await Promise.all(["ann", "bob"].map((name) => world.chain.wallet(name)));
    for (const subscriber of subscribers) {
      await world.contracts.mint(subscriber.address, 10n ** 12n);
      await (
        await (world.token.connect(subscriber) as typeof world.token).getFunction("approve")(
          world.contracts.turnpike,
          10n ** 12n,
        )
      ).wait();
    }
    const plans: Hex[] = [];
    for (const [index, amount] of [1_000n, 5_000n, 20_000n, 8_000n].entries()) {
      const months = index === 3;
      const terms = {
        token: world.contracts.token,
        amount,
        interval: months ? 1 : HOUR * (index + 1),
        months,
        grace: index * 600,
        payTo: world.payee,
      };
      plans.push((await act(provider, "createPlan", [terms, id(`salt ${index}`), "{}"])) as Hex);
    }
    const live: { idHash: Hex; owner: FundedWallet }[] = [];
    const all: Hex[] = [];
    const debits = new Map<Hex, number>();
    let secrets = 0;
    const [heir, payee] = [await world.chain.wallet("heir"), await world.chain.wallet("payee")];
    const moveAPlan = async (planId: Hex): Promise<void> => {
      const kind = pick(4);
      if (kind === 0) await act(provider, "proposePayTo", [planId, heir.address]);
      else if (kind === 1) await act(provider, "withdrawPayTo", [planId]);
      else if (kind === 2) await act(provider, "applyPayTo", [planId]);
      else if (plans.indexOf(planId) === 2) {
        await act(provider, "proposePayTo", [planId, provider.address]);
        await act(payee, "proposePayTo", [planId, provider.address]);
        await act(provider, "offerPlan", [planId, heir.address]);
        await act(heir, "acceptPlan", [planId]);
      }
    };
    for (let step = 0; step < ACTS; step++) {
      if (step === Math.floor(ACTS * 0.8)) await act(provider, "stopPlan", [plans[1]]);
      const one = live[pick(live.length)];
      const cap = BigInt(pick(3) * 500);
      switch (one ? pick(17) : 0) {
        case 12: {
          const next = pick(2) ? plans[pick(4)] : NONE;
          const auth = { version: 0, deadline: 0, signature: "0x" };
          const until = pick(3) ? 0 : (await world.nowSec()) + HOUR + pick(3 * DAY);
          const shown = await nextTermsOf(world.chain.provider, world.contracts.turnpike, next as Hex);
          await act(one?.owner as FundedWallet, "setNext", [one?.idHash, until, next, shown, auth]);
          break;
        }
        case 13:
        case 14: {
          const owner = subscribers[pick(2)] as FundedWallet;
          const secretHash = secretHashOf(keccak256(id(`secret ${secrets++}`)) as Hex);
          const idHash = idHashOf(owner.address as Address, secretHash);
          const planId = plans[pick(4)] as Hex;
          const until = pick(2) ? (await world.nowSec()) + HOUR + pick(40 * DAY) : 0;
          const signup = { planId, secretHash, maxOverage: cap, until };
          const first = { firstAmount: BigInt(pick(2) * 100), firstInterval: pick(2) * HOUR };
          const message = {
            planId,
            secretHash,
            subscriber: owner.address as Address,
            token: world.contracts.token,
            ...first,
            deadline: UINT256_MAX,
          };
          const deployment = { chainId: world.chain.chainId, turnpike: world.contracts.turnpike };
          const digest = typedDataDigest(voucherTypedData(deployment, message));
          const voucher = pick(2)
            ? {
                ...first,
                signer: provider.address,
                deadline: UINT256_MAX,
                signature: signDigest(digest, provider.privateKey as Hex),
              }
            : undefined;
          if (await act(owner, "subscribe", [...signupArgs(owner.address, signup, { voucher })]))
            live.push({ idHash, owner });
          all.push(idHash);
          break;
        }
        case 15: {
          const owner = subscribers[pick(2)] as FundedWallet;
          const secretHash = secretHashOf(keccak256(id(`secret ${secrets++}`)) as Hex);
          await act(owner, "void", [secretHash]);
          all.push(idHashOf(owner.address as Address, secretHash));
          break;
        }
        case 16:
          await moveAPlan(plans[pick(4)] as Hex);
          break;
        case 0: {
          const owner = subscribers[pick(2)] as FundedWallet;
          const secretHash = secretHashOf(keccak256(id(`secret ${secrets++}`)) as Hex);
          const idHash = idHashOf(owner.address as Address, secretHash);
          if (await act(owner, "subscribe", [plans[pick(4)], secretHash, cap])) live.push({ idHash, owner });
          all.push(idHash);
          break;
        }
        case 1:
          await act(one?.owner as FundedWallet, "pause", [one?.idHash]);
          break;
        case 2:
          await act(one?.owner as FundedWallet, "resume", [one?.idHash, 10n ** 9n]);
          break;
        case 3:
          await act(pick(2) ? provider : (one?.owner as FundedWallet), "cancel", [one?.idHash, pick(3) > 0]);
          break;
        case 4:
          await act(one?.owner as FundedWallet, "setMaxOverage", [one?.idHash, cap]);
          break;
        case 5:
          await act(one?.owner as FundedWallet, "changePlan", [one?.idHash, plans[pick(4)], cap, 10n ** 9n]);
          break;
        case 6: {
          const secretHash = secretHashOf(keccak256(id(`secret ${secrets++}`)) as Hex);
          const owner = one?.owner as FundedWallet;
          const idHash = idHashOf(owner.address as Address, secretHash);
          if (await act(owner, "rekey", [one?.idHash, secretHash])) {
            live.push({ idHash, owner });
            debits.set(idHash, debits.get(one?.idHash as Hex) ?? 0);
          }
          all.push(idHash);
          break;
        }
        case 7:
        case 8: {
          const idHash = one?.idHash as Hex;
          const index = debits.get(idHash) ?? 0;
          if (await act(provider, "debit", [idHash, BigInt(1 + pick(600)), index])) debits.set(idHash, index + 1);
          break;
        }
        case 9:
          await act(provider, "renewBatch", [live.map(({ idHash }) => idHash)], 8_000_000n);
          break;
        default:
          await world.chain.advance(pick(6) === 0 ? pick(20 * DAY) : pick(2) ? pick(HOUR) : 300);
      }
    }
    await act(provider, "deprecatePlan", [plans[0], plans[1]]);
    return { all, plans };
  }

  /** @returns undefined when the contract refuses it, which is a fair part of a random history */
  async function act(
    wallet: FundedWallet,
    method: string,
    args: unknown[],
    gasLimit = 1_000_000n,
  ): Promise<string | undefined> {
    const call = {
      to: world.contracts.turnpike,
      data: turnpikeInterface.encodeFunctionData(method, ownArgs(wallet.address, method, args)),
    };
    const answer = await wallet.call(call).catch(() => undefined);
    if (answer === undefined) return undefined;
    const receipt = await (await wallet.sendTransaction({ ...call, gasLimit })).wait().catch(() => null);
    return receipt?.status === 1 ? answer : undefined;
  }

  interface ChainState {
    readonly subscription: Record<"subscriber" | "planId" | "nextPlanId", string> &
      Record<"paidThrough" | "version" | "status" | "anchorDay" | "until", bigint> &
      Record<"paused" | "ending" | "cancelled" | "intro", boolean>;
    readonly allowance: Record<"cap" | "spent" | "debits", bigint>;
  }
  async function chainStates(idHashes: Hex[]): Promise<ChainState[]> {
    return lens<ChainState>("getStates", idHashes);
  }

  async function lens<T>(method: "getStates" | "getPlans", ids: readonly Hex[]): Promise<T[]> {
    const data = lensInterface.encodeFunctionData(method, [ids]);
    const answer = await world.chain.provider.call({ to: lensAddressOf(world.contracts.turnpike), data });
    return lensInterface.decodeFunctionResult(method, answer)[0] as T[];
  }

  interface ChainPlan extends Record<"provider" | "firstPayTo" | "proposedPayTo", string> {
    readonly terms: { readonly payTo: string };
    readonly deprecated: boolean;
    readonly stopped: boolean;
    readonly effectiveAt: bigint;
  }
  async function comparePlans(plans: readonly Hex[]): Promise<void> {
    for (const [index, plan] of (await lens<ChainPlan>("getPlans", plans)).entries()) {
      const row = await core.store.db
        .selectFrom("plans")
        .selectAll()
        .where("plan_id", "=", plans[index] as Hex)
        .executeTakeFirstOrThrow();
      expect({
        provider: row.provider,
        payTo: row.pay_to,
        firstPayTo: row.first_pay_to ?? row.pay_to,
        proposed: row.proposed_pay_to ?? `0x${"0".repeat(40)}`,
        at: BigInt(row.pay_to_effective_at ?? 0),
        deprecated: row.deprecated,
        stopped: row.stopped_at !== null,
      }).to.deep.equal({
        provider: plan.provider,
        payTo: plan.terms.payTo,
        firstPayTo: plan.firstPayTo,
        proposed: plan.proposedPayTo,
        at: plan.effectiveAt,
        deprecated: plan.deprecated,
        stopped: plan.stopped,
      });
    }
  }

  async function everything({ store: { db } }: Core) {
    return {
      plans: await db.selectFrom("plans").selectAll().orderBy("plan_id").execute(),
      operators: await db.selectFrom("operators").selectAll().orderBy("plan_id").execute(),
      subscriptions: await db.selectFrom("subscriptions").selectAll().orderBy("id_hash").execute(),
      allowances: await db.selectFrom("allowances").selectAll().orderBy("id_hash").execute(),
      debits: await db.selectFrom("debits").selectAll().orderBy("id_hash").orderBy("debit_index").execute(),
      due: await db.selectFrom("renewal_due").selectAll().orderBy("id_hash").execute(),
      events: await db.selectFrom("events").selectAll().orderBy("seq").execute(),
    };
  }
});
