/** Refuses options with misspelled names: a limit that is not read is no limit. */
import { ConfigError } from "./errors";
import { isObject } from "./strict-json";

/**
 * Checks that an object of options has known fields alone.
 * @param path of the object, with a dot at its end; empty for a call's own options
 * @throws ConfigError that names the field, and the nearest known one
 */
export function requireKnownFields(given: unknown, known: readonly string[], path = ""): void {
  if (!isObject(given)) throw new ConfigError(`${path.replace(/\.$/, "") || "options"} must be an object`);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const near = nearest(unknown, known);
  const remedy = near === undefined ? `; known are ${known.join(", ")}` : `: did you mean ${near}?`;
  throw new ConfigError(`${path}${unknown} is no known option${remedy}`);
}

/**
 * Checks options that another library owns the rest of, where only a misspelled one of ours can be known to be wrong.
 * @throws ConfigError that names both
 */
export function refuseMisspelled(given: object, ours: readonly string[]): void {
  for (const name of Object.keys(given)) {
    const near = ours.includes(name) ? undefined : nearest(name, ours);
    if (near !== undefined) throw new ConfigError(`${name} is no known option: did you mean ${near}?`);
  }
}

/** How many letters may be wrong, missing or too many. */
const MAX_TYPOS = 2;

function nearest(name: string, known: readonly string[]): string | undefined {
  const [best] = known
    .map((field) => ({ field, typos: typosBetween(bare(name), bare(field)) }))
    .filter(({ typos }) => typos <= MAX_TYPOS)
    .sort((a, b) => a.typos - b.typos);
  return best?.field;
}

const bare = (name: string): string => name.slice(0, 64).toLowerCase().replace(/[_-]/g, "");

/** The Levenshtein distance, row by row. */
function typosBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
