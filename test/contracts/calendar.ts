// Calendar periods as pure rules, compared with the vector table and with JavaScript's calendar.

import { readFileSync } from "node:fs";
import { expect } from "chai";
import fc from "fast-check";
import { ethers } from "hardhat";
import { loadFixture } from "../support/fixture";
import { itOfManyCases } from "./support/deployed-code";
import { utc } from "./support/signups";

interface Vectors {
  rows: [start: number, months: number, anchor: number, end: number, anchorAfter: number][];
  chains: { start: number; months: number; ends: number[] }[];
}

const DAY = 86_400;
const MAX_MONTHS = 1_200;
const { rows, chains } = JSON.parse(readFileSync("docs/reference/vectors/periods.json", "utf8")) as Vectors;

async function harness() {
  return ethers.deployContract("StandingHarness");
}

function dateOf(timeSec: number): { year: number; month: number; day: number; last: number } {
  const date = new Date(timeSec * 1_000);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth() + 1];
  return { year, month, day: date.getUTCDate(), last: new Date(Date.UTC(year, month, 0)).getUTCDate() };
}

describe("Standing > months", () => {
  itOfManyCases("ends each period of the vector table where a date library does", async () => {
    const rules = await loadFixture(harness);
    for (const [start, months, anchor, end, anchorAfter] of rows) {
      const found = await rules.periodFrom(start, months, true, anchor);
      expect([found.end, found.newAnchor], `${months} months from ${start}`).to.deep.equal([
        BigInt(end),
        BigInt(anchorAfter),
      ]);
    }
  });

  itOfManyCases("follows each chain of the vector table without drifting from its first day", async () => {
    const rules = await loadFixture(harness);
    for (const { start, months, ends } of chains) {
      let [from, anchor] = [BigInt(start), 0n];
      const found: number[] = [];
      for (const _ of ends) {
        const period = await rules.periodFrom(from, months, true, anchor);
        [from, anchor] = [period.end, period.newAnchor];
        found.push(Number(from));
      }
      expect(found, `${months} months from ${start}`).to.deep.equal(ends);
    }
  });

  it("finds month, day and length of every day that a record can hold, as JavaScript's calendar does", async () => {
    const rules = await loadFixture(harness);
    const march0 = (year: number, month: number) => BigInt(year * 12 + month - 3);
    const check = async (day: number) => {
      const { year, month, day: dayOfMonth, last } = dateOf(day * DAY);
      const found = await rules.monthOf(day);
      expect([...found], `day ${day}`).to.deep.equal([march0(year, month), BigInt(dayOfMonth), BigInt(last)]);
    };
    // Both sides of each turn of a leap year, a century and an era, and the last day of the type.
    for (const year of [1970, 1971, 1972, 1999, 2000, 2001, 2099, 2100, 2101, 2199, 2200, 2400, 4000, 4147]) {
      for (const day of [utc(year, 1, 1), utc(year, 2, 28), utc(year, 3, 1), utc(year, 12, 31)]) {
        for (const off of [-1, 0, 1]) if (day / DAY + off >= 0) await check(day / DAY + off);
      }
    }
    await check(Math.floor((2 ** 36 - 1) / DAY));
    await fc.assert(fc.asyncProperty(fc.nat(Math.floor((2 ** 36 - 1) / DAY)), check), { numRuns: 300, seed: 1 });
  });

  itOfManyCases("ends no later start on an earlier date", async () => {
    const rules = await loadFixture(harness);
    const starts = fc.record({
      start: fc.integer({ min: utc(1970, 1, 1), max: utc(2200, 1, 1) }),
      later: fc.oneof(fc.integer({ min: 0, max: 3 * DAY }), fc.integer({ min: 0, max: 400 * DAY })),
      months: fc.oneof(fc.integer({ min: 1, max: 13 }), fc.integer({ min: 1, max: MAX_MONTHS })),
    });
    await fc.assert(
      fc.asyncProperty(starts, async ({ start, later, months }) => {
        const [early, late] = [
          await rules.periodFrom(start, months, true, 0),
          await rules.periodFrom(start + later, months, true, 0),
        ];
        expect(Number(late.end) / DAY).to.be.at.least(Math.floor(Number(early.end) / DAY));
      }),
      { numRuns: 400, seed: 1 },
    );
    // By time of day it can: the next day's start in the early hours has a month of the same last day.
    const [late, early] = [
      await rules.periodFrom(utc(2027, 1, 30, 23), 1, true, 0),
      await rules.periodFrom(utc(2027, 1, 31, 1), 1, true, 0),
    ];
    expect([late.end, early.end]).to.deep.equal([BigInt(utc(2027, 2, 28, 23)), BigInt(utc(2027, 2, 28, 1))]);
  });

  it("keeps a larger anchor from a month's last day alone, and takes the day of any other start", async () => {
    const rules = await loadFixture(harness);
    for (const [start, anchor, end, after] of [
      [utc(2027, 2, 28, 0, 0, 1), 31, utc(2027, 3, 31, 0, 0, 1), 31], // one late second
      [utc(2028, 2, 28, 0, 0, 1), 31, utc(2028, 3, 28, 0, 0, 1), 28], // not the last day of a leap year's February
      [utc(2028, 2, 29), 31, utc(2028, 3, 31), 31],
      [utc(2027, 3, 1), 31, utc(2027, 4, 1), 1],
      [utc(2027, 4, 30), 31, utc(2027, 5, 31), 31],
      [utc(2027, 4, 29), 31, utc(2027, 5, 29), 29],
      [utc(2027, 3, 31), 28, utc(2027, 4, 30), 31], // a smaller one is never kept
      [utc(2027, 2, 28), 28, utc(2027, 3, 28), 28],
    ] as const) {
      const found = await rules.periodFrom(start, 1, true, anchor);
      expect([found.end, found.newAnchor], `${start}, anchor ${anchor}`).to.deep.equal([BigInt(end), BigInt(after)]);
    }
  });

  it("drops the anchor in seconds, and counts them", async () => {
    const rules = await loadFixture(harness);
    expect([...(await rules.periodFrom(utc(2027, 1, 31), 5, false, 31))]).to.deep.equal([
      BigInt(utc(2027, 1, 31) + 5),
      0n,
    ]);
  });

  it("credits the rest of a month by that month's own length, and nothing of an introduction", async () => {
    const rules = await loadFixture(harness);
    const amount = 2n ** 96n - 1n;
    for (const [paidThrough, anchorDay, interval, days] of [
      [utc(2027, 2, 28, 12), 31, 1, 28],
      [utc(2027, 3, 31, 12), 31, 1, 31],
      [utc(2028, 2, 29, 12), 30, 1, 30],
      [utc(2027, 5, 15, 12), 15, 3, 89],
      [utc(2029, 2, 28, 12), 29, 12, 365],
      [utc(2028, 2, 29, 12), 29, 12, 366],
    ] as const) {
      const record = {
        paidThrough,
        anchorDay,
        interval,
        months: true,
        grace: 0,
        until: 0,
        intro: false,
        limited: false,
        paused: false,
        ending: false,
        cancelled: false,
      };
      const length = BigInt(days * DAY);
      for (const rest of [0n, 1n, length / 2n, length - 1n, length]) {
        const credit = await rules.creditFor(record, amount, BigInt(paidThrough) - rest);
        expect(credit, `${days} days, ${rest} s left`).to.equal((amount * rest) / length);
      }
      expect(await rules.creditFor({ ...record, intro: true }, amount, paidThrough - 1)).to.equal(0n);
    }
  });
});
