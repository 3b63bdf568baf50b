// The SDK's arithmetic of periods beside the contract's: random histories of one subscription, with clock jumps to
// every kind of boundary, in which both must give the same status, period end and charge at every step. Neither copy
// can drift from the other. The laws themselves are Foundry's business (test/laws/Laws.t.sol).

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import fc from "fast-check";
import {
  isCollectable,
  lengthOf,
  nextBoundarySec,
  nextPeriodStart,
  type PeriodLength,
  periodFrom,
  quoteChange,
  STATUSES,
  type SubscriptionRecord,
  statusAt,
} from "turnpike/protocol";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

/** Histories to try; LAWS_RUNS raises it for the deep run. */
const RUNS = Number(process.env.LAWS_RUNS ?? 12);
const STEPS = 25;

interface Terms extends PeriodLength {
  readonly amount: bigint;
  readonly grace: number;
}

type LiveRecord = SubscriptionRecord & { readonly intro: boolean };

/** Of one provider, token and payee: a subscription may move between any two. */
const PLANS: readonly Terms[] = [
  { amount: 10_000_000n, ...lengthOf({ unit: "second", count: 30 * c.DAY }), grace: 3 * c.DAY },
  { amount: 7n, ...lengthOf({ unit: "second", count: 3_601 }), grace: 0 },
  { amount: 99_999_999n, ...lengthOf({ unit: "month", count: 12 }), grace: 27 * 12 * c.DAY },
  { amount: 2_500_000n, ...lengthOf({ unit: "month", count: 1 }), grace: 5 * c.DAY },
];

type Act =
  | { readonly kind: "renew" | "pause" | "resume" }
  | { readonly kind: "cancel"; readonly atPeriodEnd: boolean }
  | { readonly kind: "change"; readonly plan: number };

interface Step {
  readonly act: Act;
  /** the boundary to go to before the act, if it lies ahead, and how far beside it */
  readonly boundary: "stay" | "due" | "graceEnds" | "expires" | "inside";
  readonly besideSec: number;
}

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 5, arbitrary: fc.constant<Act>({ kind: "renew" }) },
  { weight: 2, arbitrary: fc.constant<Act>({ kind: "pause" }) },
  { weight: 4, arbitrary: fc.constant<Act>({ kind: "resume" }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("change" as const), plan: fc.nat(PLANS.length - 1) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("cancel" as const), atPeriodEnd: fc.boolean() }) },
);

const step: fc.Arbitrary<Step> = fc.record({
  act,
  boundary: fc.constantFrom("stay", "due", "graceEnds", "expires", "inside"),
  besideSec: fc.integer({ min: -1, max: 1 }),
});

/** What the SDK expects of the subscription. */
interface Expectation {
  readonly record: LiveRecord;
  readonly plan: number;
  readonly paid: bigint;
}

function termsOf(plan: number): Terms {
  return c.present(PLANS[plan]);
}

function clockOf({ record: r }: Expectation, { boundary, besideSec }: Step, nowSec: number): number {
  const at = {
    stay: nowSec,
    due: r.paidThroughSec,
    graceEnds: r.paidThroughSec + r.graceSec,
    expires: nextBoundarySec(r),
    inside: r.paidThroughSec + Math.floor(r.intervalSec / 3),
  }[boundary];
  return Math.max(nowSec + 1, at + besideSec);
}

/** What an act comes to by the SDK's rules; undefined where it must be refused. */
function expectedAfter(b: Expectation, act: Act, nowSec: number): Expectation | undefined {
  const { record, plan } = b;
  const { amount, ...length } = termsOf(plan);
  const status = statusAt(record, nowSec);
  const paidUntil = (startSec: number, paid = amount): Expectation => {
    const { endSec, anchorDay } = periodFrom(startSec, length, record.anchorDay);
    return { ...b, record: { ...record, paused: false, paidThroughSec: endSec, anchorDay }, paid: b.paid + paid };
  };
  switch (act.kind) {
    case "renew":
      return isCollectable(record, nowSec) ? paidUntil(nextPeriodStart(record, nowSec)) : undefined;
    case "pause":
      if (status !== "ACTIVE" || nowSec >= record.paidThroughSec) return undefined;
      return { ...b, record: { ...record, paused: true } };
    case "resume":
      if (status === "EXPIRED") return paidUntil(nowSec - record.graceSec);
      if (status !== "PAUSED") return undefined;
      return nowSec < record.paidThroughSec ? { ...b, record: { ...record, paused: false } } : paidUntil(nowSec);
    case "cancel":
      if (status === "CANCELLED") return undefined;
      return act.atPeriodEnd && nowSec < record.paidThroughSec
        ? { ...b, record: { ...record, ending: true } }
        : { ...b, record: { ...record, cancelled: true } };
    case "change": {
      if (status !== "ACTIVE" || record.ending || nowSec >= record.paidThroughSec || act.plan === plan)
        return undefined;
      const next = termsOf(act.plan);
      const { charge } = quoteChange(record, amount, next.amount, nowSec);
      if (charge === undefined) return undefined;
      const { intervalSec, months, grace: graceSec } = next;
      const { endSec: paidThroughSec, anchorDay } = periodFrom(nowSec, next, record.anchorDay);
      return {
        record: { ...record, paidThroughSec, anchorDay, intervalSec, months, graceSec },
        plan: act.plan,
        paid: b.paid + charge,
      };
    }
  }
}

