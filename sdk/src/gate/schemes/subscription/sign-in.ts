/**
 * Issues and judges `sign-in-with-x`: a subscriber may identify itself by its wallet's signature instead of `subscription.id`. The
 * gate issues a challenge for one method and resource and keeps no record of it; a granted challenge is used up.
 */
import { isContractSignature } from "../../../chain/contract-signature";
import { hasCode } from "../../../chain/views";
import {
  type Address,
  caip2Of,
  decodeJsonHeader,
  equalConstantTime,
  type Hex,
  hmacSha256,
  isTurnpikeError,
  keccakText,
  type MemoKey,
  personalDigest,
  randomBytes,
  randomSalt,
  type SignIn,
  signatureWithV,
  signInMessage,
  signInSchema,
  toHex,
  utf8ToBytes,
} from "../../../protocol";
import { BoundedMap } from "../../../protocol/bounded-map";
import { CLOCK_SLACK_SEC } from "../../../protocol/periods";
import type { GateContext } from "../../core/context";
import type { MeteredRoute } from "../../core/payment";
import type { Settings } from "../../core/settings";
import { recoverSigner } from "../../methods/method";
import { judgeIdHash } from "./judge";
import type { SubscriptionVerdict } from "./payment";

/** How many of a wallet's subscriptions are judged, newest first. */
const MAX_JUDGED = 10;

const MAX_WALLETS = 10_000;

/** The subscriptions that wallets last had; each is judged by the chain again every time. */
const known = new WeakMap<GateContext, BoundedMap<Address, readonly Hex[]>>();

/**
 * Judges whether a `SIGN-IN-WITH-X` grants this request. The Facilitator's index lists a wallet's subscriptions; that
 * each is that wallet's, covers the route and is ACTIVE is read from the chain. So the index can hide a subscription
 * but grant none.
 */
export async function judgeSignIn(
  context: GateContext,
  route: MeteredRoute,
  place: SignInPlace,
  header: string,
): Promise<SubscriptionVerdict> {
  try {
    const signIn = await readSignIn(context, place, header);
    if (typeof signIn === "string") return signInRefusal(signIn);
    const verdict = await judgeWallet(context, route, signIn.address);
    if (verdict.kind !== "grants") return verdict;
    return (await useUp(context, signIn)) ? verdict : signInRefusal("replayed");
  } catch (error) {
    if (isTurnpikeError(error) && error.status === 503) return { kind: "unavailable", cause: error };
    throw error;
  }
}

async function judgeWallet(context: GateContext, route: MeteredRoute, wallet: Address): Promise<SubscriptionVerdict> {
  const remembered = walletsOf(context).get(wallet) ?? [];
  const first = await judgeEach(context, route, wallet, remembered);
  if (first?.kind === "grants") return first;
  const owned = await context.ownedBy(wallet);
  const found = owned
    .filter(({ planId }) => route.planIds.includes(planId))
    .sort((a, b) => Number(b.status === "ACTIVE") - Number(a.status === "ACTIVE"))
    .map(({ idHash }) => idHash);
  walletsOf(context).set(wallet, found);
  return (await judgeEach(context, route, wallet, found)) ?? first ?? NONE;
}

const NONE: SubscriptionVerdict = {
  kind: "refused",
  refusal: {
    code: "SubscriptionNotActive",
    reason: "sign_in_no_subscription",
    message: "This account has no subscription to a plan that covers this resource; see `plans`.",
  },
};

/** @returns the first that grants, else the last answer; undefined when there is nothing to judge */
async function judgeEach(
  context: GateContext,
  route: MeteredRoute,
  wallet: Address,
  idHashes: readonly Hex[],
): Promise<SubscriptionVerdict | undefined> {
  let last: SubscriptionVerdict | undefined;
  for (const idHash of idHashes.slice(0, MAX_JUDGED)) {
    const verdict = await judgeIdHash(context, route, idHash);
    const isForeign = verdict.kind === "grants" && verdict.payment.subscriber !== wallet;
    if (verdict.kind === "grants" && !isForeign) return verdict;
    if (!isForeign) last = verdict;
  }
  return last;
}

function walletsOf(context: GateContext): Map<Address, readonly Hex[]> {
  const wallets = known.get(context) ?? new BoundedMap<Address, readonly Hex[]>(MAX_WALLETS);
  known.set(context, wallets);
  return wallets;
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

/** @returns the sign-in, or what is wrong. @throws Unavailable when a contract wallet cannot be asked */
export async function readSignIn(
  context: GateContext,
  place: SignInPlace,
  header: string,
): Promise<SignIn | SignInFault> {
  const parsed = signInSchema.safeParse(decodeJsonHeader(header));
  if (!parsed.success) return "malformed";
  const signIn = parsed.data;
  const { settings, time } = context;
  if (signIn.chainId !== caip2Of(settings.network.chainId)) return "chain";
  if (signIn.domain !== new URL(place.resource).host) return "domain";
  if (signIn.uri !== place.resource) return "uri";
  if (!isOurs(signIn, place, settings)) return "nonce";
  if (!isTimely(signIn, time.latestSec())) return "expired";
  return (await isSignedByAccount(context, signIn)) ? signIn : "signature";
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
  if (age < -CLOCK_SLACK_SEC || age > SIGN_IN_LIFE_SEC) return false;
  if (expirationTime !== undefined && at(expirationTime) <= nowSec) return false;
  return notBefore === undefined || at(notBefore) <= nowSec + CLOCK_SLACK_SEC;
}

async function isSignedByAccount({ rpc }: GateContext, signIn: SignIn): Promise<boolean> {
  const { address, signature } = signIn;
  const digest = personalDigest(signInMessage(signIn));
  if (recoverSigner(digest, signatureWithV(signature)) === address) return true;
  if (!rpc || !(await hasCode(rpc, address))) return false;
  return isContractSignature(rpc, { wallet: address, digest, signature });
}

/** Uses a challenge up: it grants one request, also across processes that share a claim store. */
export async function useUp({ claims, time }: GateContext, { nonce, issuedAt }: SignIn): Promise<boolean> {
  const key: Hex = keccakText(JSON.stringify(["sign-in", nonce]));
  const keepUntilSec = Math.ceil(Date.parse(issuedAt) / 1_000) + SIGN_IN_LIFE_SEC + 2 * CLOCK_SLACK_SEC;
  const own = toHex(randomBytes(16));
  return (await claims.first(key, own, { keepUntilSec, nowSec: time.nowSec() })) === own;
}

/** Seconds for which a challenge may be answered; the clients' own limit too. */
const SIGN_IN_LIFE_SEC = 300;

const SALT_BYTES = 12;

const MAC_BYTES = 16;

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

function macOf(key: MemoKey, { method, resource }: SignInPlace, issuedAt: string, salt: Uint8Array): Uint8Array {
  const message = JSON.stringify(["sign-in", method, resource, issuedAt, toHex(salt)]);
  return hmacSha256(key.secret, utf8ToBytes(message)).slice(0, MAC_BYTES);
}
