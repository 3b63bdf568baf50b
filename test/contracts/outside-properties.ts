// Properties that follow from the documents alone: of calls made together, of permits that others bring, of one account
// in every role, and of what happens in one second.

import { takeSnapshot, time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { type ContractTransactionResponse, ZeroAddress, ZeroHash } from "ethers";
import fc from "fast-check";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfManyCases } from "./support/deployed-code";
import { NO_TERMS, setNext } from "./support/signups";

const DEARER = 3n * c.PRICE;
const GAS = { gasLimit: 3_000_000n };

/** The error that the transaction reverts with; empty when it succeeds. */
async function errorOf(w: c.World, send: () => Promise<unknown>): Promise<string> {
  try {
    await send();
    return "";
  } catch (caught) {
    const { data } = caught as { data?: string };
    const error = w.turnpike.interface.parseError(data ?? "0x");
    if (!error) throw caught;
    return error.name;
  }
}

/** All that calls can change: of the records, of the plans, of rights and of balances. */
async function stateOf(w: c.World, idHashes: string[], planIds: string[]): Promise<string> {
  const accounts = [w.subscriber, w.treasury, w.stranger];
  const all = [
    await w.lens.getStates(idHashes),
    await w.lens.getPlans(planIds),
    await Promise.all(planIds.map((planId) => w.lens.rightsOf(planId, w.operator))),
    await Promise.all(accounts.map((account) => w.token.balanceOf(account))),
  ];
  return JSON.stringify(all, (_, value) => (typeof value === "bigint" ? `${value}` : value));
}

describe("Calls in a multicall", () => {
  const call = fc.record({
    kind: fc.constantFrom(
      ...["subscribe", "pause", "resume", "cap", "change", "next", "cancel", "rekey", "stop", "propose", "operator"],
      ...["debit", "nested"],
    ),
    flag: fc.boolean(),
    amount: fc.bigInt({ min: 1n, max: 20n }),
  });

  itOfManyCases("do what they do one after the other in that second, or nothing", async () => {
    const lists = fc.array(call, { minLength: 2, maxLength: 6 });
    await fc.assert(fc.asyncProperty(lists, compare), { numRuns: 25 });
  });

  async function compare(calls: { kind: string; flag: boolean; amount: bigint }[]): Promise<void> {
    const w = await loadFixture(c.world);
    const me = w.subscriber;
    const own = await c.createPlan(w, { payTo: w.treasury.address }, me);
    const dear = await c.createPlan(w, { amount: DEARER }, me);
    const s = await c.subscribe(w, { planId: own, maxOverage: 15n });
    const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
    const shown = await c.shownOf(w, dear);
    const secrets = calls.map(() => c.freshSecretHash());
    const encoded = calls.map(({ kind, flag, amount }, i) => {
      const secretHash = c.present(secrets[i]);
      const forms: Record<string, () => string> = {
        subscribe: () =>
          encode("subscribe", c.signupArgs(me.address, { planId: flag ? own : dear, secretHash, maxOverage: amount })),
        pause: () => encode("pause", [s.idHash, c.NO_AUTH]),
        resume: () => encode("resume", [s.idHash, 0n, c.NO_AUTH]),
        cap: () => encode("setMaxOverage", [s.idHash, amount, c.NO_AUTH]),
        change: () => encode("changePlan", [s.idHash, dear, amount, c.FOREVER, c.NO_AUTH]),
        next: () => encode("setNext", [s.idHash, 0n, flag ? dear : ZeroHash, flag ? shown : NO_TERMS, c.NO_AUTH]),
        cancel: () => encode("cancel", [s.idHash, flag, c.NO_AUTH]),
        rekey: () => encode("rekey", [s.idHash, secretHash, c.NO_AUTH]),
        stop: () => encode("stopPlan", [flag ? own : dear]),
        propose: () => encode("proposePayTo", [dear, w.stranger.address]),
        operator: () => encode("setOperator", [own, me.address, flag ? c.Right.ALL : 0n]),
        debit: () => encode("debit", [s.idHash, amount, 0n]),
        nested: () => encode("multicall", [[encode("setOperator", [dear, w.operator.address, flag ? 3n : 1n])]]),
      };
      return c.present(forms[kind])();
    });
    const idHashes = [s.idHash];
    for (const secretHash of secrets) idHashes.push(await w.turnpike.idHashOf(me, secretHash));
    const state = () => stateOf(w, idHashes, [own, dear]);
    const untouched = await state();
    const second = (await time.latest()) + 1_000;
    const before = await takeSnapshot();

    let error = "";
    for (const data of encoded) {
      await time.setNextBlockTimestamp(second);
      error = await errorOf(w, () => me.sendTransaction({ to: w.turnpike, data, ...GAS }));
      if (error !== "") break;
    }
    const expected = error === "" ? await state() : untouched;
    await before.restore();

    await time.setNextBlockTimestamp(second);
    const whole = { gasLimit: 15_000_000n };
    expect(await errorOf(w, () => w.turnpike.connect(me).multicall(encoded, whole))).to.equal(error);
    expect(await state()).to.equal(expected);
  }
});

