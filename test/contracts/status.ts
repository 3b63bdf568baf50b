// The table of standing, on chain and as a pure rule.

import { expect } from "chai";
import fc from "fast-check";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const { NONE, ACTIVE, PAST_DUE, EXPIRED, PAUSED, CANCELLED } = c.Status;
const P = 1_000_000;
const UINT40_MAX = 2 ** 40 - 1;
const UINT36_MAX = 2 ** 36 - 1;
const UINT32_MAX = 2 ** 32 - 1;

async function harness() {
  return ethers.deployContract("StandingHarness");
}

interface Rule {
  paidThrough: number;
  intro: boolean;
  limited: boolean;
  paused: boolean;
  ending: boolean;
  cancelled: boolean;
  until: number;
  anchorDay: number;
  interval: number;
  months: boolean;
  grace: number;
}

/** The table, said again in its own words, for a plan in seconds. */
function expected(r: Rule, t: number): { status: bigint; collectable: boolean } {
  const p = r.paidThrough;
  const over = r.ending || (r.limited && t >= r.until);
  if (r.cancelled || (over && t >= p)) return { status: CANCELLED, collectable: false };
  if (r.paused) return { status: PAUSED, collectable: false };
  if (t < p + r.grace) return { status: ACTIVE, collectable: t >= p && !r.ending };
  if (t < p + r.interval) return { status: PAST_DUE, collectable: true };
  return { status: EXPIRED, collectable: false };
}

