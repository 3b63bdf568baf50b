/** Formats figures for people. Amounts are base units in decimal text and never become a float. */

/** Formats `"1234500"` at 6 decimals as `1.2345`, with at least two digits after the point and no more than needed. */
export function formatAmount(baseUnits: string, decimals: number): string {
  const negative = baseUnits.startsWith("-");
  const digits = (negative ? baseUnits.slice(1) : baseUnits).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = decimals === 0 ? "" : digits.slice(-decimals).replace(/0+$/, "").padEnd(Math.min(2, decimals), "0");
  return `${negative ? "−" : ""}${group(whole)}${fraction && `.${fraction}`}`;
}

/** The symbol of a token: before the amount for a dollar, otherwise after it. */
export interface Unit {
  readonly sign: string;
  readonly name: string;
  readonly decimals: number;
}

/** Tokens choose their own names; one that calls itself a dollar is written as one. */
export function unitOf(tokenName: string, decimals: number): Unit {
  const isDollar = /usd|dollar/i.test(tokenName);
  return { sign: isDollar ? "$" : "", name: isDollar ? "" : tokenName.slice(0, 12), decimals };
}

export function formatMoney(baseUnits: string, { sign, name, decimals }: Unit): string {
  const amount = formatAmount(baseUnits, decimals);
  const signed = amount.startsWith("−") ? `−${sign}${amount.slice(1)}` : `${sign}${amount}`;
  return name === "" ? signed : `${signed} ${name}`;
}

/** Formats to the cent, and below a dollar to four digits: for sums that need not add up exactly. */
export function formatMoneyShort(baseUnits: string, unit: Unit): string {
  const whole = 10n ** BigInt(unit.decimals);
  const value = BigInt(baseUnits);
  const keep = value < whole && value > -whole ? 4 : 2;
  if (unit.decimals <= keep) return formatMoney(baseUnits, unit);
  const step = 10n ** BigInt(unit.decimals - keep);
  const half = value < 0n ? -step / 2n : step / 2n;
  return formatMoney((((value + half) / step) * step).toString(), unit);
}

/** Adds base units. */
export const addAmounts = (amounts: readonly string[]): string =>
  amounts.reduce((sum, amount) => sum + BigInt(amount), 0n).toString();

/** For an axis or a bar's height only: loses digits. */
export function toNumber(baseUnits: string, decimals: number): number {
  return Number(baseUnits) / 10 ** decimals;
}

export function formatCount(count: number): string {
  return group(String(count));
}

/** Only before the point. */
const grouped = (decimal: string): string => decimal.replace(/^\d+/, group);

const group = (digits: string): string => digits.replace(/\B(?=(\d{3})+$)/g, ",");

/** `1 payment`, `2 payments` */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** Axis labels: 1.2k, 3.4M. */
export function formatShort(value: number): string {
  if (Math.abs(value) >= 1e15) return value.toExponential(1).replace("e+", "e");
  for (const [size, suffix] of [
    [1e12, "T"],
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(value) >= size) return `${trim((value / size).toFixed(1))}${suffix}`;
  }
  return trim(value.toFixed(2));
}

const trim = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `21 Nov 2026`, in UTC like every time in the dashboard */
export function formatDate(timeSec: number): string {
  const at = new Date(timeSec * 1_000);
  return `${formatDay(timeSec)} ${at.getUTCFullYear()}`;
}

/** `21 Nov` */
export function formatDay(timeSec: number): string {
  const at = new Date(timeSec * 1_000);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
}

