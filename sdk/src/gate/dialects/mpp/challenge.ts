/**
 * Issues challenges, and proves them genuine. A challenge's id is the memo's ref: the same for one Idempotency-Key, and its
 * authorization's nonce with it. What the draft binds to nothing, such as URL and body, is bound by a MAC over every
 * parameter, which clients send back in `opaque`.
 */
import {
  decodeJsonHeader,
  equalConstantTime,
  fromBase64Url,
  HEADER,
  hmacSha256,
  type MemoKey,
  memberOf,
  sha256,
  toBase64Url,
  utf8ToBytes,
} from "../../../protocol";
import {
  CHARGE_INTENT,
  CHARGE_METHOD,
  type Challenge,
  type CREDENTIAL_META,
  CREDENTIAL_TYPE,
  challengeText,
  encodeCanonical,
} from "../../../protocol/payment-auth";
import {
  MAX_TIMEOUT_SEC,
  methodOf,
  type Offer,
  type QuoteRequest,
  refOf,
  schemeOf,
  soldSingly,
} from "../../core/offers";
import type { ProviderOptions } from "../../core/options";
import type { PaymentCase } from "../../core/payment-case";
import { isLoopback, quotedMethod } from "../../core/resource";
import { eip3009 } from "../../methods";

/** In which header a client sends its credential, or under which key of `_meta`. */
export type CredentialHeader = NonNullable<ProviderOptions["mpp"]> | typeof CREDENTIAL_META;

/** As a challenge names it: the default is not named. */
export const headerParameter = (header: CredentialHeader): string | undefined =>
  header === HEADER.paymentAuthorization ? header : undefined;

/** What the challenges of one 402 may take, so that an entry still fits into PAYMENT-REQUIRED. */
const MAX_CHALLENGES_BYTES = 1_400;

const MAC_BYTES = 16;

/** Of tools over a pipe, whose provider has no address. */
const LOCAL_URL = "http://localhost";

/** What a challenge is bound to besides its own parameters. */
export interface Place {
  readonly method: string;
  readonly resource: string;
  readonly bodyHash: string | undefined;
}

export const placeOf = ({ quotedMethod: method, resource, bodyHash }: PaymentCase): Place => ({
  method,
  resource,
  bodyHash,
});

/** Returns whether a challenge can ask for an offer. */
export const isCharged = (offer: Offer): boolean => methodOf(offer) === eip3009 && schemeOf(offer) === "exact";

/** Returns the value of WWW-Authenticate: the cheapest offers first, as many as fit. Empty where none can be sold so. */
export function challengesFor(asked: QuoteRequest, header: CredentialHeader): string {
  const { request, settings, resource, bodyHash, offers, presentation } = asked;
  // A tool's own URL names no host.
  const { protocol, host } = new URL(request.resource === undefined ? resource : (settings.publicUrl ?? LOCAL_URL));
  // Nobody may read along, or send the credential elsewhere.
  if (protocol !== "https:" && !isLoopback(host)) return "";
  const place = { method: quotedMethod(request, settings), resource, bodyHash };
  let list = "";
  for (const offer of soldSingly(offers, presentation)) {
    if (!isCharged(offer)) continue;
    const text = challengeText(sealed(settings.memoKeys[0], challengeOf(asked, { offer, realm: host, header }), place));
    if (list.length + text.length > MAX_CHALLENGES_BYTES) break;
    list += list === "" ? text : `, ${text}`;
  }
  return list;
}

interface Offered {
  readonly offer: Offer;
  readonly realm: string;
  readonly header: CredentialHeader;
}

function challengeOf(asked: QuoteRequest, { offer, realm, header }: Offered): Challenge {
  const { settings, time } = offer.context;
  const { decimals } = settings.token ?? {};
  const { chainId } = settings.network;
  const lifeSec = Math.min(settings.quoteLifeSec, MAX_TIMEOUT_SEC);
  return {
    id: refOf(asked),
    realm,
    method: CHARGE_METHOD,
    intent: CHARGE_INTENT,
    request: encodeCanonical({
      amount: offer.amount.toString(),
      currency: offer.token.address,
      methodDetails: { chainId, credentialTypes: [CREDENTIAL_TYPE], ...(decimals !== undefined && { decimals }) },
      recipient: offer.payTo,
    }),
    expires: timeText(time.latestSec() + lifeSec),
    digest: digestOf(asked),
    header: headerParameter(header),
  };
}

/** Returns the digest of the body that was quoted for, as RFC 9530 writes it; undefined where none is bound. */
function digestOf({ body, request }: QuoteRequest): string | undefined {
  // What a tool call is bound to is no body that its client has sent.
  if (body === undefined || body.byteLength === 0 || request.resource !== undefined) return undefined;
  return `sha-256=:${Buffer.from(sha256(body)).toString("base64")}:`;
}

export const timeText = (sec: number): string => new Date(sec * 1_000).toISOString().replace(".000Z", "Z");

const sealed = (key: MemoKey, challenge: Challenge, place: Place): Challenge => ({
  ...challenge,
  opaque: encodeCanonical({ mac: `${key.id}.${toBase64Url(macOf(key, challenge, place))}` }),
});

/** Returns whether one of `keys` issued this challenge, unchanged, for this place. Says nothing about its expiry. */
export function isGenuine(challenge: Challenge, place: Place, keys: readonly MemoKey[]): boolean {
  const given = memberOf(challenge.opaque === undefined ? undefined : decodeJsonHeader(challenge.opaque), "mac");
  const [keyId, text = ""] = typeof given === "string" ? given.split(".") : [];
  const key = keys.find(({ id }) => id === keyId);
  const mac = fromBase64Url(text);
  return key !== undefined && mac !== undefined && equalConstantTime(mac, macOf(key, challenge, place));
}

/** Over every parameter but the description, which is for people, and `opaque` itself. */
function macOf(key: MemoKey, challenge: Challenge, { method: of, resource, bodyHash }: Place): Uint8Array {
  const { id, realm, method, intent, request, expires, digest, header } = challenge;
  const parameters = [id, realm, method, intent, request, expires, digest ?? null, header ?? null];
  const message = JSON.stringify(["mpp", key.id, ...parameters, of, resource, bodyHash ?? null]);
  return hmacSha256(key.secret, utf8ToBytes(message)).subarray(0, MAC_BYTES);
}
