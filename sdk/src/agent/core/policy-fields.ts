/** Lists the fields of a policy that files may set, under their names in `AgentPolicy`. */
import * as z from "zod";
import { PAYMENT_METHODS } from "../../protocol";

const texts = z.array(z.string());

/** What a policy may pay with: in order of preference, or as limits. */
export const paidWithFields = {
  networks: texts.optional(),
  tokens: texts.optional(),
  methods: z.array(z.enum(PAYMENT_METHODS)).optional(),
};

/**
 * Returns the fields' schemas, for a strict object: a misspelled limit would be no limit.
 * @param amount how the file writes an amount
 */
export const policyFields = <Amount extends z.ZodType>(amount: Amount) => ({
  perPayment: amount,
  perDay: amount,
  perPayee: amount.optional(),
  perSubscription: amount.optional(),
  perFirstCharge: amount.optional(),
  requireUntil: z.boolean().optional(),
  onPayeeChange: z.enum(["cancel", "notify"]).optional(),
  ...paidWithFields,
  uptoFacilitators: texts.optional(),
  payees: texts.optional(),
  askAbove: amount.optional(),
  askNewPayees: z.boolean().optional(),
  requireReceipt: z.boolean().optional(),
  receiptSigners: z.record(z.string(), texts).optional(),
  maxWindowSec: z.number().int().optional(),
  allowHttp: z.boolean().optional(),
});