describe("Standing", () => {
  const plain: Rule = {
    paidThrough: P,
    intro: false,
    limited: false,
    paused: false,
    ending: false,
    cancelled: false,
    until: 0,
    anchorDay: 0,
    interval: 1_000,
    months: false,
    grace: 100,
  };
  // Seconds relative to paidThrough: one before, at and one after each boundary.
  const rows: [string, Partial<Rule>, [number, bigint][]][] = [
    [
      "in order",
      {},
      [
        [-1, ACTIVE],
        [0, ACTIVE],
        [99, ACTIVE],
        [100, PAST_DUE],
        [101, PAST_DUE],
        [999, PAST_DUE],
        [1_000, EXPIRED],
        [1_001, EXPIRED],
      ],
    ],
    [
      "without grace",
      { grace: 0 },
      [
        [-1, ACTIVE],
        [0, PAST_DUE],
        [1, PAST_DUE],
        [999, PAST_DUE],
        [1_000, EXPIRED],
      ],
    ],
    [
      "paused",
      { paused: true },
      [
        [-1, PAUSED],
        [0, PAUSED],
        [100, PAUSED],
        [1_000, PAUSED],
      ],
    ],
    [
      "ending",
      { ending: true },
      [
        [-1, ACTIVE],
        [0, CANCELLED],
        [1, CANCELLED],
        [1_000, CANCELLED],
      ],
    ],
    [
      "paused and ending",
      { paused: true, ending: true },
      [
        [-1, PAUSED],
        [0, CANCELLED],
        [1_000, CANCELLED],
      ],
    ],
    [
      "limited within the paid period",
      { limited: true, until: P - 5 },
      [
        [-6, ACTIVE],
        [-5, ACTIVE],
        [-1, ACTIVE],
        [0, CANCELLED],
        [1, CANCELLED],
      ],
    ],
    [
      "limited at the end of the paid period",
      { limited: true, until: P },
      [
        [-1, ACTIVE],
        [0, CANCELLED],
        [1, CANCELLED],
      ],
    ],
    [
      "limited within grace",
      { limited: true, until: P + 50 },
      [
        [0, ACTIVE],
        [49, ACTIVE],
        [50, CANCELLED],
        [51, CANCELLED],
        [1_000, CANCELLED],
      ],
    ],
    [
      "limited after grace",
      { limited: true, until: P + 500 },
      [
        [99, ACTIVE],
        [100, PAST_DUE],
        [499, PAST_DUE],
        [500, CANCELLED],
        [501, CANCELLED],
      ],
    ],
    [
      "limited after it expired, while paused too",
      { limited: true, paused: true, until: P + 1_500 },
      [
        [-1, PAUSED],
        [1_499, PAUSED],
        [1_500, CANCELLED],
      ],
    ],
    [
      "limited without an end in sight",
      { limited: true, until: UINT40_MAX },
      [
        [0, ACTIVE],
        [100, PAST_DUE],
        [1_000, EXPIRED],
      ],
    ],
    [
      "not limited, whatever end is left over",
      { limited: false, until: P - 5 },
      [
        [-1, ACTIVE],
        [0, ACTIVE],
        [100, PAST_DUE],
      ],
    ],
    [
      "an introduction",
      { intro: true },
      [
        [-1, ACTIVE],
        [0, ACTIVE],
        [100, PAST_DUE],
        [1_000, EXPIRED],
      ],
    ],
    [
      "cancelled",
      { cancelled: true },
      [
        [-1, CANCELLED],
        [0, CANCELLED],
        [1_000, CANCELLED],
      ],
    ],
    [
      "cancelled while paused",
      { cancelled: true, paused: true },
      [
        [-1, CANCELLED],
        [1_000, CANCELLED],
      ],
    ],
  ];
  for (const [title, change, moments] of rows) {
    it(`agrees with the table when ${title}`, async () => {
      const rules = await loadFixture(harness);
      for (const [after, status] of moments) {
        expect((await rules.judge({ ...plain, ...change }, P + after)).status, `${after} s after`).to.equal(status);
      }
    });
  }

  it("knows an unknown record at any time", async () => {
    const rules = await loadFixture(harness);
    for (const t of [0, 1, P, UINT40_MAX]) {
      expect([...(await rules.unknown(t))]).to.deep.equal([NONE, 0n]);
    }
  });

  it("L19 agrees with the table for any record and time, in status, service and what can be collected", async () => {
    const rules = await loadFixture(harness);
    const record = fc
      .record({
        paidThrough: fc.integer({ min: 1, max: UINT36_MAX - 2 * UINT32_MAX }),
        intro: fc.boolean(),
        limited: fc.boolean(),
        paused: fc.boolean(),
        ending: fc.boolean(),
        cancelled: fc.boolean(),
        interval: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: UINT32_MAX })),
        grace: fc.nat(UINT32_MAX),
        untilAfter: fc.oneof(fc.integer({ min: -5, max: 5 }), fc.nat(UINT32_MAX)),
      })
      .map(({ untilAfter, ...r }) => ({
        ...plain,
        ...r,
        grace: r.grace % r.interval,
        until: Math.max(1, r.paidThrough + untilAfter),
      }));
    // Near a boundary, more often than not: that is where rules break.
    const moment = (r: Rule) =>
      fc.oneof(
        fc
          .tuple(fc.constantFrom(0, r.grace, r.interval, r.until - r.paidThrough), fc.integer({ min: -2, max: 2 }))
          .map(([boundary, off]) => Math.max(0, r.paidThrough + boundary + off)),
        fc.integer({ min: 0, max: UINT40_MAX - UINT32_MAX }),
      );
    await fc.assert(
      fc.asyncProperty(
        record.chain((r) => moment(r).map((t) => ({ r, t }))),
        async ({ r, t }) => {
          const { status, nextBoundary } = await rules.judge(r, t);
          const want = expected(r, t);
          expect(status).to.equal(want.status);
          expect(nextBoundary).to.equal(BigInt(r.paidThrough + r.interval));
          const due = Math.max(t, r.paidThrough);
          const { start, end, anchor } = await rules.collect(r, due);
          const from = due < r.paidThrough + r.grace ? r.paidThrough : due - r.grace;
          expect([start, end, anchor]).to.deep.equal([BigInt(from), BigInt(from + r.interval), 0n]);
          // The short way of plain records finds out whether to collect, and the same end.
          const isPlain = !(r.intro || r.limited || r.paused || r.ending || r.cancelled);
          expect((await rules.collect(r, t)).plain).to.equal(isPlain && want.collectable ? end : 0n);
        },
      ),
      { numRuns: 500, seed: 1 },
    );
  });

  it("credits the rest of a period, rounded down, without overflow", async () => {
    const rules = await loadFixture(harness);
    const most = 2n ** 96n - 1n;
    const p = 2 * UINT32_MAX;
    const credit = (amount: bigint, rest: number, interval: number, intro = false) =>
      rules.creditFor({ ...plain, paidThrough: p, interval, intro }, amount, p - rest);
    expect(await credit(most, UINT32_MAX, UINT32_MAX)).to.equal(most);
    expect(await credit(most, UINT32_MAX - 1, UINT32_MAX)).to.equal(
      (most * BigInt(UINT32_MAX - 1)) / BigInt(UINT32_MAX),
    );
    expect(await credit(10n, 1, 3)).to.equal(3n);
    expect(await credit(10n, 0, 3)).to.equal(0n);
    expect(await credit(10n, 3, 3, true)).to.equal(0n);
  });
});

describe("Turnpike > statusOf", () => {
  it("A35 goes from ACTIVE by PAST_DUE to EXPIRED when nothing is paid, without any debt", async () => {
    const w = await loadFixture(c.world);
    const s = await c.subscribe(w);
    await w.token.connect(w.subscriber).approve(w.turnpike, 0n);
    const moments: [number, bigint][] = [
      [-1, ACTIVE],
      [0, ACTIVE],
      [c.GRACE - 1, ACTIVE],
      [c.GRACE, PAST_DUE],
      [c.INTERVAL - 1, PAST_DUE],
      [c.INTERVAL, EXPIRED],
      [5 * c.INTERVAL, EXPIRED],
    ];
    for (const [after, status] of moments) {
      // A call sees the pending block, which may not be earlier than the latest: so look at the mined block itself.
      await c.statusAt(w, s.idHash, s.paidThrough + after);
      const block = await ethers.provider.getBlockNumber();
      expect(await w.turnpike.statusOf(s.idHash, { blockTag: block }), `${after} s after`).to.equal(status);
    }
    expect(await c.paidThroughOf(w, s.idHash)).to.equal(s.paidThrough);
    expect(await w.turnpike.statusOf(ethers.ZeroHash)).to.equal(NONE);
  });
});
