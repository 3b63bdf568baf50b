/** Defines settings and parses their text. Secrets are wrapped so that no log or error can print them. */
import { inspect } from "node:util";
import { type Address, addressSchema, checksumFault, parseAmount } from "turnpike/protocol";
import { z } from "zod";
import type { Role } from "./roles";

/** A value that always prints as `[redacted]`. */
export class Secret<T extends string = string> {
  readonly #value: T;
  constructor(value: T) {
    this.#value = value;
  }
  reveal(): T {
    return this.#value;
  }
  toString(): string {
    return "[redacted]";
  }
  toJSON(): string {
    return "[redacted]";
  }
  [inspect.custom](): string {
    return "[redacted]";
  }
}

export interface Setting<S extends z.ZodType = z.ZodType> {
  readonly env: string;
  /** description, with its unit */
  readonly about: string;
  /** default in the form of the environment variable; absent: the setting is required, unless `optional` */
  readonly fallback?: string;
  readonly optional?: true;
  /** the only role that uses it: other processes ignore it */
  readonly role?: Role;
  /** what goes wrong when it is set carelessly */
  readonly danger?: string;
  readonly schema: S;
}

export const setting = <S extends z.ZodType>(value: Setting<S>) => value;

export const optional = <S extends z.ZodType>(value: Setting<S>) => ({ ...value, optional: true as const });

export const list = (text: string): string[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);

/** An address as a person writes it: mixed case must carry a correct checksum. */
export const address = z
  .string()
  .refine((text) => !/^0x[0-9a-fA-F]{40}$/.test(text) || checksumFault(text as Address) === undefined, {
    error: ({ input }) => checksumFault(input as Address) ?? "fails its checksum",
  })
  .pipe(addressSchema);

export const addresses = z.string().transform(list).pipe(z.array(address).min(1, "must name at least one"));

export const url = z.url({ protocol: /^https?$/, error: "must be an http(s) URL" });

export const origin = url
  .refine((text) => URL.canParse(text) && [text, text.replace(/\/$/, "")].includes(new URL(text).origin), {
    error: "must be an origin: scheme, host and port alone",
  })
  .transform((text) => new URL(text).origin);

export const whole = (min: number, max = Number.MAX_SAFE_INTEGER) =>
  z
    .string()
    .regex(/^[0-9]+$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));

export const amount = z
  .string()
  .refine((text) => parseAmount(text) !== undefined, "must be a whole number of base units")
  .transform(BigInt);

export const flag = z.enum(["true", "false"], { error: "must be true or false" }).transform((text) => text === "true");
