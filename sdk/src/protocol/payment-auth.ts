/**
 * The wire of MPP, the HTTP authentication scheme "Payment": a challenge, the credential that answers it and its receipt,
 * for charges of EIP-3009 tokens (method `evm`, intent `charge`, credential type `authorization`).
 */
import * as z from "zod";
import type { JsonObject } from "./arguments";
import { decodeJsonHeader } from "./headers";
import { type Hex, keccakText, toBase64Url, utf8ToBytes } from "./hex";
import { addressSchema, amountSchema, authorizationSchema, signatureSchema } from "./schemas";

export const CHARGE_METHOD = "evm";

export const CHARGE_INTENT = "charge";

/** The one type that is bought by: a server that lists none has to take transactions. */
export const CREDENTIAL_TYPE = "authorization";

/** The key of `_meta` under which a tool call bears its credential. */
export const CREDENTIAL_META = "org.paymentauth/credential";

/** The parameters of a challenge, as they are on the wire. */
export const challengeSchema = z.object({
  id: z.string().min(1).max(256),
  realm: z.string().max(512),
  method: z.string().max(64),
  intent: z.string().max(64),
  /** base64url of JSON in its canonical form */
  request: z.string().min(1).max(8_192),
  /** RFC 3339 */
  expires: z.string().max(40).optional(),
  digest: z.string().max(256).optional(),
  /** which header the credential is sent in; absent: Authorization */
  header: z.string().max(64).optional(),
  /** the server's own, base64url of JSON */
  opaque: z.string().max(8_192).optional(),
  description: z.string().max(8_192).optional(),
});

export type Challenge = z.output<typeof challengeSchema>;

/** What a challenge's `request` asks for. */
export const chargeRequestSchema = z.object({
  amount: amountSchema,
  currency: addressSchema,
  recipient: addressSchema,
  methodDetails: z.object({
    chainId: z.number().int().positive(),
    decimals: z.number().int().nonnegative().optional(),
    credentialTypes: z.array(z.string().max(64)).max(16).optional(),
    splits: z.array(z.unknown()).optional(),
  }),
});

export type ChargeRequest = z.output<typeof chargeRequestSchema>;

export const credentialSchema = z.object({
  challenge: challengeSchema,
  payload: authorizationSchema.extend({ type: z.literal(CREDENTIAL_TYPE), signature: signatureSchema }),
  source: z.string().max(128).optional(),
});

export type ChargeCredential = z.output<typeof credentialSchema>;

/** The nonce of a charge's authorization, by which its payer's signature covers the challenge. */
export const challengeNonce = ({ id, realm }: Pick<Challenge, "id" | "realm">): Hex => keccakText(`${id}${realm}`);

/** Who pays, as a credential's `source` has it. */
export const sourceOf = (chainId: number, payer: string): string => `did:pkh:eip155:${chainId}:${payer}`;

const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/i;

/** Returns the time that `expires` names, unix seconds; undefined for a text that is no time of RFC 3339. */
export function expirySecOf(expires: string): number | undefined {
  const ms = DATE_TIME.test(expires) ? Date.parse(expires.toUpperCase()) : Number.NaN;
  // Date.parse takes the 30th of February for a day of March.
  const isDay = Number(expires.slice(8, 10)) === new Date(`${expires.slice(0, 10)}T00:00:00Z`).getUTCDate();
  return Number.isNaN(ms) || !isDay ? undefined : Math.floor(ms / 1_000);
}

/** @param value whose keys are sorted, as the canonical form of JSON has them */
export const encodeCanonical = (value: object): string => toBase64Url(utf8ToBytes(JSON.stringify(value)));

export const isCharge = (challenge: Pick<Challenge, "method" | "intent"> | undefined): boolean =>
  challenge?.method === CHARGE_METHOD && challenge.intent === CHARGE_INTENT;

/** Returns a receipt in the form of x402's reports. */
export const reportOfReceipt = ({ status, reference }: JsonObject): JsonObject => ({
  success: status === "success",
  transaction: reference,
});

/** @returns undefined for a request that is no charge of an EIP-3009 token */
export function chargeIn({ request }: Pick<Challenge, "request">): ChargeRequest | undefined {
  return chargeRequestSchema.safeParse(decodeJsonHeader(request)).data;
}

/** Writes a challenge as one of `WWW-Authenticate`. @param challenge whose values hold no quotation mark or backslash */
export function challengeText(challenge: Challenge): string {
  const named = Object.entries(challenge).filter(([, value]) => value !== undefined);
  return `Payment ${named.map(([name, value]) => `${name}="${value}"`).join(", ")}`;
}

const MAX_HEADER_CHARS = 16 * 1_024;

const MAX_CHALLENGES = 64;

/** A scheme, if it begins a challenge, and one parameter. */
const PARAMETER = /[\s,]*(?:([\w-]+)[ \t]+)?([\w-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))[ \t]*(?=,|$)/gy;

/** Returns the challenges of the scheme in a header, as they came; undefined for one that is malformed. */
export function challengesIn(header: string): (Challenge | undefined)[] {
  if (header.length > MAX_HEADER_CHARS) return [];
  const found: { scheme: string; parameters: Map<string, string>; isDoubled: boolean }[] = [];
  PARAMETER.lastIndex = 0;
  while (PARAMETER.lastIndex < header.length) {
    const at = PARAMETER.lastIndex;
    const match = PARAMETER.exec(header);
    if (!match) {
      // Of another scheme, which may have no parameters.
      const comma = header.indexOf(",", at + 1);
      if (comma < 0) break;
      PARAMETER.lastIndex = comma;
      continue;
    }
    const [, scheme, name = "", quoted, token = ""] = match;
    if (scheme !== undefined) found.push({ scheme: scheme.toLowerCase(), parameters: new Map(), isDoubled: false });
    const current = found.at(-1);
    if (!current) continue;
    const key = name.toLowerCase();
    current.isDoubled ||= current.parameters.has(key);
    current.parameters.set(key, quoted === undefined ? token : unescaped(quoted));
  }
  return found
    .filter(({ scheme }) => scheme === "payment")
    .slice(0, MAX_CHALLENGES)
    .map(({ parameters, isDoubled }) =>
      isDoubled ? undefined : challengeSchema.safeParse(Object.fromEntries(parameters)).data,
    );
}

/** `mppx` writes what no header can hold as \\uXXXX, and every backslash of its own as two. */
const unescaped = (text: string): string =>
  text.replace(/\\(?:u([0-9a-f]{4})|(.))/gi, (_, code: string | undefined, other: string) =>
    code === undefined ? other : String.fromCharCode(Number.parseInt(code, 16)),
  );
