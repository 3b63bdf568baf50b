/** The file of an audit: its text, its schema, and what it says differently from what is judged. Trusts none of it. */
import * as z from "zod";
import {
  addressSchema,
  amountSchema,
  hash32Schema,
  InvalidRequest,
  isUsageUnit,
  parseStrictJson,
  parseUnitPrice,
  signature65Schema,
} from "../../protocol";
import { aText } from "../../protocol/arguments";
import type { AuditedCycle, AuditedSubscription } from "./bill";

const FORMAT = "turnpike-audit-1";

const asText = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? value.toString() : value);

export const textOf = (subscriptions: readonly AuditedSubscription[]): string =>
  `${JSON.stringify({ format: FORMAT, subscriptions }, asText, 2)}\n`;

const number = z.number().int().nonnegative();

const receiptSchema = z.object({
  planId: hash32Schema,
  idHash: hash32Schema,
  requestHash: hash32Schema,
  version: number.max(0xffff),
  paidThrough: number.max(2 ** 40 - 1),
  sequence: number.min(1).max(2 ** 32 - 1),
  unit: z.string().refine(isUsageUnit, "must be 1 to 64 printable ASCII characters"),
  unitPrice: z.string().refine((text) => parseUnitPrice(text) !== undefined, "must be AMOUNT/PER"),
  units: amountSchema,
  amount: amountSchema,
  total: amountSchema,
});

const cycleName = { idHash: hash32Schema, version: number, paidThrough: number };

const cycleSchema = z.strictObject({
  ...cycleName,
  debited: amountSchema,
  refunded: amountSchema,
  receipted: amountSchema,
  receipts: number,
  open: amountSchema,
}) satisfies z.ZodType<AuditedCycle>;

const series = { ...cycleName, signer: addressSchema };

/** What the file's writer says was found is shown to others, and each of it is of a known form. */
const findingSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("excess"), ...cycleName, amount: amountSchema }),
  z.strictObject({ kind: z.literal("gap"), ...series, from: number, to: number, amount: amountSchema }),
  z.strictObject({
    kind: z.literal("contradiction"),
    ...series,
    reason: z.enum(["number", "sum"]),
    sequence: number,
  }),
  z.strictObject({ kind: z.literal("overpriced"), ...series, sequence: number, amount: amountSchema }),
  z.strictObject({ kind: z.literal("forged"), ...cycleName, sequence: number, signer: addressSchema.optional() }),
  z.strictObject({
    kind: z.literal("foreign"),
    idHash: hash32Schema,
    reason: z.enum(["subscription", "request", "malformed"]),
  }),
]);

const subscriptionSchema = z.object({
  chainId: number,
  turnpike: addressSchema,
  idHashes: z.array(hash32Schema).min(1).max(1_000),
  fromBlock: number,
  toBlock: number,
  cycles: z.array(cycleSchema),
  findings: z.array(findingSchema),
  receipts: z.array(z.object({ receipt: receiptSchema, signature: signature65Schema })),
});

const fileSchema = z.object({ format: z.literal(FORMAT), subscriptions: z.array(subscriptionSchema) });

export type FileSubscription = z.output<typeof subscriptionSchema>;

/** @throws InvalidRequest for a text that is no audit */
export function fileOf(text: string): z.output<typeof fileSchema> {
  aText(text, "text");
  const json = parseStrictJson(text);
  if (!json) throw new InvalidRequest("The file is no audit: it is no JSON object, or repeats a field.");
  const read = fileSchema.safeParse(json);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const fault = issue && `${issue.path.join(".") || "the object"}: ${issue.message}`;
  throw new InvalidRequest(`The file is no audit: ${fault ?? "it is malformed"}.`);
}

/** Returns which fields of a subscription the file says differently. */
export function differencesOf(claimed: FileSubscription, judged: AuditedSubscription): string[] {
  const found = subscriptionSchema.pick({ idHashes: true, cycles: true, findings: true }).parse(asRead(judged));
  const stated = ({ idHashes, cycles, findings }: typeof found) => ({
    idHashes,
    cycles,
    findings: findings.filter(({ kind }) => kind !== "foreign"),
  });
  const [said, right] = [stated(claimed), stated(found)];
  const name = judged.idHashes.at(-1) ?? "";
  return (["idHashes", "cycles", "findings"] as const)
    .filter((field) => JSON.stringify(said[field], asText) !== JSON.stringify(right[field], asText))
    .map((field) => `${field} of ${name}`);
}

/** As it is read from a file. */
const asRead = (judged: AuditedSubscription): unknown => JSON.parse(JSON.stringify(judged, asText));
