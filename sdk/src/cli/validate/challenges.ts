/** Checks the challenges of MPP, the HTTP authentication scheme "Payment", that a 402 has in WWW-Authenticate. */
import { decodeJsonHeader, HEADER, isAddress, knownToken, networkOfChain, parseAmount } from "../../protocol";
import { isObject } from "../../protocol/arguments";
import { type Challenge, CREDENTIAL_TYPE, challengesIn, expirySecOf, isCharge } from "../../protocol/payment-auth";
import { checkAddress, type Price } from "./entries";
import type { Problems } from "./problem";

const PART = "mpp";

/** @returns the prices of the charges on EVM chains; undefined when the header has no challenge of the scheme */
export function checkChallenges(problems: Problems, headers: Headers, nowSec: number): Price[] | undefined {
  const header = headers.get(HEADER.authenticate) ?? "";
  const challenges = challengesIn(header);
  if (challenges.length === 0 && !/(?:^|,)\s*payment(?:\s|$)/i.test(header)) return undefined;
  if (challenges.length === 0) problems.add(PART, "challenge");
  return challenges.flatMap((challenge, index) => {
    const where = `challenges[${index}]`;
    if (challenge === undefined) problems.add(PART, "challenge", where);
    else if (!isCharge(challenge)) problems.add(PART, "unknown_method", `${where}.method`);
    else return checkCharge(problems, challenge, { where, nowSec });
    return [];
  });
}

function checkCharge(
  problems: Problems,
  challenge: Challenge,
  { where, nowSec }: { readonly where: string; readonly nowSec: number },
): Price[] {
  const { expires, header } = challenge;
  const add = (code: Parameters<Problems["add"]>[1], field: string) => problems.add(PART, code, `${where}.${field}`);
  const endSec = expires === undefined ? undefined : expirySecOf(expires);
  if (expires !== undefined && endSec === undefined) add("expires", "expires");
  if (endSec !== undefined && endSec <= nowSec) add("expired", "expires");
  if (header !== undefined && header !== HEADER.paymentAuthorization) add("credential_header", "header");
  const request = decodeJsonHeader(challenge.request);
  const details = request?.methodDetails;
  if (!request || !isObject(details)) {
    add("request", request ? "request.methodDetails" : "request");
    return [];
  }
  const { currency, recipient } = request;
  const amount = parseAmount(request.amount);
  if (amount === undefined) add("amount", "request.amount");
  else if (amount === 0n) add("zero_amount", "request.amount");
  const address = { part: PART, isEvm: true } as const;
  checkAddress(problems, { ...address, value: currency, code: "asset", where: `${where}.request.currency` });
  checkAddress(problems, { ...address, value: recipient, code: "pay_to", where: `${where}.request.recipient` });
  const { chainId, credentialTypes, decimals, splits } = details;
  if (!Array.isArray(credentialTypes) || !credentialTypes.includes(CREDENTIAL_TYPE)) {
    add("credential_types", "request.methodDetails.credentialTypes");
  }
  if (splits !== undefined) add("splits", "request.methodDetails.splits");
  if (!Number.isSafeInteger(chainId) || (chainId as number) <= 0) {
    add("chain_id", "request.methodDetails.chainId");
    return [];
  }
  if (!isAddress(currency)) return [];
  const token = knownToken(networkOfChain(chainId as number), currency);
  if (token === undefined) add("unknown_token", "request.currency");
  else if (decimals !== undefined && decimals !== token.decimals) add("decimals", "request.methodDetails.decimals");
  if (amount === undefined || !isAddress(recipient)) return [];
  const lower = { asset: currency.toLowerCase(), payTo: recipient.toLowerCase() };
  return [{ chainId: chainId as number, ...lower, scheme: "exact", method: "eip3009", amount }];
}
