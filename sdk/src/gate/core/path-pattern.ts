/** Tests paths against patterns of `paymentMiddleware` in time that grows with the path's length alone. */

/** `segment`: one character or more without a slash; `some`: one or more; `any`: none or more. */
export type PatternPart =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "segment" | "some" | "any" };

/** What a part takes: which characters, and how often. */
interface Step {
  readonly takes: (character: string) => boolean;
  readonly repeats: boolean;
  readonly isOptional: boolean;
}

/**
 * Returns a test of whole paths, which ignores case. A regular expression with two wildcards in one segment would try
 * every split of a long path: this follows all of them at once.
 */
export function pathTest(parts: readonly PatternPart[]): (path: string) => boolean {
  const firstWildcard = parts.findIndex(({ kind }) => kind !== "literal");
  const literals = firstWildcard < 0 ? parts : parts.slice(0, firstWildcard);
  const start = new RegExp(`^${literals.map((part) => ("text" in part ? escaped(part.text) : "")).join("")}`, "iu");
  const steps = parts.slice(literals.length).flatMap(stepsOf);
  return (path) => {
    const begun = start.exec(path)?.[0];
    return begun !== undefined && isTaken(steps, path.slice(begun.length));
  };
}

function isTaken(steps: readonly Step[], text: string): boolean {
  let open = opened(steps, [0]);
  for (const character of text) {
    const next: number[] = [];
    for (const at of open) {
      const step = steps[at];
      if (!step?.takes(character)) continue;
      if (step.repeats) next.push(at);
      next.push(at + 1);
    }
    if (next.length === 0) return false;
    open = opened(steps, next);
  }
  return open.has(steps.length);
}

/** Returns these places and those behind what may be left out. */
function opened(steps: readonly Step[], places: readonly number[]): ReadonlySet<number> {
  const open = new Set<number>();
  for (const place of places) {
    for (let at = place; !open.has(at); at++) {
      open.add(at);
      if (!steps[at]?.isOptional) break;
    }
  }
  return open;
}

function stepsOf(part: PatternPart): readonly Step[] {
  if (part.kind === "literal") return [...part.text].map(literalStep);
  const takes = part.kind === "segment" ? (character: string) => character !== "/" : () => true;
  return [{ takes, repeats: true, isOptional: part.kind === "any" }];
}

function literalStep(literal: string): Step {
  // A router may take a character of another case that a plain comparison of lower case does not find.
  const pattern = new RegExp(`^${escaped(literal)}$`, "iu");
  const takes = (character: string): boolean => character === literal || pattern.test(character);
  return { takes, repeats: false, isOptional: false };
}

/** Patterns contain no other character that means something in a regular expression. */
const escaped = (text: string): string => text.replaceAll(".", "\\.");
