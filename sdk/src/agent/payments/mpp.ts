/**
 * Speaks to servers of MPP, the HTTP authentication scheme "Payment": reads their challenges, and builds the credential
 * that answers one. Knows no budget and no key.
 */
import {
  caip2Of,
  decodeJsonHeader,
  HEADER,
  type Hex,
  hexToBytes,
  type JsonObject,
  knownToken,
  type Network,
  networkOfChain,
  sameAddress,
  sha256,
  toBase64Url,
  utf8ToBytes,
} from "../../protocol";
import {
  CHARGE_INTENT,
  CHARGE_METHOD,
  type Challenge,
  CREDENTIAL_TYPE,
  challengeSchema,
  chargeIn,
  expirySecOf,
  sourceOf,
} from "../../protocol/payment-auth";
import type { KnownToken } from "../core/context";
import { compareOptions, type ParsedQuote, type StandardOption } from "./quote";
import type { ExactPayload } from "./standard";

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

/** What a challenge is read for. */
export interface ChallengeReader {
  readonly resource: string;
  /** SHA-256 of the request's body, where it has one */
  readonly bodyHash: string | undefined;
  /** whether the request has an Authorization of the caller's, in whose place no credential is sent */
  readonly isAuthorized: boolean;
  readonly networks: readonly Network[];
  readonly tokens: readonly Pick<KnownToken, "chainId" | "address">[];
}

/** Reads what challenges offer. @returns undefined where none is a charge on an EVM chain */
export function readChallenges(header: string | null, reader: ChallengeReader): ParsedQuote | undefined {
  const charges = challengesIn(header ?? "").filter(
    (challenge) => !challenge || (challenge.method === CHARGE_METHOD && challenge.intent === CHARGE_INTENT),
  );
  if (!charges.some((challenge) => challenge !== undefined)) return undefined;
  const refusals: string[] = [];
  const options = charges.flatMap((challenge) => {
    const option = challenge ? optionOf(challenge, reader) : "malformed";
    if (typeof option !== "string") return [option];
    refusals.push(option);
    return [];
  });
  return {
    options: options.sort(compareOptions),
    offers: [],
    plans: [],
    refusals,
    error: undefined,
    reason: undefined,
  };
}

/** @returns the option, or why it is none */
function optionOf(challenge: Challenge, reader: ChallengeReader): StandardOption | string {
  const { header, digest, expires } = challenge;
  const charge = chargeIn(challenge);
  if (!charge) return "malformed";
  const { chainId, credentialTypes, decimals, splits } = charge.methodDetails;
  // A server that lists none has to take transactions alone.
  if (!credentialTypes?.includes(CREDENTIAL_TYPE)) return "credential_type";
  if (splits !== undefined) return "splits";
  if (decimals !== undefined && decimals !== 6) return "decimals";
  if (header === undefined ? reader.isAuthorized : header !== HEADER.paymentAuthorization) return "header";
  if (digest !== undefined && !isDigestOf(digest, reader.bodyHash)) return "digest";
  const expiresAtSec = expires === undefined ? undefined : expirySecOf(expires);
  if (expires !== undefined && expiresAtSec === undefined) return "malformed";
  const { currency: token, amount, recipient: payTo } = charge;
  if (!isKnown({ chainId, token }, reader)) return "network";
  return {
    dialect: "mpp",
    method: "eip3009",
    network: caip2Of(chainId),
    chainId,
    token,
    amount,
    payTo,
    resource: reader.resource,
    tokenDomain: undefined,
    maxTimeoutSec: 300,
    challenge,
    ...(expiresAtSec !== undefined && { expiresAtSec }),
  };
}

/** A challenge names no domain of its token: one that the agent does not know cannot be signed for. */
function isKnown({ chainId, token }: Pick<StandardOption, "chainId" | "token">, { networks, tokens }: ChallengeReader) {
  if (knownToken(networkOfChain(chainId, networks), token)) return true;
  return tokens.some((known) => known.chainId === chainId && sameAddress(known.address, token));
}

/** RFC 9530 puts colons around the bytes, and `mppx` none. */
function isDigestOf(digest: string, bodyHash: string | undefined): boolean {
  const [, , named] = /^sha-256=(:?)([A-Za-z0-9+/]{43})=\1$/.exec(digest) ?? [];
  if (named === undefined) return false;
  const hash = bodyHash === undefined ? sha256(new Uint8Array()) : hexToBytes(bodyHash as Hex);
  return toBase64Url(hash) === named.replaceAll("+", "-").replaceAll("/", "_");
}

/** Builds the header that answers a challenge, which goes back as it came. */
export function credentialHeader(
  { chainId }: Pick<StandardOption, "chainId">,
  challenge: Challenge,
  { signature, authorization }: ExactPayload,
): { name: string; value: string } {
  const payload = { type: CREDENTIAL_TYPE, ...authorization, signature };
  const credential = { challenge, payload, source: sourceOf(chainId, authorization.from) };
  const value = `Payment ${toBase64Url(utf8ToBytes(JSON.stringify(credential)))}`;
  return { name: challenge.header ?? HEADER.authorization, value };
}

/** Returns a receipt in the form of x402's reports; undefined where there is none. */
export function reportIn(headers: Headers): JsonObject | undefined {
  const value = headers.get(HEADER.paymentReceipt);
  const receipt = value === null ? undefined : decodeJsonHeader(value);
  return receipt && { success: receipt.status === "success", transaction: receipt.reference };
}
