import * as z from "zod";
import { addressSchema, amountSchema, hash32Schema } from "../protocol";

/** items in one request */
export const MAX_DEBITS = 250;

export const debitSchema = z.object({
  idHash: hash32Schema,
  /** base units */
  amount: amountSchema.refine((amount) => amount > 0n && amount < 1n << 88n, "must be from 1 to 2^88 - 1 base units"),
  /** number of debits of this subscription so far: the chain takes each index once */
  index: z
    .number()
    .int()
    .min(0)
    .max(2 ** 40 - 1),
});

export type DebitRequest = z.output<typeof debitSchema>;

export type DebitRequestWire = z.input<typeof debitSchema>;

export const debitsRequestSchema = z.array(debitSchema).min(1).max(MAX_DEBITS);

/**
 * `settled`: collected, in `transaction`. `failed`: this debit did not happen and is not under way; the same index may
 * be asked for again. `pending`: under way or unknown; send the same again.
 */
export const debitResultSchema = z.discriminatedUnion("status", [
  z.object({ status: z.literal("settled"), idHash: hash32Schema, index: z.number().int(), transaction: hash32Schema }),
  z.object({
    status: z.literal("failed"),
    idHash: hash32Schema,
    index: z.number().int(),
    /** of the error table */
    code: z.string().max(64),
    message: z.string().max(512),
  }),
  z.object({ status: z.literal("pending"), idHash: hash32Schema, index: z.number().int() }),
]);

export type DebitResultWire = z.input<typeof debitResultSchema>;

export type DebitAnswer = z.output<typeof debitResultSchema>;

/** One answer for each item, in the order asked. */
export const debitsResponseSchema = z.array(debitResultSchema).max(MAX_DEBITS);

/** Plans in one request of `POST /debits/rights`. */
export const MAX_DEBIT_RIGHTS = 100;

export const debitRightsRequestSchema = z.object({
  /** none: only whether the API key may have debits collected at all */
  planIds: z.array(hash32Schema).max(MAX_DEBIT_RIGHTS),
});

/** `refused`: every debit of the plan would fail for this caller, for any subscriber; `code` is of the error table. */
export const debitRightSchema = z.discriminatedUnion("status", [
  z.object({ status: z.literal("allowed"), planId: hash32Schema }),
  z.object({
    status: z.literal("refused"),
    planId: hash32Schema,
    code: z.string().max(64),
    message: z.string().max(512),
  }),
]);

export type DebitRightWire = z.input<typeof debitRightSchema>;

export type DebitRight = z.output<typeof debitRightSchema>;

/** One answer for each plan, in the order asked. */
export const debitRightsResponseSchema = z.object({
  /** the accounts that debit: each has to be an operator of the plan */
  relayers: z.array(addressSchema).min(1).max(64),
  rights: z.array(debitRightSchema).max(MAX_DEBIT_RIGHTS),
});
