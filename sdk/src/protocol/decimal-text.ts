/** Writes an amount as people read it. Imports nothing: the payment page's script has it. */

/** 1500000 with 6 decimals is "1.50"; at least two and at most `decimals` fraction digits. */
export function decimalText(amount: bigint, decimals: number): string {
  const sign = amount < 0n ? "-" : "";
  const digits = (amount < 0n ? -amount : amount).toString().padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits
    .slice(digits.length - decimals)
    .replace(/0+$/, "")
    .padEnd(Math.min(2, decimals), "0");
  return fraction ? `${sign}${whole}.${fraction}` : `${sign}${whole}`;
}
