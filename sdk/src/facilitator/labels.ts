/** Wire bodies of labels: short texts that a provider gives to its payers and plans, and that only the provider sees. */
import * as z from "zod";
import { type Address, addressSchema, type Hex, hash32Schema } from "../protocol";

/** counted as people do, not in bytes */
const MAX_LETTERS = 64;

/** What a label is given to: a payer's address, or the id of a plan. */
const objectSchema = z
  .string()
  .regex(
    /^0x(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$/,
    "must be a payer's address or the id of a plan: 0x and 40 or 64 hex digits",
  )
  .transform((value): Address | Hex => addressSchema.safeParse(value).data ?? hash32Schema.parse(value));

export const labelRequestSchema = z.object({
  object: objectSchema,
  /** empty: removes the label */
  text: z
    .string()
    .max(4 * MAX_LETTERS)
    .trim()
    .refine((text) => [...text].length <= MAX_LETTERS, `is too long: use at most ${MAX_LETTERS} characters`)
    .refine((text) => !/[\p{Cc}\p{Cs}]/u.test(text), "must be one line of text: remove its control characters")
    .meta({ maxLength: MAX_LETTERS }),
});

export type LabelRequest = z.output<typeof labelRequestSchema>;

export const labelSchema = z.object({
  /** a payer's address, or the id of a plan */
  object: z.string().max(66),
  /** text of the provider's choice; empty: it was removed */
  text: z.string().max(4 * MAX_LETTERS),
});

/** The label of one payer or plan. */
export type Label = z.output<typeof labelSchema>;

export const labelListSchema = z.object({ labels: z.array(labelSchema) });
