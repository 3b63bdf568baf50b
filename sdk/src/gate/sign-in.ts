/**
 * `sign-in-with-x`: a subscriber may prove who it is by its wallet's signature instead of `subscription.id`. The gate
 * issues a challenge for one method and resource and keeps no record of it; a challenge that was granted is used up.
 */

import { isContractSignature } from "../chain/contract-signature";
import { hasCode } from "../chain/rpc";
import {
  caip2Of,
  decodeJsonHeader,
  equalConstantTime,
  type Hex,
  hmacSha256,
  keccakText,
  type MemoKey,
  personalDigest,
  randomSalt,
  SIGNATURE_65,
  type SignIn,
  signInMessage,
  signInSchema,
  toHex,
  utf8ToBytes,
} from "../protocol";
import { holdClaim } from "./claims/held-claim";
import type { SubscriptionVerdict } from "./judge-subscription";
import { recoverSigner } from "./recover-signer";
import type { Room } from "./room";
import type { Settings } from "./settings";

/** Seconds for which a challenge may be answered; the clients' own limit too. */
export const SIGN_IN_LIFE_SEC = 300;
/** What clocks may differ by. */
const SLACK_SEC = 60;
const SALT_BYTES = 12;
const MAC_BYTES = 16;

export interface SignInPlace {
  readonly method: string;
  readonly resource: string;
}

/** The `info` of the extension: what the wallet is asked to sign. */
export function signInChallenge({ memoKeys }: Settings, place: SignInPlace, nowSec: number) {
  const issuedAt = isoOf(nowSec);
  const salt = randomSalt().subarray(0, SALT_BYTES);
  const mac = macOf(memoKeys[0], place, issuedAt, salt);
  return {
    domain: new URL(place.resource).host,
    uri: place.resource,
    version: "1",
    statement: "Use your subscription.",
    nonce: `${toHex(salt).slice(2)}${toHex(mac).slice(2)}`,
    issuedAt,
    expirationTime: isoOf(nowSec + SIGN_IN_LIFE_SEC),
  };
}

const isoOf = (sec: number): string => new Date(sec * 1_000).toISOString();

function macOf(key: MemoKey, { method, resource }: SignInPlace, issuedAt: string, salt: Uint8Array): Uint8Array {
  const message = JSON.stringify(["sign-in", method, resource, issuedAt, toHex(salt)]);
  return hmacSha256(key.secret, utf8ToBytes(message)).slice(0, MAC_BYTES);
}

export type SignInFault = "malformed" | "chain" | "domain" | "uri" | "nonce" | "expired" | "signature" | "replayed";

const MESSAGES: Readonly<Record<SignInFault, string>> = {
  malformed: "SIGN-IN-WITH-X holds no sign-in: base64 of a JSON object with the fields of the extension.",
  chain: "The sign-in is for another chain than the subscriptions.",
  domain: "The sign-in is for another domain.",
  uri: "The sign-in is for another resource; answer the challenge of this request's own 402.",
  nonce: "The sign-in answers no challenge of this provider for this method and resource.",
  expired: "The challenge is too old, or not valid yet; answer the fresh one.",
  signature: "The sign-in is not signed by the account that it names.",
  replayed: "This sign-in was used; each challenge grants one request.",
};

export function signInRefusal(fault: SignInFault): SubscriptionVerdict {
  const refusal = { code: "SubscriptionNotActive", reason: `sign_in_${fault}`, message: MESSAGES[fault] } as const;
  return { kind: "refused", refusal };
}

/** @returns who signed in, or what is wrong. @throws Unavailable when a contract wallet would have to be asked */
export async function readSignIn(room: Room, place: SignInPlace, header: string): Promise<SignIn | SignInFault> {
  const parsed = signInSchema.safeParse(decodeJsonHeader(header));
  if (!parsed.success) return "malformed";
  const signIn = parsed.data;
  const { settings, time } = room;
  if (signIn.chainId !== caip2Of(settings.network.chainId)) return "chain";
  if (signIn.domain !== new URL(place.resource).host) return "domain";
  if (signIn.uri !== place.resource) return "uri";
  if (!isOurs(signIn, place, settings)) return "nonce";
  if (!isTimely(signIn, time.nowSec())) return "expired";
  return (await isSignedByAccount(room, signIn)) ? signIn : "signature";
}

function isOurs({ nonce, issuedAt }: SignIn, place: SignInPlace, { memoKeys }: Settings): boolean {
  if (!/^[0-9a-f]+$/.test(nonce) || nonce.length !== 2 * (SALT_BYTES + MAC_BYTES)) return false;
  const bytes = Uint8Array.from(Buffer.from(nonce, "hex"));
  const salt = bytes.subarray(0, SALT_BYTES);
  return memoKeys.some((key) => equalConstantTime(bytes.subarray(SALT_BYTES), macOf(key, place, issuedAt, salt)));
}

function isTimely({ issuedAt, expirationTime, notBefore }: SignIn, nowSec: number): boolean {
  const at = (text: string) => Date.parse(text) / 1_000;
  const age = nowSec - at(issuedAt);
  if (age < -SLACK_SEC || age > SIGN_IN_LIFE_SEC) return false;
  if (expirationTime !== undefined && at(expirationTime) <= nowSec) return false;
  return notBefore === undefined || at(notBefore) <= nowSec + SLACK_SEC;
}

async function isSignedByAccount({ rpc }: Room, signIn: SignIn): Promise<boolean> {
  const { address, signature } = signIn;
  const digest = personalDigest(signInMessage(signIn));
  if (SIGNATURE_65.test(signature) && recoverSigner(digest, signature) === address) return true;
  if (!rpc || !(await hasCode(rpc, address))) return false;
  return isContractSignature(rpc, { wallet: address, digest, signature });
}

/** One challenge grants one request, also across processes that share a claim store. */
export async function useUp({ claims, time }: Room, { nonce, issuedAt }: SignIn): Promise<boolean> {
  const key: Hex = keccakText(JSON.stringify(["sign-in", nonce]));
  const keepUntilSec = Math.ceil(Date.parse(issuedAt) / 1_000) + SIGN_IN_LIFE_SEC + 2 * SLACK_SEC;
  const nowSec = time.nowSec();
  const attempt = await holdClaim({ store: claims, paymentId: key, keepUntilSec, nowSec, nowMs: Date.now });
  if (attempt.kind !== "held") return false;
  await attempt.claim.settle("use");
  return true;
}