describe("A signup's permit", () => {
  /** Values and nonces of the permits that the subscriber has signed; two have the same nonce. */
  const SIGNED = [
    [c.PRICE, 0n],
    [5n * c.PRICE, 0n],
    [2n * c.PRICE, 1n],
    [0n, 2n],
  ] as const;
  const step = fc.record({
    kind: fc.constantFrom("submit", "signup", "signup", "approve", "forge"),
    which: fc.nat(SIGNED.length - 1),
    bytes: fc.uint8Array({ maxLength: 70 }),
    value: fc.constantFrom(0n, c.PRICE - 1n, c.PRICE, 3n * c.PRICE),
  });

  itOfManyCases("sets the approval while it holds, and is nothing else: copied, used, replaced or forged", async () => {
    const steps = fc.array(step, { minLength: 3, maxLength: 10 });
    await fc.assert(fc.asyncProperty(steps, follow), { numRuns: 20 });
  });

  async function follow(steps: { kind: string; which: number; bytes: Uint8Array; value: bigint }[]): Promise<void> {
    const w = await loadFixture(c.world);
    const token = w.token.connect(w.subscriber);
    await token.approve(w.turnpike, 0n);
    const permits = await Promise.all(SIGNED.map(([value, nonce]) => c.signPermit(w, w.subscriber, value, { nonce })));
    let [approval, used] = [0n, 0n];
    for (const { kind, which, bytes, value } of steps) {
      const permit = c.present(permits[which]);
      const holds = kind !== "forge" && SIGNED[which]?.[1] === used;
      if (kind === "approve") {
        await token.approve(w.turnpike, value);
        approval = value;
      } else if (kind === "submit") {
        const { deadline, v, r, s } = permit;
        const sent = w.token[c.PERMIT_VRS](w.subscriber, w.turnpike, permit.value, deadline, v, r, s);
        if (holds) [approval, used] = [permit.value, used + 1n];
        await (holds ? sent : expect(sent).to.be.reverted);
      } else {
        const given = kind === "forge" ? { value, deadline: c.FOREVER, signature: bytes } : permit;
        const available = holds ? permit.value : approval;
        const secretHash = c.freshSecretHash();
        const says = { planId: w.planId, secretHash, maxOverage: 0n, deadline: c.FOREVER };
        const signature = await c.sign(w, w.subscriber, "Subscribe", { subscriber: w.subscriber.address, ...says });
        const send = () =>
          w.turnpike.subscribe(
            ...c.signupArgs(
              w.subscriber,
              { planId: w.planId, secretHash },
              { permit: given, deadline: c.FOREVER, signature },
            ),
            GAS,
          );
        const suffices = available >= c.PRICE;
        expect(await errorOf(w, send)).to.equal(suffices ? "" : "InsufficientApproval");
        if (suffices) [approval, used] = [available - c.PRICE, holds ? used + 1n : used];
        const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
        expect(await w.turnpike.statusOf(idHash)).to.equal(suffices ? c.Status.ACTIVE : c.Status.NONE);
      }
      expect(await w.token.allowance(w.subscriber, w.turnpike)).to.equal(approval);
      expect(await w.token.nonces(w.subscriber)).to.equal(used);
    }
  }
});

