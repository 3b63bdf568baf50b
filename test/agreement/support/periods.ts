// The vector table of calendar periods, from JavaScript's own calendar. It uses no rule of the project's code: the
// contracts and the SDK are compared with it.

const FIRST_YEAR = 1970;
const LAST_YEAR = 2200;
/** Times of day, so that the date is not all that is compared: midnight, noon, the last second. */
const TIMES = [0, 43_200, 86_399];

interface Day {
  readonly year: number;
  /** From 0 on; more than 11 runs into the next year. */
  readonly month: number;
  readonly day: number;
}

function lastDay(year: number, month: number): number {
  return new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
}

/** Unix seconds of `day`, or of the last day of a shorter month, at a time of day. */
function at({ year, month, day }: Day, time: number): number {
  return Date.UTC(year, month, Math.min(day, lastDay(year, month))) / 1_000 + time;
}

/** Columns: start, months, anchor so far (0: none), end, anchor after. */
type Row = readonly [number, number, number, number, number];

/** A period that starts on `start` without an earlier anchor. */
function period(start: Day, months: number, time: number): Row {
  const end = at({ ...start, month: start.month + months }, time);
  return [at(start, time), months, 0, end, start.day];
}

/** A period that starts on the last day of a month and keeps a later anchor. */
function kept(year: number, month: number, anchor: number, months: number, time: number): Row {
  const start = at({ year, month, day: lastDay(year, month) }, time);
  return [start, months, anchor, at({ year, month: month + months, day: anchor }, time), anchor];
}

function rows(): Row[] {
  const all: Row[] = [];
  for (let year = FIRST_YEAR; year < LAST_YEAR; year += 1) {
    const time = TIMES[year % TIMES.length] ?? 0;
    // Into February, over the year's end, and a whole year from the leap day or the day before March.
    for (const day of [28, 29, 30, 31]) all.push(period({ year, month: 0, day }, 1, time));
    all.push(period({ year, month: 11, day: 31 }, 2, time));
    all.push(period({ year, month: 1, day: lastDay(year, 1) }, 12, time));
    all.push(period({ year, month: 2, day: 1 }, 1, time)); // the day after a leap day
    all.push(kept(year, 1, 31, 1, time));
    all.push(kept(year, 1, 30, 1, time));
    // An anchor that the month could have had is dropped.
    all.push([at({ year, month: 3, day: 15 }, time), 1, 31, at({ year, month: 4, day: 15 }, time), 15]);
  }
  for (const year of [1970, 1999, 2000, 2027, 2028, 2099, 2100]) {
    for (const [month, day] of [
      [0, 31],
      [1, 28],
      [7, 31],
      [11, 31],
    ] as const) {
      all.push(period({ year, month, day }, 1_200, 86_399));
    }
  }
  for (const year of [1972, 2000, 2096]) all.push(period({ year, month: 1, day: 29 }, 1_200, 0));
  return all;
}

interface Chain {
  readonly start: number;
  readonly months: number;
  readonly ends: number[];
}

/** Periods that follow each other, each end counted from the first day alone. */
function chain(start: Day, months: number, time: number, lastYear = LAST_YEAR): Chain {
  const ends: number[] = [];
  for (let n = months; start.month + n < (lastYear - start.year + 1) * 12; n += months) {
    ends.push(at({ ...start, month: start.month + n }, time));
  }
  return { start: at(start, time), months, ends };
}

function chains(): Chain[] {
  return [
    chain({ year: 1970, month: 0, day: 31 }, 1, 45_296),
    chain({ year: 2095, month: 0, day: 30 }, 1, 0, 2105),
    chain({ year: 2027, month: 0, day: 29 }, 1, 86_399, 2037),
    chain({ year: 1972, month: 1, day: 29 }, 12, 0),
    chain({ year: 2000, month: 1, day: 29 }, 12, 86_399),
    chain({ year: 2027, month: 10, day: 30 }, 3, 43_200),
    chain({ year: 2027, month: 7, day: 31 }, 6, 43_200),
    chain({ year: 1999, month: 11, day: 31 }, 13, 86_399),
    chain({ year: 1970, month: 0, day: 1 }, 1_200, 0),
  ];
}

/** The committed file: one row or chain on a line. */
export function periodsText(): string {
  const lines = (values: readonly unknown[]) => values.map((value) => `    ${JSON.stringify(value)}`).join(",\n");
  const about =
    "Calendar periods in UTC, in unix seconds. A row is one period; its anchor is the day of the month so far, 0 for " +
    "none. A chain has a start and the ends of the periods that follow each other.";
  return `{
  "about": ${JSON.stringify(about)},
  "columns": ["start", "months", "anchor", "end", "anchorAfter"],
  "rows": [
${lines(rows())}
  ],
  "chains": [
${lines(chains())}
  ]
}
`;
}
