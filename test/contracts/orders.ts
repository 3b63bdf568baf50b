// A subscriber's acts in every order, and what is left of each: the end, the scheduled change, the plan and the secret.

import { takeSnapshot, time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { ZeroHash } from "ethers";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfManyCases } from "./support/deployed-code";
import { FAR, setNext } from "./support/signups";

/** What the record should say, by the rules alone. */
interface Expected {
  idHash: string;
  planId: string;
  until: bigint;
  nextPlanId: string;
  dead: string[];
}

interface Act {
  name: string;
  send(w: c.World, idHash: string): Promise<unknown>;
  apply(was: Expected): Partial<Expected>;
}

function permutations<T>(list: readonly T[]): T[][] {
  if (list.length === 0) return [[]];
  return list.flatMap((first, i) => permutations(list.toSpliced(i, 1)).map((rest) => [first, ...rest]));
}

async function subscribed() {
  const w = await c.world();
  const dear = await c.createPlan(w, { amount: 4n * c.PRICE });
  const cheap = await c.createPlan(w, { amount: 1n, interval: 1, months: true });
  const secretHash = c.freshSecretHash();
  const fresh = await w.turnpike.idHashOf(w.subscriber, secretHash);
  return { w, dear, cheap, secretHash, fresh, s: await c.subscribe(w, { maxOverage: 5n }) };
}

describe("Acts of a subscriber, in every order", () => {
  itOfManyCases(
    "T22 each order of an end, a scheduled change, a plan change, a new secret and a pause leaves what the rules say",
    async () => {
      const { w, dear, cheap, secretHash, fresh, s } = await loadFixture(subscribed);
      const me = w.turnpike.connect(w.subscriber);
      const acts: Act[] = [
        {
          name: "end and change",
          send: (_, id) => setNext(w, id, FAR, cheap),
          apply: () => ({ until: FAR, nextPlanId: cheap }),
        },
        {
          name: "change alone",
          send: (_, id) => setNext(w, id, 0n, cheap),
          apply: () => ({ until: 0n, nextPlanId: cheap }),
        },
        {
          name: "plan change",
          send: (_, id) => me.changePlan(id, dear, 5n, c.FOREVER, c.NO_AUTH),
          apply: () => ({ planId: dear, nextPlanId: ZeroHash }),
        },
        {
          name: "rekey",
          send: (_, id) => me.rekey(id, secretHash, c.NO_AUTH),
          apply: ({ idHash, dead }) => ({ idHash: fresh, dead: [...dead, idHash] }),
        },
        {
          name: "pause and resume",
          send: async (_, id) => {
            await me.pause(id, c.NO_AUTH);
            await me.resume(id, 0n, c.NO_AUTH);
          },
          apply: () => ({}),
        },
      ];
      const start = await takeSnapshot();
      for (const order of permutations(acts)) {
        const where = order.map(({ name }) => name).join(", ");
        let expected: Expected = { idHash: s.idHash, planId: w.planId, until: 0n, nextPlanId: ZeroHash, dead: [] };
        for (const act of order) {
          await act.send(w, expected.idHash);
          expected = { ...expected, ...act.apply(expected) };
        }
        const { idHash, planId, until, nextPlanId, dead } = expected;
        const record = await w.lens.getSubscription(idHash);
        expect([record.planId, record.until, record.nextPlanId], where).to.deep.equal([planId, until, nextPlanId]);
        const price = nextPlanId === cheap ? 1n : planId === dear ? 4n * c.PRICE : c.PRICE;
        await time.increaseTo(record.paidThrough);
        const batch = await w.turnpike.renewBatch.staticCall([...dead, idHash]);
        const refused = c.reasonOf(w, "SubscriptionNotActive");
        expect(batch, where).to.deep.equal([...dead.map(() => refused), "0x00000000"]);
        const sent = w.turnpike.renewBatch([...dead, idHash]);
        await expect(sent, where).to.changeTokenBalance(w.token, w.treasury, price);
        expect((await w.lens.getSubscription(idHash)).nextPlanId, where).to.equal(ZeroHash);
        await start.restore();
      }
    },
  );

  it("T22 an end that a rekey carried on ends the record under its new secret", async () => {
    const { w, secretHash, fresh, s } = await loadFixture(subscribed);
    const me = w.turnpike.connect(w.subscriber);
    await setNext(w, s.idHash, s.paidThrough + 1, ZeroHash);
    await me.rekey(s.idHash, secretHash, c.NO_AUTH);
    const before = await w.token.balanceOf(w.subscriber);
    await time.increaseTo(s.paidThrough + 1);
    expect(await w.turnpike.statusOf(fresh)).to.equal(c.Status.CANCELLED);
    for (const id of [s.idHash, fresh]) {
      await expect(w.turnpike.renew(id)).to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive");
      await expect(me.resume(id, c.FOREVER, c.NO_AUTH)).to.be.revertedWithCustomError(w.turnpike, "NothingToResume");
    }
    expect(await w.token.balanceOf(w.subscriber)).to.equal(before);
  });
});
