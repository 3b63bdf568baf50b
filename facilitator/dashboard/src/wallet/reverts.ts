/** Says in words why a contract refuses a call, by the selector of its error. */

/** By selector. test/facilitator/http/wallet-calls.ts compares them with the ABI. */
export const REASONS: Readonly<Record<string, readonly [name: string, words: string]>> = {};

/** Finds the selector of a contract's error in what a wallet throws: wallets nest it differently. */
export function reasonOf(error: unknown): string | undefined {
  const found = selectorIn(error, 0);
  if (found === undefined) return undefined;
  const [name, words] = REASONS[found] ?? ["", `for a reason that this page does not know (${found})`];
  return `The contract refuses this${name && ` (${name})`}: ${words}. Nothing was changed.`;
}

function selectorIn(value: unknown, depth: number): string | undefined {
  if (typeof value === "string") return /^0x[0-9a-f]{8}(?:[0-9a-f]{64})*$/.exec(value)?.[0].slice(0, 10);
  if (typeof value !== "object" || value === null || depth > 4) return undefined;
  const { data, error, originalError, result } = value as Record<string, unknown>;
  for (const inner of [data, originalError, error, result]) {
    const found = selectorIn(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
