/** API keys of providers: what they may do, what a wallet signs to get one, and their wire bodies. */
import * as z from "zod";
import {
  type Address,
  addressSchema,
  caip2Of,
  type Hex,
  personalDigest,
  signatureSchema,
  signInMessage,
  type TypedData,
  typedDataDigest,
} from "../protocol";
import { aList, aNumber, fieldsOf, wrongKind } from "../protocol/arguments";
import { DAY_SEC } from "../protocol/periods";

/**
 * read: the provider's events, records and figures. debits: charge allowances. webhooks: endpoints and deliveries, and labels.
 * keys: list and revoke the provider's keys, and read what was done with them. reports: send the counts of the
 * provider's gates. refunds: have payments refunded from the account that the provider has named, and revoke it.
 */
export const API_SCOPES = ["read", "debits", "webhooks", "keys", "reports", "listings", "refunds"] as const;

/** What a key may do. */
export type ApiScope = (typeof API_SCOPES)[number];

const unixSec = z.number().int().nonnegative();

/** printable, so that a wallet shows what it is */
const nameSchema = z
  .string()
  .regex(/^[ -~]{1,64}$/, "must be 1 to 64 printable ASCII characters")
  .refine((name) => name === name.trim(), "must not begin or end with a space");

const scopesSchema = z
  .array(z.enum(API_SCOPES))
  .min(1)
  .max(API_SCOPES.length)
  .refine((scopes) => new Set(scopes).size === scopes.length, "must not name a scope twice");

const wantedKey = {
  /** the provider's wallet: a key or a contract with ERC-1271 */
  provider: addressSchema,
  name: nameSchema,
  scopes: scopesSchema,
  /** unix seconds; absent: a year from now */
  expiresAt: unixSec.optional(),
};

export const challengeRequestSchema = z.strictObject(wantedKey);

export type ChallengeRequest = z.output<typeof challengeRequestSchema>;

export type ChallengeRequestWire = z.input<typeof challengeRequestSchema>;

export const challengeSchema = z.object({
  challenge: z.string().regex(/^[A-Za-z0-9_.-]{16,128}$/),
  /** of the challenge, unix seconds */
  validUntil: unixSec,
  /** of the key, unix seconds */
  expiresAt: unixSec,
  /** whose service the key is for: the address that signs its payment proofs */
  facilitator: addressSchema,
  chainId: z.number().int().positive(),
  /**
   * the same as a text by EIP-4361 (Sign-In with Ethereum), signed by EIP-191 instead of the typed data; absent where
   * the service does not know its own public address
   */
  message: z.string().max(2_048).optional(),
});

export type KeyChallenge = z.output<typeof challengeSchema>;

export const createKeyRequestSchema = z.object({
  ...wantedKey,
  /** as in the challenge */
  expiresAt: unixSec,
  challenge: z.string().regex(/^[A-Za-z0-9_.-]{16,128}$/, "must be a challenge of POST /keys/challenge"),
  signature: signatureSchema,
});

export type CreateKeyRequest = z.output<typeof createKeyRequestSchema>;

export type CreateKeyRequestWire = z.input<typeof createKeyRequestSchema>;

export const apiKeySchema = z.object({
  id: z.string().max(64),
  name: z.string().max(64),
  scopes: z.array(z.enum(API_SCOPES)),
  createdAt: unixSec,
  expiresAt: unixSec,
  revokedAt: unixSec.optional(),
  /** to the minute */
  lastUsedAt: unixSec.optional(),
});

export type ApiKey = z.output<typeof apiKeySchema>;

/** The only answer that holds the key itself: what is stored is its hash. */
export const newKeySchema = apiKeySchema.extend({ key: z.string().max(128) });

export type NewApiKey = z.output<typeof newKeySchema>;

/** Of the key that asks. */
export const currentKeySchema = z.object({
  id: z.string().max(64),
  provider: addressSchema,
  scopes: z.array(z.enum(API_SCOPES)),
  /** whether it may also read what concerns the whole service */
  isOperator: z.boolean(),
});

export type CurrentKey = z.output<typeof currentKeySchema>;

export const keyListSchema = z.object({ keys: z.array(apiKeySchema) });

export const rotateKeyRequestSchema = z.strictObject({
  /** seconds for which the old key goes on working; at most 7 days */
  overlapSec: z
    .number()
    .int()
    .min(0)
    .max(7 * DAY_SEC)
    .default(DAY_SEC),
});

/** What a wallet signs to get a key. */
export interface KeyTerms {
  readonly provider: Address;
  readonly name: string;
  readonly scopes: readonly ApiScope[];
  readonly expiresAt: number;
  readonly challenge: string;
  readonly facilitator: Address;
  readonly chainId: number;
}

const FIELDS = [
  { name: "provider", type: "address" },
  { name: "facilitator", type: "address" },
  { name: "name", type: "string" },
  { name: "scopes", type: "string" },
  { name: "expiresAt", type: "uint256" },
  { name: "challenge", type: "string" },
] as const;

/** What the provider's wallet signs. Its domain and type are unique: the signature is valid for nothing else. */
export function apiKeyTypedData(terms: KeyTerms): TypedData {
  const { provider, facilitator, name, scopes, expiresAt, challenge, chainId } = fieldsOf(terms, "terms");
  aList(scopes, "terms.scopes");
  return {
    domain: { name: "Turnpike API Key", version: "1", chainId },
    primaryType: "ApiKeyRequest",
    types: { ApiKeyRequest: FIELDS },
    message: { provider, facilitator, name, scopes: scopes.join(","), expiresAt, challenge },
  };
}

/** Whose page asks for the signature, and when: what EIP-4361 binds beside the terms. */
export interface SignInSite {
  /** scheme, host and port of the service */
  readonly origin: string;
  /** unix seconds */
  readonly issuedAt: number;
  readonly validUntil: number;
}

/** The same as a text by EIP-4361, which a wallet shows beside the site that asks, and warns of when it is another. */
export function apiKeyMessage(terms: KeyTerms, site: SignInSite): string {
  const { provider, facilitator, name, scopes, expiresAt, challenge, chainId } = fieldsOf(terms, "terms");
  const { origin, issuedAt, validUntil } = fieldsOf(site, "site");
  aList(scopes, "terms.scopes");
  if (!URL.canParse(origin))
    throw wrongKind(origin, "site.origin", "the service's address, as in https://facilitator.example");
  for (const [field, value] of Object.entries({ expiresAt, issuedAt, validUntil })) aNumber(value, field);
  return signInMessage({
    domain: new URL(origin).host,
    address: provider,
    statement: `Create an API key for your wallet, with the scopes ${scopes.join(", ")}, good until ${iso(expiresAt)}. This moves no money.`,
    uri: origin,
    version: "1",
    chainId: caip2Of(chainId),
    nonce: challenge,
    issuedAt: iso(issuedAt),
    expirationTime: iso(validUntil),
    // A name may hold what a statement may not.
    resources: [`turnpike:api-key?name=${encodeURIComponent(name)}&facilitator=${facilitator}`],
  });
}

const iso = (timeSec: number): string => new Date(timeSec * 1_000).toISOString();

/** The digests whose signature creates the key: typed data, and the text where a site is known. */
export function apiKeyDigests(terms: KeyTerms, site: SignInSite | undefined): readonly Hex[] {
  fieldsOf(terms, "terms");
  const typed = typedDataDigest(apiKeyTypedData(terms));
  return site ? [typed, personalDigest(apiKeyMessage(terms, site))] : [typed];
}
