/** How figures are written for people. Amounts come as base units in decimal text and never pass through a float. */

/** `"1234500"` at 6 decimals: `1.2345`; at least two digits after the point, no more than it takes. */
export function formatAmount(baseUnits: string, decimals: number): string {
  const negative = baseUnits.startsWith("-");
  const digits = (negative ? baseUnits.slice(1) : baseUnits).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = decimals === 0 ? "" : digits.slice(-decimals).replace(/0+$/, "").padEnd(Math.min(2, decimals), "0");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return `${negative ? "−" : ""}${grouped}${fraction && `.${fraction}`}`;
}

/** For an axis or a bar's height only: loses digits. */
export function toNumber(baseUnits: string, decimals: number): number {
  return Number(baseUnits) / 10 ** decimals;
}

export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Axis labels: 1.2k, 3.4M. */
export function formatShort(value: number): string {
  for (const [size, suffix] of [
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(value) >= size) return `${trim((value / size).toFixed(1))}${suffix}`;
  }
  return trim(value.toFixed(2));
}

const trim = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

export function formatDate(timeSec: number): string {
  return new Date(timeSec * 1_000).toISOString().slice(0, 10);
}

export function formatTime(timeSec: number): string {
  return `${new Date(timeSec * 1_000).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

export function formatInterval(seconds: number): string {
  for (const [unit, size] of [
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ] as const) {
    if (seconds % size === 0 && seconds >= size) {
      const count = seconds / size;
      return count === 1 ? `1 ${unit}` : `${formatCount(count)} ${unit}s`;
    }
  }
  return `${formatCount(seconds)} s`;
}

/** The two ends of a hash or an address. */
export function shorten(hex: string): string {
  return hex.length > 14 ? `${hex.slice(0, 8)}…${hex.slice(-4)}` : hex;
}

/** `part` of `whole` in percent with one digit; undefined of nothing. */
export function formatShare(part: number, whole: number): string | undefined {
  return whole === 0 ? undefined : `${trim(((100 * part) / whole).toFixed(1))} %`;
}

/** Up or down against before, in percent; undefined where before was nothing. */
export function formatChange(now: string, before: string): string | undefined {
  const old = BigInt(before);
  if (old === 0n) return undefined;
  const permille = Number(((BigInt(now) - old) * 1_000n) / old);
  return `${permille > 0 ? "+" : permille < 0 ? "−" : "±"}${trim((Math.abs(permille) / 10).toFixed(1))} %`;
}

/** A plan's name out of its metadata, which is anyone's text. */
export function planName(metadata: string, planId: string): string {
  try {
    const parsed: unknown = JSON.parse(metadata);
    if (typeof parsed === "object" && parsed !== null && "name" in parsed && typeof parsed.name === "string") {
      const name = parsed.name.trim().slice(0, 80);
      if (name) return name;
    }
  } catch {
    // Metadata need not be JSON: then the plan goes by its id.
  }
  return shorten(planId);
}
