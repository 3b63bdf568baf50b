/** What every way of authorizing a transfer has: a payer signs it, a payload presents it, and the chain shows its use. */
import { createRequire } from "node:module";
import { join } from "node:path";
import type * as z from "zod";
import type { Rpc } from "../../chain/rpc";
import type { ExpectedSettlement } from "../../chain/settlement";
import type { requirementsUptoSchema, requirementsV2Schema } from "../../facilitator/x402";
import {
  type Address,
  type Hex,
  InvalidPaymentProof,
  type JsonObject,
  keySignature,
  type QuotedFacts,
  type RecoverSigner,
  type RecoveryCurve,
  recoverSigner as recoverPortably,
  signerRecovery,
  type TransferAuthorization,
} from "../../protocol";
import { isObject } from "../../protocol/arguments";
import type { TransferMethod } from "../../protocol/transfer-methods";

/** What is bought: `exact` costs its amount, `upto` what is charged of its maximum. */
export type SchemeName = "exact" | "upto";

/** What a payer's signature covers besides the transfer itself. */
export interface SigningDomain {
  readonly chainId: number;
  readonly token: { readonly address: Address; readonly name: string; readonly version: string };
}

/** A transfer as its payer signed it: its signature is not checked yet. */
export interface SignedTransfer {
  /** of the scheme `upto`, `value` is the maximum */
  readonly authorization: TransferAuthorization;
  readonly signature: Hex;
  readonly paymentId: Hex;
  /** what the payer signed, of an ordinary account */
  readonly digest: Hex;
  /** the only account that may settle it, where its payer names one */
  readonly settler?: Address | undefined;
}

/** A payload of x402 version 2, and the option that it repeats. */
export interface PresentedOption {
  readonly scheme: SchemeName;
  readonly accepted: z.output<typeof requirementsV2Schema> | z.output<typeof requirementsUptoSchema>;
  readonly resource: { readonly url: string } | null | undefined;
  /** as signed */
  readonly payTo: Address;
  /** as signed: the amount, or the most of it, base units */
  readonly max: bigint;
  signed(domain: SigningDomain): SignedTransfer;
}

/** Why a payload presents none of its option's transfers. */
export type PresentedFault = "transfer_method" | "spender" | "terms";

/** What a quote names of its Facilitator. */
export interface OfferedTerms {
  /** of the scheme `upto`: the Facilitator's key that the payer has to name */
  readonly facilitatorAddress?: Address | undefined;
  /** whether payers without gas may send the token's permit along */
  readonly sponsorsGas: boolean;
}

/** What a Facilitator states of the methods that not every Facilitator settles. */
export interface StatedSupport {
  /** undefined: it states none, and refuses what it does not settle */
  readonly methods: readonly string[] | undefined;
  /** the key that `upto` payments name; undefined: it settles none */
  readonly uptoSigner: Address | undefined;
  readonly sponsorsGas: boolean;
}

export interface PayloadSource {
  readonly payload: JsonObject;
  /** where it was sent, for errors */
  readonly header: string;
}

/** How a payer authorizes a transfer. */
export interface Method extends TransferMethod {
  /** whether clients of x402 version 1 know it */
  readonly isOfVersion1: boolean;
  /** what a memo binds besides the quoted facts, so that a payer cannot choose another way */
  bound(scheme: SchemeName): QuotedFacts["transfer"];
  /** what a provider does whose token's domain payers cannot sign under; completes "payers could sign for". Absent where they sign it */
  readonly wayOut?: string;
  /** Returns what a quote has to name; undefined: it cannot be offered. Absent where every Facilitator settles it. */
  termsIn?(support: StatedSupport | undefined, scheme: SchemeName): OfferedTerms | undefined;
  /** which setting of a Facilitator settles it; completes "does not settle" */
  needs?(scheme: SchemeName): string;
  /** Reads what a payload of version 2 presents. @throws InvalidPaymentProof that names the first wrong field */
  read(source: PayloadSource): PresentedOption | PresentedFault;
  /** Finds a payment's transfer on the chain. @throws Unavailable */
  findSettlement(rpc: Rpc, expected: ExpectedSettlement): Promise<"settled" | "shallow" | "late" | "absent">;
}

/** Returns the scheme of the option that a payload repeats, before the payload is checked. */
export const schemeAsked = ({ payload: { accepted } }: PayloadSource): unknown =>
  isObject(accepted) ? accepted.scheme : undefined;

/** @throws InvalidPaymentProof that names the first wrong field */
export function parsed<T>(schema: z.ZodType<T>, { payload, header }: PayloadSource): T {
  const read = schema.safeParse(payload);
  if (read.success) return read.data;
  const field = read.error.issues[0]?.path.join(".") || "payload";
  throw new InvalidPaymentProof(`${header} holds a malformed x402 payload: field ${field} is missing or wrong`, {
    reason: "malformed",
  });
}

function loadNative(): RecoveryCurve | undefined {
  try {
    // The bindings themselves: the package's own fallback would be slower than ours.
    return createRequire(join(process.cwd(), "package.json"))("secp256k1/bindings") as RecoveryCurve;
  } catch {
    // Not installed, or not built for this machine: optional.
    return undefined;
  }
}

const native = loadNative();

/**
 * Recovers a digest's signer: by the native package `secp256k1` where the application has installed it (twenty times as
 * fast), otherwise by the portable library. Both are equally strict.
 */
export const recoverSigner: RecoverSigner = native ? signerRecovery(native) : recoverPortably;

/** Returns a transfer with its signature as tokens read it. */
export function readable(signed: SignedTransfer): SignedTransfer {
  const { authorization, digest, signature } = signed;
  const isOwn = (given: Hex): boolean => recoverSigner(digest, given) === authorization.from;
  return { ...signed, signature: keySignature(signature, isOwn) };
}
