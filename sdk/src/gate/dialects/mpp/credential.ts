/** Reads the credential that answers a challenge, and checks what it pays: a transfer by EIP-3009, of the scheme `exact`. */
import type { X402RequestWire } from "../../../facilitator/x402";
import { caip2Of, decodeJsonHeader, InvalidPaymentProof, type JsonObject, TurnpikeError } from "../../../protocol";
import {
  type ChargeCredential,
  type ChargeRequest,
  challengeNonce,
  chargeIn,
  credentialSchema,
  expirySecOf,
  sourceOf,
} from "../../../protocol/payment-auth";
import { DAY_SEC } from "../../../protocol/periods";
import { MAX_TIMEOUT_SEC } from "../../core/offers";
import { type Candidate, invalid, type PaymentCase, type PaymentVerdict } from "../../core/payment-case";
import type { GateRequest } from "../../core/request";
import { requireToken } from "../../core/terms";
import { eip3009, readable, signedByToken } from "../../methods";
import { checkPresented, verdictOfFault } from "../../schemes/transfer";
import { singleHeader } from "../dialect";
import { answersTo } from "./answers";
import { type CredentialHeader, headerParameter, isGenuine, placeOf } from "./challenge";

/** What a credential holds; undefined: it is no base64url of one JSON object. */
export interface Presented {
  readonly payload: JsonObject | undefined;
}

/** Whatever else the header holds is the application's own. */
const SCHEME = /(?:^|,)\s*payment(?:\s|$)/i;

const CREDENTIAL = /^payment +([\w-]+)$/i;

export const bearsCredential = (request: Pick<GateRequest, "header">, header: CredentialHeader): boolean =>
  SCHEME.test(request.header(header.toLowerCase()) ?? "");

/** @throws AmbiguousCredentials for two of them, or one that is too large */
export function readCredential(request: GateRequest, header: CredentialHeader): Presented | undefined {
  if (!bearsCredential(request, header)) return undefined;
  const [, text] = CREDENTIAL.exec(singleHeader(request, header.toLowerCase())?.trim() ?? "") ?? [];
  return { payload: text === undefined ? undefined : decodeJsonHeader(text) };
}

/** Returns what a credential pays with, as its challenge named it: nothing of it is proven. */
export function chargeOf({ payload }: Presented): ChargeRequest | undefined {
  const { data } = credentialSchema.safeParse(payload);
  return data && chargeIn(data.challenge);
}

/** @throws InvalidPaymentProof that names the first wrong field */
function parsed({ payload }: Presented, header: CredentialHeader): ChargeCredential {
  const read = credentialSchema.safeParse(payload);
  if (read.success) return read.data;
  const field = read.error.issues[0]?.path.join(".") || "credential";
  throw new InvalidPaymentProof(`${header} holds a malformed Payment credential: field ${field} is missing or wrong`, {
    reason: "malformed",
  });
}

/** Checks a credential. It claims and moves nothing. @throws InvalidPaymentProof, PayloadConflict, Unavailable */
export async function checkCredential(
  presented: Presented,
  header: CredentialHeader,
  at: PaymentCase,
): Promise<Candidate | PaymentVerdict> {
  const { challenge, payload, source } = parsed(presented, header);
  const { settings, terms, time } = at.context;
  const expiresSec = expirySecOf(challenge.expires ?? "");
  const charge = chargeIn(challenge);
  if (
    challenge.header !== headerParameter(header) ||
    expiresSec === undefined ||
    !charge ||
    !isGenuine(challenge, placeOf(at), settings.memoKeys)
  ) {
    return invalid("memo", "The challenge was not issued here for this method, URL and body, or it was changed.");
  }
  const { amount, currency, recipient, methodDetails } = charge;
  const { chainId } = settings.network;
  if (methodDetails.chainId !== chainId) return verdictOfFault("network");
  const { type: _type, signature: given, ...authorization } = payload;
  if (authorization.to !== recipient || authorization.value !== amount) {
    return invalid("terms", "The authorization does not pay what its challenge asks for: amount and recipient.");
  }
  if (authorization.nonce !== challengeNonce(challenge)) {
    return invalid("terms", "The authorization's nonce is not the hash of its challenge's id and realm.");
  }
  if (source !== undefined && source.toLowerCase() !== sourceOf(chainId, authorization.from).toLowerCase()) {
    return invalid("signature", "The credential's source is not the payer of its authorization.");
  }
  // By then claims may be forgotten, and a challenge would be paid in addition.
  if (time.nowSec() >= Number(authorization.validBefore) + DAY_SEC) {
    throw new TurnpikeError(
      "PayloadConflict",
      "This credential ended more than a day ago: request the resource again.",
    );
  }
  const token = requireToken(terms, currency);
  const signed = readable(signedByToken({ authorization, signature: given }, { chainId, token }));
  const accepted = {
    scheme: "exact" as const,
    network: caip2Of(chainId),
    amount: amount.toString(),
    asset: token.address,
    payTo: recipient,
    maxTimeoutSeconds: MAX_TIMEOUT_SEC,
    extra: { name: token.name, version: token.version },
  };
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const settlement: X402RequestWire = {
    paymentPayload: {
      x402Version: 2,
      payload: {
        signature: signed.signature,
        authorization: {
          ...{ from, to, nonce },
          value: value.toString(),
          validAfter: validAfter.toString(),
          validBefore: validBefore.toString(),
        },
      },
      accepted,
    },
    paymentRequirements: accepted,
  };
  const isLate = time.latestSec() >= expiresSec;
  const answers = { dialect: answersTo(challenge.id), dialectName: "mpp" } as const;
  return checkPresented({ ...signed, ...answers, scheme: "exact", method: eip3009, token, settlement, isLate }, at);
}
