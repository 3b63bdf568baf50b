/** Issues `sign-in-with-x` challenges: the text that a wallet signs, bound to one method and resource by a MAC. */
import { hmacSha256, type MemoKey, randomSalt, toHex, utf8ToBytes } from "../../protocol";
import type { Settings } from "./settings";

/** Seconds for which a challenge may be answered; the clients' own limit too. */
export const SIGN_IN_LIFE_SEC = 300;

export const SALT_BYTES = 12;

export const MAC_BYTES = 16;

export interface SignInPlace {
  readonly method: string;
  readonly resource: string;
}

/** Returns the `info` of the extension: what the wallet is asked to sign. */
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

export function macOf(key: MemoKey, { method, resource }: SignInPlace, issuedAt: string, salt: Uint8Array): Uint8Array {
  const message = JSON.stringify(["sign-in", method, resource, issuedAt, toHex(salt)]);
  return hmacSha256(key.secret, utf8ToBytes(message)).slice(0, MAC_BYTES);
}
