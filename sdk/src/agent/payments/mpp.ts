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
  type Challenge,
  CREDENTIAL_TYPE,
  challengeNonce,
  challengesIn,
  chargeIn,
  expirySecOf,
  isCharge,
  reportOfReceipt,
  sourceOf,
} from "../../protocol/payment-auth";
import type { AgentContext, KnownToken } from "../core/context";
import { type Arrival, bodyHashOf } from "../core/request";
import { compareOptions, type ParsedQuote, type StandardOption } from "./quote";
import type { ExactPayload } from "./standard";

/** What a challenge is read for. */
export interface ChallengeReader {
  readonly resource: string;
  /** SHA-256 of the request's body, where it has one */
  readonly bodyHash: string | undefined;
  /** where the credential is sent in place of a header */
  readonly carrier?: string;
  /** whether the request has an Authorization of the caller's, in whose place no credential is sent */
  readonly isAuthorized: boolean;
  readonly networks: readonly Network[];
  readonly tokens: readonly Pick<KnownToken, "chainId" | "address">[];
}

/** Returns whether a 402 has a challenge of this scheme, readable or not. */
export const isAskedByChallenge = (headers: Headers): boolean =>
  /^payment\b/i.test(headers.get(HEADER.authenticate) ?? "");

/** Reads the challenges of a 402. @returns undefined where none is a charge on an EVM chain */
export function chargesAskedBy(
  { response, template }: Arrival,
  { networks, tokens }: Pick<AgentContext, "networks" | "tokens">,
): ParsedQuote | undefined {
  return readChallenges(challengesIn(response.headers.get(HEADER.authenticate) ?? ""), {
    resource: template.url,
    bodyHash: bodyHashOf(template),
    isAuthorized: template.headers.has(HEADER.authorization),
    networks,
    tokens,
  });
}

/** Reads what challenges offer. @returns undefined where none is a charge on an EVM chain */
export function readChallenges(
  challenges: readonly (Challenge | undefined)[],
  reader: ChallengeReader,
): ParsedQuote | undefined {
  const charges = challenges.filter((challenge) => !challenge || isCharge(challenge));
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
  const { carrier } = reader;
  const isMisplaced = header === undefined ? reader.isAuthorized : header !== HEADER.paymentAuthorization;
  if (carrier === undefined && isMisplaced) return "header";
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
    nonce: challengeNonce(challenge),
    ...(carrier !== undefined && { carrier }),
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

/** Builds the header that answers a challenge, which goes back as it came; for a carrier without the scheme's name. */
export function credentialHeader(
  { chainId, carrier }: Pick<StandardOption, "chainId" | "carrier">,
  challenge: Challenge,
  { signature, authorization }: ExactPayload,
): { name: string; value: string } {
  const payload = { type: CREDENTIAL_TYPE, ...authorization, signature };
  const credential = { challenge, payload, source: sourceOf(chainId, authorization.from) };
  const value = toBase64Url(utf8ToBytes(JSON.stringify(credential)));
  if (carrier !== undefined) return { name: carrier, value };
  return { name: challenge.header ?? HEADER.authorization, value: `Payment ${value}` };
}

/** Returns a receipt in the form of x402's reports; undefined where there is none. */
export function receiptOfCharge(headers: Headers): JsonObject | undefined {
  const value = headers.get(HEADER.paymentReceipt);
  const receipt = value === null ? undefined : decodeJsonHeader(value);
  return receipt && reportOfReceipt(receipt);
}
