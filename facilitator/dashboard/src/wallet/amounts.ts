/** Reads `1.25` as base units; undefined for what is no amount of a token with so many decimals. */
export function baseUnits(text: string, decimals: number): string | undefined {
  const [, whole = "", fraction = ""] = /^(\d{1,40})(?:\.(\d{1,77}))?$/.exec(text.trim()) ?? [];
  if (whole === "" || fraction.length > decimals) return undefined;
  return BigInt(whole + fraction.padEnd(decimals, "0")).toString();
}