describe("One account that is provider, payee, operator and subscriber", () => {
  it("pays itself: it needs what it is charged, keeps it, and its records go on as anyone's", async () => {
    const w = await loadFixture(c.world);
    const me = w.stranger;
    const mine = w.turnpike.connect(me);
    const planId = await c.createPlan(w, { payTo: me.address }, me);
    await w.token.connect(me).approve(w.turnpike, c.FOREVER);
    await w.token.mint(me, c.PRICE - 1n);
    const short = mine.subscribe(...c.signupArgs(me, { planId, secretHash: c.freshSecretHash() }));
    await expect(short)
      .to.be.revertedWithCustomError(w.turnpike, "InsufficientFunds")
      .withArgs(me.address, await w.token.getAddress(), c.PRICE, c.PRICE - 1n);
    await w.token.mint(me, 1n);

    const s = await c.subscribe(w, { planId, maxOverage: c.PRICE, subscriber: me });
    await mine.debit(s.idHash, c.PRICE, 0n);
    await c.at(s.paidThrough, () => mine.renew(s.idHash));
    const due = s.paidThrough + c.INTERVAL;
    expect(await c.paidThroughOf(w, s.idHash)).to.equal(due);
    // What its one key proposes is confirmed by nobody; what it accepts of itself changes nothing.
    for (let again = 0; again < 2; again += 1) await mine.proposePayTo(planId, w.relayer);
    expect((await w.lens.getPlan(planId)).terms.payTo).to.equal(me.address);
    await mine.offerPlan(planId, me);
    await mine.acceptPlan(planId);
    expect((await w.lens.getPlan(planId)).proposedPayTo).to.equal(ZeroAddress);
    // It may cancel at once as the subscriber, and does so with a version.
    await mine.cancel(s.idHash, false, c.NO_AUTH);
    expect((await w.lens.getSubscription(s.idHash)).version).to.equal(1n);
    expect(await w.token.balanceOf(me)).to.equal(c.PRICE);
  });
});

describe("Terms that differ in several fields", () => {
  it("are refused by the first of token, payTo, amount, interval and unit", async () => {
    const w = await loadFixture(c.world);
    const next = await c.createPlan(w, { amount: DEARER, months: true, interval: 1 });
    const s = await c.subscribe(w);
    const own = await c.shownOf(w, next);
    const wrong = [
      ["token", { token: w.stranger.address }],
      ["payTo", { payTo: w.stranger.address }],
      ["amount", { amount: c.PRICE }],
      ["interval", { interval: 2n }],
      ["unit", { months: false }],
    ] as const;
    for (let some = 1; some < 2 ** wrong.length; some += 1) {
      const differing = wrong.filter((_, i) => (some >> i) & 1);
      const shown = Object.assign({}, own, ...differing.map(([, field]) => field));
      await expect(w.turnpike.connect(w.subscriber).setNext(s.idHash, 0n, next, shown, c.NO_AUTH), `${some}`)
        .to.be.revertedWithCustomError(w.turnpike, "TermsDiffer")
        .withArgs(next, differing[0]?.[0]);
    }
    expect((await w.lens.getSubscription(s.idHash)).version).to.equal(0n);
  });
});