async function fourPlans() {
  const w = await c.world();
  const planIds: string[] = [];
  for (const { amount, months, intervalSec, grace } of PLANS) {
    const terms = { amount, interval: months || intervalSec, months: months > 0, grace };
    planIds.push(await c.createPlan(w, terms));
  }
  await w.token.mint(w.subscriber, 10n ** 18n);
  return { w, planIds };
}

type Stage = Awaited<ReturnType<typeof fourPlans>>;

function send({ w, planIds }: Stage, idHash: string, act: Act) {
  const own = w.turnpike.connect(w.subscriber);
  switch (act.kind) {
    case "renew":
      return w.turnpike.connect(w.stranger).renew(idHash);
    case "pause":
      return own.pause(idHash, c.NO_AUTH);
    case "resume":
      return own.resume(idHash, c.FOREVER, c.NO_AUTH);
    case "cancel":
      return own.cancel(idHash, act.atPeriodEnd, c.NO_AUTH);
    case "change":
      return own.changePlan(idHash, c.present(planIds[act.plan]), 0, c.FOREVER, c.NO_AUTH);
  }
}

/** At a time that both know: the status; and for each plan to move to, the quote. */
async function agree({ w, planIds }: Stage, idHash: string, b: Expectation, nowSec: number): Promise<void> {
  const shown = await w.lens.getSubscription(idHash);
  expect(STATUSES[Number(shown.status)], "status").to.equal(statusAt(b.record, nowSec));
  expect(Number(shown.paidThrough), "paidThrough").to.equal(b.record.paidThroughSec);
  expect(Number(shown.anchorDay), "anchorDay").to.equal(b.record.anchorDay);
  expect(await w.token.balanceOf(w.treasury), "paid").to.equal(b.paid);
  for (const [plan, planId] of planIds.entries()) {
    const next = expectedAfter(b, { kind: "change", plan }, nowSec);
    const quote = await w.turnpike.quoteChange(idHash, planId).catch(() => undefined);
    expect(quote?.charge, `quote for plan ${plan}`).to.equal(next === undefined ? undefined : next.paid - b.paid);
  }
}

async function live(stage: Stage, firstPlan: number, steps: readonly Step[]): Promise<void> {
  const { w, planIds } = stage;
  const before = await w.token.balanceOf(w.treasury);
  const { idHash, paidThrough } = await c.subscribe(w, { planId: c.present(planIds[firstPlan]) });
  const { amount, intervalSec, months, grace } = termsOf(firstPlan);
  const flags = { known: true, cancelled: false, ending: false, paused: false, intro: false, untilSec: 0 };
  const { anchorDay } = await w.lens.getSubscription(idHash);
  let expectation: Expectation = {
    record: {
      ...flags,
      paidThroughSec: paidThrough,
      intervalSec,
      months,
      graceSec: grace,
      anchorDay: Number(anchorDay),
    },
    plan: firstPlan,
    paid: before + amount,
  };
  for (const { act, ...jump } of steps) {
    const nowSec = clockOf(expectation, { act, ...jump }, await time.latest());
    const next = expectedAfter(expectation, act, nowSec);
    await time.setNextBlockTimestamp(nowSec);
    const sent = send(stage, idHash, act).then(
      () => "done",
      () => "refused",
    );
    expect(await sent, `${act.kind} at ${nowSec}`).to.equal(next === undefined ? "refused" : "done");
    expectation = next ?? expectation;
    if ((await time.latest()) < nowSec) await time.increaseTo(nowSec);
    await agree(stage, idHash, expectation, nowSec);
  }
}

describe("Laws > model", () => {
  it("L19 L4 L6 L7 the SDK's periods and the contract's agree through any history", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(PLANS.length - 1),
        fc.array(step, { minLength: STEPS, maxLength: STEPS }),
        async (plan, steps) => live(await loadFixture(fourPlans), plan, steps),
      ),
      { numRuns: RUNS, seed: 0x7475726e, endOnFailure: true },
    );
  }).timeout(RUNS * 20_000);

  it("L19 distinguishes every status in the histories that it tries", () => {
    // The steps above must not pass by never leaving ACTIVE.
    const seen = new Set<string>();
    const record = { known: true, cancelled: false, ending: false, paused: false, intro: false, untilSec: 0 };
    const length = { ...lengthOf({ unit: "second", count: 30 * c.DAY }), anchorDay: 0 };
    fc.assert(
      fc.property(fc.array(step, { minLength: STEPS, maxLength: STEPS }), (steps) => {
        let expectation: Expectation = {
          record: { ...record, ...length, paidThroughSec: 1_000_000, graceSec: 3 * c.DAY },
          plan: 0,
          paid: 0n,
        };
        let nowSec = 999_999;
        for (const one of steps) {
          nowSec = clockOf(expectation, one, nowSec);
          seen.add(statusAt(expectation.record, nowSec));
          expectation = expectedAfter(expectation, one.act, nowSec) ?? expectation;
        }
      }),
      { numRuns: RUNS, seed: 0x7475726e },
    );
    expect([...seen].sort()).to.deep.equal(["ACTIVE", "CANCELLED", "EXPIRED", "PAST_DUE", "PAUSED"]);
  });
});
