// Parties that act in the middle of a charge, by a token that calls its payer and its payee as ERC-777 does. What they
// do there has the same effect as right after the charge, in the same transaction.

import { setBalance, takeSnapshot, time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { type TransactionResponse, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import type { HookedAccount } from "../../sdk/src/chain/generated";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfManyCases } from "./support/deployed-code";
import { FAR, NO_TERMS } from "./support/signups";

const MUCH = 1_000n * c.PRICE;

/** A subscriber and a seller (provider and payee) whose accounts act when the token calls them. */
async function parties() {
  const w = await c.world();
  const token = await ethers.deployContract("HookedToken");
  const account = async () => {
    const code = await ethers.deployContract("HookedAccount", [w.stranger.address]);
    await setBalance(await code.getAddress(), 10n ** 20n);
    return { code, signer: await ethers.getImpersonatedSigner(await code.getAddress()) };
  };
  const [me, seller] = [await account(), await account()];
  await token.mint(me.code, MUCH);
  await token.connect(me.signer).approve(w.turnpike, c.FOREVER);
  const terms = { token: await token.getAddress(), payTo: await seller.code.getAddress() };
  const planId = await c.createPlan(w, terms, seller.signer);
  const dear = await c.createPlan(w, { ...terms, amount: 3n * c.PRICE }, seller.signer);
  const monthly = await c.createPlan(w, { ...terms, interval: 1, months: true, amount: 2n * c.PRICE }, seller.signer);
  for (const id of [planId, dear, monthly]) await w.turnpike.connect(seller.signer).setOperator(id, me.code, 1n);
  // It can be applied from the first renewal on.
  await w.turnpike.connect(seller.signer).proposePayTo(planId, w.stranger);
  const s = await c.subscribe(w, { planId, maxOverage: 100n, subscriber: me.signer });
  return { w, token, me, seller, planId, dear, monthly, s };
}

type Parties = Awaited<ReturnType<typeof parties>>;
type Calls = Record<string, (p: Parties) => string>;

const call = (p: Parties) => p.w.turnpike.interface.encodeFunctionData.bind(p.w.turnpike.interface);
const monthlyOf = ({ token, seller }: Parties) => ({
  token: token.target,
  payTo: seller.code.target,
  amount: 2n * c.PRICE,
  interval: 1,
  months: true,
});
const secret = ethers.id("a secret of the test");
const other = ethers.id("another secret");

/** What charges, as a call of the subscriber that is also an operator, and when it is made. */
const CHARGES: Calls = {
  subscribe: (p) =>
    call(p)("subscribe", c.signupArgs(p.me.signer.address, { planId: p.planId, secretHash: secret, maxOverage: 5n })),
  renew: (p) => call(p)("renew", [p.s.idHash]),
  resume: (p) => call(p)("resume", [p.s.idHash, c.FOREVER, c.NO_AUTH]),
  changePlan: (p) => call(p)("changePlan", [p.s.idHash, p.dear, 7n, c.FOREVER, c.NO_AUTH]),
  debit: (p) => call(p)("debit", [p.s.idHash, 60n, 0n]),
};

const ACTS: Calls = {
  pause: (p) => call(p)("pause", [p.s.idHash, c.NO_AUTH]),
  resume: (p) => call(p)("resume", [p.s.idHash, c.FOREVER, c.NO_AUTH]),
  "cancel at once": (p) => call(p)("cancel", [p.s.idHash, false, c.NO_AUTH]),
  "cancel at the period's end": (p) => call(p)("cancel", [p.s.idHash, true, c.NO_AUTH]),
  "change to the dearer plan": (p) => call(p)("changePlan", [p.s.idHash, p.dear, 1n, c.FOREVER, c.NO_AUTH]),
  "change to months": (p) => call(p)("changePlan", [p.s.idHash, p.monthly, 1n, c.FOREVER, c.NO_AUTH]),
  "schedule a change": (p) => call(p)("setNext", [p.s.idHash, 0n, p.monthly, monthlyOf(p), c.NO_AUTH]),
  "set an end": (p) => call(p)("setNext", [p.s.idHash, FAR, ZeroHash, NO_TERMS, c.NO_AUTH]),
  rekey: (p) => call(p)("rekey", [p.s.idHash, other, c.NO_AUTH]),
  "raise the cap": (p) => call(p)("setMaxOverage", [p.s.idHash, 1_000n, c.NO_AUTH]),
  "renew again": (p) => call(p)("renew", [p.s.idHash]),
  "debit the same index": (p) => call(p)("debit", [p.s.idHash, 1n, 0n]),
  "debit the next index": (p) => call(p)("debit", [p.s.idHash, 41n, 1n]),
  "subscribe with the same secret": (p) =>
    call(p)("subscribe", c.signupArgs(p.me.signer.address, { planId: p.planId, secretHash: secret })),
  "subscribe with another": (p) =>
    call(p)("subscribe", c.signupArgs(p.me.signer.address, { planId: p.planId, secretHash: other })),
  "void the secret": (p) => call(p)("void", [p.me.signer.address, secret, 0n, "0x"]),
  "apply the payee": (p) => call(p)("applyPayTo", [p.planId]),
};

const SELLERS: Calls = {
  "stop the plan": (p) => call(p)("stopPlan", [p.planId]),
  "cancel at the period's end": (p) => call(p)("cancel", [p.s.idHash, true, c.NO_AUTH]),
  debit: (p) => call(p)("debit", [p.s.idHash, 3n, 0n]),
  "renew again": (p) => call(p)("renew", [p.s.idHash]),
  "apply the payee": (p) => call(p)("applyPayTo", [p.planId]),
  "propose another payee": (p) => call(p)("proposePayTo", [p.planId, p.w.relayer.address]),
  "offer the plan": (p) => call(p)("offerPlan", [p.planId, p.w.relayer.address]),
  "deprecate the plan": (p) => call(p)("deprecatePlan", [p.planId, p.dear]),
  "give up its rights": (p) => call(p)("setOperator", [p.planId, p.w.provider.address, 0n]),
};

/** Brings the subscription to the time and the state in which `charge` works. */
async function prepare(p: Parties, charge: string): Promise<number> {
  if (charge === "resume") await p.w.turnpike.connect(p.me.signer).pause(p.s.idHash, c.NO_AUTH);
  const due = charge === "renew" || charge === "resume";
  return due ? p.s.paidThrough + 100 : p.s.paidThrough - c.INTERVAL + 8 * c.DAY;
}

/** Everything that the charge and the act can change. */
async function stateOf({ w, token, me, seller, planId, dear, monthly, s }: Parties) {
  const subscriber = await me.code.getAddress();
  const ids = [s.idHash];
  for (const hash of [secret, other]) ids.push(await w.turnpike.idHashOf(subscriber, hash));
  const holders = [me.code, seller.code, w.stranger, w.relayer];
  const states = await w.lens.getStates(ids);
  const plans = await w.lens.getPlans([planId, dear, monthly]);
  const balances = await Promise.all(holders.map((holder) => token.balanceOf(holder)));
  return JSON.stringify([states, plans, balances], (_, value) => (typeof value === "bigint" ? `${value}` : value));
}

/** Whether the account acted in the middle, and did so to an effect. */
async function didAct(sent: TransactionResponse, code: HookedAccount): Promise<boolean> {
  const receipt = c.present(await sent.wait());
  const own = receipt.logs.filter(({ address }) => address === code.target).map((log) => code.interface.parseLog(log));
  expect(own).to.have.length(1);
  return c.present(own[0]).args.ok as boolean;
}

describe("A token that calls its parties", () => {
  for (const [charge, chargeOf] of Object.entries(CHARGES)) {
    const cases = [
      ...Object.entries(ACTS).map(([name, act]) => ({ who: "me" as const, name, act })),
      ...Object.entries(SELLERS).map(([name, act]) => ({ who: "seller" as const, name, act })),
    ];
    itOfManyCases(`T20 a party that acts during "${charge}" gains nothing over acting right after it`, async () => {
      const p = await loadFixture(parties);
      const now = await prepare(p, charge);
      const before = await takeSnapshot();
      let acted = 0;
      for (const { who, name, act } of cases) {
        const { w, me } = p;
        const actor = p[who];
        const outer = chargeOf(p);
        const inner = act(p);
        // In one transaction, so at one time: the charge by the subscriber, then the act by its actor.
        await time.setNextBlockTimestamp(now);
        await ethers.provider.send("evm_setAutomine", [false]);
        const gas = { gasLimit: 1_000_000n, gasPrice: 10n ** 10n };
        const first = await me.signer.sendTransaction({ to: w.turnpike, data: outer, ...gas });
        const second = await actor.signer.sendTransaction({
          to: w.turnpike,
          data: inner,
          ...gas,
          gasPrice: 10n ** 9n * 5n,
        });
        await ethers.provider.send("evm_mine");
        await ethers.provider.send("evm_setAutomine", [true]);
        const ends = await Promise.all([first, second].map(({ hash }) => ethers.provider.getTransactionReceipt(hash)));
        expect(ends[0]?.status, `${charge} alone`).to.equal(1);
        const expected = { ok: ends[1]?.status === 1, state: await stateOf(p) };
        await before.restore();

        await actor.code.plant(w.turnpike, inner);
        await time.setNextBlockTimestamp(now);
        const sent = await me.signer.sendTransaction({ to: w.turnpike, data: outer, gasLimit: 2_000_000n });
        const ok = await didAct(sent, actor.code);
        expect({ ok, state: await stateOf(p) }, `${who}: ${name}`).to.deep.equal(expected);
        if (ok) acted += 1;
        await before.restore();
      }
      expect(acted, "acts that had an effect").to.be.greaterThan(8);
    });
  }

  for (const until of [0n, FAR]) {
    it(`T20 a payer that moves the payee in the middle of its permit pays the one that it signed (end ${until})`, async () => {
      const { w, token, me } = await loadFixture(parties);
      const terms = { token: await token.getAddress(), payTo: w.treasury.address };
      const planId = await c.createPlan(w, terms);
      await w.turnpike.connect(w.provider).proposePayTo(planId, w.relayer);
      await time.increase(7 * c.DAY);
      const permit = { value: c.FOREVER, deadline: c.FOREVER, signature: `0x${"11".repeat(65)}` };
      const subscriber = await me.code.getAddress();
      const owner = await ethers.getSigner(await me.code.owner());
      const bring = async (payTo: string) => {
        await me.code.plant(w.turnpike, w.turnpike.interface.encodeFunctionData("applyPayTo", [planId]));
        const signup = { planId, secretHash: c.freshSecretHash(), maxOverage: 0n, until };
        const signature = await c.sign(w, owner, "Subscribe", { subscriber, ...signup, payTo, deadline: c.FOREVER });
        return w.turnpike.subscribe(...c.signupArgs(subscriber, signup, { permit, deadline: c.FOREVER, signature }));
      };
      await expect(bring(w.treasury.address))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
        .withArgs(subscriber);
      await expect(bring(w.relayer.address)).to.changeTokenBalances(token, [w.treasury, w.relayer], [0n, c.PRICE]);
    });
  }

  it("T20 a payer that takes its money or its approval away in the middle pays, or nothing happens at all", async () => {
    const p = await loadFixture(parties);
    const { w, token, me, s } = p;
    const before = await c.recordOf(w, s.idHash);
    for (const data of [
      token.interface.encodeFunctionData("approve", [await w.turnpike.getAddress(), 0n]),
      token.interface.encodeFunctionData("transfer", [w.relayer.address, MUCH - c.PRICE]),
    ]) {
      await me.code.plant(token, data);
      if ((await time.latest()) < s.paidThrough) await time.increaseTo(s.paidThrough);
      await expect(w.turnpike.renew(s.idHash)).to.be.revertedWithCustomError(w.turnpike, "TransferFailed");
      const reasons = await w.turnpike.renewBatch.staticCall([s.idHash]);
      expect(reasons).to.deep.equal([c.reasonOf(w, "TransferFailed")]);
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
    }
    await me.code.plant(me.code, "0x");
    await expect(w.turnpike.renew(s.idHash)).to.changeTokenBalance(token, me.code, -c.PRICE);
  });
});