describe("A stop in the second of another act", () => {
  interface Scene extends c.World {
    readonly other: string;
    readonly idHash: string;
    readonly paidThrough: number;
  }

  async function scene(): Promise<Scene> {
    const w = await c.world();
    const other = await c.createPlan(w, { amount: DEARER });
    return { ...w, other, ...(await c.subscribe(w, { maxOverage: 9n })) };
  }

  /** What charges on the plan that is stopped, how long after paidThrough, and how much. */
  const CHARGES: Record<string, [number, bigint, (w: Scene) => Promise<ContractTransactionResponse>]> = {
    "a renewal": [0, c.PRICE, (w) => w.turnpike.renew(w.idHash, GAS)],
    "a late renewal": [c.INTERVAL - 1, c.PRICE, (w) => w.turnpike.renew(w.idHash, GAS)],
    "a resumption": [
      c.INTERVAL,
      c.PRICE,
      (w) => w.turnpike.connect(w.subscriber).resume(w.idHash, c.FOREVER, c.NO_AUTH, GAS),
    ],
    "a debit": [-1, 9n, (w) => w.turnpike.connect(w.operator).debit(w.idHash, 9n, 0n, GAS)],
    "a debit in grace": [c.GRACE - 1, 9n, (w) => w.turnpike.connect(w.operator).debit(w.idHash, 9n, 0n, GAS)],
    "a signup": [
      -1,
      c.PRICE,
      (w) =>
        w.turnpike
          .connect(w.subscriber)
          .subscribe(...c.signupArgs(w.subscriber, { planId: w.planId, secretHash: ZeroHash }), GAS),
    ],
  };

  for (const [name, [after, amount, charge]] of Object.entries(CHARGES)) {
    it(`comes before or after ${name}: the one that is first decides`, async () => {
      for (const isStopFirst of [true, false]) {
        const w = await loadFixture(scene);
        const second = w.paidThrough + after;
        const stop = () => w.turnpike.connect(w.provider).stopPlan(w.planId, GAS);
        const funds = await w.token.balanceOf(w.subscriber);
        if (isStopFirst) await c.at(second, stop);
        await time.setNextBlockTimestamp(second);
        expect(await errorOf(w, () => charge(w))).to.equal(isStopFirst ? "PlanStopped" : "");
        if (!isStopFirst) await c.at(second, stop);
        expect(funds - (await w.token.balanceOf(w.subscriber))).to.equal(isStopFirst ? 0n : amount);
        const isPaid = second < (await c.paidThroughOf(w, w.idHash));
        expect(await w.turnpike.statusOf(w.idHash)).to.equal(isPaid ? c.Status.ACTIVE : c.Status.CANCELLED);
      }
    });
  }

  it("lets a change out of the plan through in both orders, and a scheduled one in one alone", async () => {
    for (const isStopFirst of [true, false]) {
      const w = await loadFixture(scene);
      const stop = () => w.turnpike.connect(w.provider).stopPlan(w.planId, GAS);
      const change = () =>
        w.turnpike.connect(w.subscriber).changePlan(w.idHash, w.other, 0n, c.FOREVER, c.NO_AUTH, GAS);
      for (const act of isStopFirst ? [stop, change] : [change, stop]) await c.at(w.paidThrough - 1, act);
      expect((await c.recordOf(w, w.idHash)).planId).to.equal(w.other);

      const again = await loadFixture(scene);
      await setNext(again, again.idHash, 0n, again.other);
      const stopAgain = () => again.turnpike.connect(again.provider).stopPlan(again.planId, GAS);
      const renew = () => again.turnpike.renew(again.idHash, GAS);
      if (isStopFirst) await c.at(again.paidThrough, stopAgain);
      await time.setNextBlockTimestamp(again.paidThrough);
      expect(await errorOf(again, renew)).to.equal(isStopFirst ? "PlanStopped" : "");
      if (!isStopFirst) await c.at(again.paidThrough, stopAgain);
      // Nothing is charged on the plan that is stopped from then on, and the other one goes on.
      expect(await again.turnpike.statusOf(again.idHash)).to.equal(isStopFirst ? c.Status.CANCELLED : c.Status.ACTIVE);
    }
  });

  it("leaves a record whose change into the plan was scheduled to its subscriber, also after its expiry", async () => {
    const w = await loadFixture(scene);
    const s = await c.subscribe(w, { planId: w.other });
    await setNext(w, s.idHash, 0n, w.planId);
    await w.turnpike.connect(w.provider).stopPlan(w.planId);
    const me = w.turnpike.connect(w.subscriber);
    const funds = await w.token.balanceOf(w.subscriber);
    for (const after of [0, c.GRACE, c.INTERVAL - 1]) {
      await time.setNextBlockTimestamp(s.paidThrough + after);
      expect(await errorOf(w, () => w.turnpike.renew(s.idHash, GAS))).to.equal("PlanStopped");
    }
    await time.increaseTo(s.paidThrough + c.INTERVAL);
    expect(await w.turnpike.statusOf(s.idHash)).to.equal(c.Status.EXPIRED);
    expect(await errorOf(w, () => me.resume(s.idHash, c.FOREVER, c.NO_AUTH, GAS))).to.equal("PlanStopped");
    expect(await w.token.balanceOf(w.subscriber)).to.equal(funds);
    await setNext(w, s.idHash, 0n, ZeroHash);
    await expect(me.resume(s.idHash, DEARER, c.NO_AUTH)).to.changeTokenBalance(w.token, w.subscriber, -DEARER);
  });
});
