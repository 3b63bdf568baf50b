/** Reads what the fields of a form were given. */
import { type Address, checksum } from "turnpike/protocol";
import { Problem } from "./account";

export type Values = Readonly<Record<string, string>>;

/** A value with which an act cannot be done: it is said beside its field. */
export class FieldProblem extends Problem {
  constructor(
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

/** Reads `1.25` and `$1.25` as base units; undefined for what is no amount of a token with so many decimals. */
export function baseUnits(text: string, decimals: number): string | undefined {
  const [, whole = "", fraction = ""] = /^\$? ?(\d{1,40})(?:\.(\d{1,77}))?$/.exec(text.trim()) ?? [];
  if (whole === "" || fraction.length > decimals) return undefined;
  return BigInt(whole + fraction.padEnd(decimals, "0")).toString();
}

/** @throws FieldProblem */
export function addressIn(values: Values, field: string): string {
  const text = values[field] ?? "";
  const isAddress = /^0x[0-9a-f]{40}$/i.test(text);
  // Mixed case carries a checksum, which finds a mistyped digit.
  if (isAddress && (/^0x[0-9a-f]+$/.test(text) || checksum(text as Address) === text)) return text;
  throw new FieldProblem(field, "That is no address, or a digit of it is mistyped. Copy it again.");
}

/** @throws FieldProblem */
export function wholeIn(values: Values, field: string, max = 2 ** 32 - 1): number {
  const text = values[field] ?? "";
  const value = Number(text);
  if (/^\d{1,10}$/.test(text) && value <= max) return value;
  throw new FieldProblem(field, `Write a whole number of at most ${max}.`);
}

/** @throws FieldProblem where nothing is chosen */
export function chosenIn<T>(found: T | false | undefined, field: string, what: string): T {
  if (found) return found;
  throw new FieldProblem(field, `Choose a ${what}.`);
}