/** `Nov 2026` */
export function formatMonth(timeSec: number): string {
  const at = new Date(timeSec * 1_000);
  return `${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
}

/** `14:05` */
export function formatHour(timeSec: number): string {
  return new Date(timeSec * 1_000).toISOString().slice(11, 16);
}

export function formatTime(timeSec: number): string {
  return `${formatDate(timeSec)} ${formatHour(timeSec)}`;
}

/** `21 Nov 2026 14:05:09` */
export function formatMoment(timeSec: number): string {
  return `${formatDate(timeSec)} ${new Date(timeSec * 1_000).toISOString().slice(11, 19)}`;
}

const SIZES = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
] as const;

export function formatInterval(seconds: number): string {
  for (const [unit, size] of SIZES) {
    if (seconds % size === 0 && seconds >= size) return plural(seconds / size, unit);
  }
  return `${formatCount(seconds)} s`;
}

/** Names the length of a plan's periods: `month`, `3 months`, `30 days`. */
export function formatPeriod({ unit, count }: { readonly unit: "second" | "month"; readonly count: number }): string {
  if (unit === "second") return formatInterval(count);
  return count === 1 ? "month" : plural(count, "month");
}

/** Uses the largest unit of which there is at least one: `12 days`, `3 hours`. */
export function formatSpan(seconds: number): string {
  for (const [unit, size] of SIZES) if (seconds >= size) return plural(Math.floor(seconds / size), unit);
  return `${Math.max(0, Math.floor(seconds))} s`;
}

/** Shortens a hash or an address to its two ends; short text stays whole. */
export function endsOf(hex: string): readonly [start: string, end: string] {
  return hex.length > 14 ? [hex.slice(0, 8), hex.slice(-4)] : [hex, ""];
}

export function shorten(hex: string): string {
  const [start, end] = endsOf(hex);
  return end ? `${start}…${end}` : start;
}

/** Returns `part` of `whole` in percent with one digit; undefined when `whole` is zero. */
export function formatShare(part: number, whole: number): string | undefined {
  return whole === 0 ? undefined : `${trim(((100 * part) / whole).toFixed(1))} %`;
}

/** Returns the change in percent; undefined when the former value is not above zero. */
export function formatChange(now: string, before: string): string | undefined {
  const old = BigInt(before);
  if (old <= 0n) return undefined;
  const permille = Number(((BigInt(now) - old) * 1_000n) / old);
  return `${permille > 0 ? "+" : permille < 0 ? "−" : "±"}${trim((Math.abs(permille) / 10).toFixed(1))} %`;
}

/** Formats hundredths of a token: `0.38 ¢`, `0.0042 ¢`, `1.2 ¢`. */
export function formatCents(cents: number): string {
  if (cents === 0) return "0 ¢";
  const digits = cents >= 10 ? 1 : cents >= 0.1 ? 2 : Math.min(8, 1 - Math.floor(Math.log10(cents)));
  return `${trim(cents.toFixed(digits))} ¢`;
}

/** Formats wei in the chain's coin, to four significant digits. */
export function formatCoin(wei: string | number): string {
  const coins = Number(wei) / 1e18;
  return coins === 0
    ? "0"
    : coins >= 1
      ? grouped(trim(coins.toFixed(4)))
      : coins.toPrecision(3).replace(/e-(\d+)$/, "e−$1");
}

export function formatMs(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${trim((ms / 1_000).toFixed(1))} s`;
}

/** Invisible characters, and those that change the direction of the text next to them. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/gu;
const NAME_LENGTH = 80;

/** Makes untrusted text safe for a line of other text: truncates it and removes invisible characters. */
export function plainText(text: string): string {
  // Truncated before it is scanned: it may be long.
  const seen = text
    .slice(0, 4 * NAME_LENGTH)
    .replace(UNSEEN, " ")
    .replace(/\s+/g, " ")
    .trim();
  const letters = [...seen];
  return letters.length > NAME_LENGTH ? `${letters.slice(0, NAME_LENGTH - 1).join("")}…` : seen;
}

/** Shows invisible characters of untrusted text by their numbers. */
export const escapedText = (text: string): string =>
  text.replace(UNSEEN, (letter) => `\\u${(letter.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`);

/** Returns a plan's name from its metadata, which is untrusted text. */
export function planName(metadata: string, planId: string): string {
  try {
    const parsed: unknown = JSON.parse(metadata);
    if (typeof parsed === "object" && parsed !== null && "name" in parsed && typeof parsed.name === "string") {
      const name = plainText(parsed.name);
      if (name) return name;
    }
  } catch {
    // Metadata need not be JSON; then the plan is shown by its id.
  }
  return shorten(planId);
}
