/**
 * Defines the records that an agent must not lose; the last record of an id counts. A ledger stores records durably and
 * in order, and knows no rule about them. Records hold secrets: signatures, proofs, random secrets.
 */
import * as z from "zod";
import { subscribeRequestSchema } from "../../facilitator/subscriptions";
import {
  addressSchema,
  type Hex,
  hash32Schema,
  type PaymentMethod,
  paymentProofSchema,
  signedPaymentSchema,
} from "../../protocol";
import { judgedOfferSchema, judgedReceiptSchema } from "./evidence";

const decimal = z.string().regex(/^(0|[1-9][0-9]{0,77})$/);

const hex = z.custom<`0x${string}`>((value) => typeof value === "string" && /^0x[0-9a-fA-F]*$/.test(value));

const wireOf = <S extends z.ZodType>(schema: S) => z.custom<z.input<S>>((value) => schema.safeParse(value).success);

/**
 * `reserved`: counted against the budget, not signed. `signed`: an authorization exists; its outcome is unknown.
 * `settled`: paid, and not known to be served. `served`: done. `released`: can never move money.
 */
export const PAYMENT_STATES = ["reserved", "signed", "settled", "served", "released"] as const;

/** How a payment is spoken of, the preferred first. */
export const DIALECTS = ["turnpike", "x402-v2", "x402-v1", "mpp"] as const;

export const paymentEntrySchema = z.object({
  type: z.literal("payment"),
  id: hash32Schema,
  dialect: z.enum(DIALECTS),
  state: z.enum(PAYMENT_STATES),
  /** when the budget was reserved, unix seconds of the policy's clock */
  atSec: z.number().int(),
  network: z.string(),
  chainId: z.number().int(),
  token: addressSchema,
  payer: addressSchema,
  payTo: addressSchema,
  amount: decimal,
  method: z.string(),
  resource: z.string(),
  /** SHA-256 of the request's body, where it has one */
  bodyHash: z.string().optional(),
  /** the Idempotency-Key as sent */
  key: z.string().optional(),
  facilitator: z.string().optional(),
  /** chain time after which the authorization is invalid */
  validBeforeSec: z.number().int(),
  signedPayment: wireOf(signedPaymentSchema).optional(),
  /** A damaged one is left out: the authorization fetches it again. */
  proof: wireOf(paymentProofSchema).optional().catch(undefined),
  /** a Facilitator has returned a proof, sound or not: only the chain can say that no money has moved */
  proofSeen: z.boolean().optional(),
  /** of a standard x402 payment: the header that pays */
  header: z.object({ name: z.string(), value: z.string() }).optional(),
  transaction: hex.optional(),
  /** of a payment over Permit2: its method, and Permit2's nonce as 32 bytes */
  permit2: z.object({ method: z.enum(["permit2", "upto"]), nonce: hash32Schema }).optional(),
  /** of an `upto` payment: what the agent's own RPC proves to have been charged, and what the provider reported */
  charged: decimal.optional(),
  reported: decimal.optional(),
  /** what the provider signed before the payment, and after it */
  signedOffer: judgedOfferSchema.optional().catch(undefined),
  signedReceipt: judgedReceiptSchema.optional().catch(undefined),
  /** proven refunds by index, base units */
  refunds: z.record(z.string(), decimal).optional(),
});

export type PaymentEntry = z.output<typeof paymentEntrySchema>;

/** Returns how a payment moves, and its nonce where the entry names it. */
export const movementOf = ({ permit2 }: PaymentEntry): { readonly method: PaymentMethod; readonly nonce?: Hex } =>
  permit2 ?? { method: "eip3009" };

/** Returns what an entry keeps of how its payment moves. */
export const movedBy = (method: PaymentMethod, nonce: Hex): Pick<PaymentEntry, "permit2"> =>
  method === "eip3009" ? {} : { permit2: { method, nonce } };

/** A charge that a signed change of a subscription may cause, counted against the budget. */
export const spendEntrySchema = z.object({
  type: z.literal("spend"),
  id: z.string(),
  state: z.enum(["held", "released"]),
  atSec: z.number().int(),
  payTo: addressSchema,
  amount: decimal,
  /** the charge that was made, once it is known: what refunds of it are counted under, and who may refund it */
  charge: z
    .object({
      id: hash32Schema,
      idHash: hash32Schema,
      chainId: z.number().int(),
      token: addressSchema,
      payer: addressSchema,
      provider: addressSchema,
      facilitator: z.string(),
    })
    .optional(),
  /** proven refunds by index, base units */
  refunds: z.record(z.string(), decimal).optional(),
});

export type SpendEntry = z.output<typeof spendEntrySchema>;

export const subscriptionEntrySchema = z.object({
  type: z.literal("subscription"),
  /** idHash */
  id: hash32Schema,
  /** `signup`: signed and perhaps on its way. `live`: on chain. `ended`: cancelled, rekeyed away, or never created. */
  state: z.enum(["signup", "live", "ended"]),
  subscriber: addressSchema,
  chainId: z.number().int(),
  network: z.string(),
  turnpike: addressSchema,
  facilitator: z.string(),
  planId: hash32Schema,
  provider: addressSchema,
  token: addressSchema,
  payTo: addressSchema,
  /** another payee that is proposed for the plan, and the policy has dealt with */
  proposedPayTo: z.object({ payTo: addressSchema, effectiveAtSec: z.number().int() }).optional(),
  amount: decimal,
  intervalSec: z.number().int(),
  /** calendar months in one period; 0: `intervalSec` counts */
  months: z.number().int().default(0),
  graceSec: z.number().int(),
  /** cap of metered overage */
  cap: decimal,
  /** how many periods the token approval should cover */
  periods: z.number().int(),
  origins: z.array(z.string()),
  /** where the secret comes from: derived as number `n` under `planId`, or random and kept here */
  secret: z.discriminatedUnion("from", [
    z.object({ from: z.literal("root"), planId: hash32Schema, n: z.number().int() }),
    z.object({ from: z.literal("ledger"), value: hash32Schema }),
  ]),
  /** where a rekeyed record went */
  rekeyedTo: hash32Schema.optional(),
  /** the signup as posted, until its outcome is known */
  signup: wireOf(subscribeRequestSchema).optional(),
});

export type SubscriptionEntry = z.output<typeof subscriptionEntrySchema>;

/** A random root secret, for wallets whose signatures differ from one time to the next. */
export const rootEntrySchema = z.object({ type: z.literal("root"), id: z.string(), value: hash32Schema });

export type RootEntry = z.output<typeof rootEntrySchema>;

export const ledgerRecordSchema = z.discriminatedUnion("type", [
  paymentEntrySchema,
  spendEntrySchema,
  subscriptionEntrySchema,
  rootEntrySchema,
]);

/** One record: a payment, a charge, a subscription or a root secret. */
export type LedgerRecord = z.output<typeof ledgerRecordSchema>;

/** Where an agent keeps the records that it must not lose. They hold secrets. */
export interface Ledger {
  /** Every record, oldest first. Called once, before any append. */
  load(): Promise<readonly LedgerRecord[]>;
  /** Resolves once the record would survive a crash. Rejects when that is not certain: nothing may then be sent. */
  append(record: LedgerRecord): Promise<void>;
  /** Releases the store. */
  close(): Promise<void>;
}

/** Keeps records only in memory: for tests, browsers, and agents whose every purchase has an idempotency key. */
export function memoryLedger(): Ledger {
  const records: LedgerRecord[] = [];
  return {
    load: async () => [...records],
    append: async (record) => {
      records.push(record);
    },
    close: async () => {},
  };
}
