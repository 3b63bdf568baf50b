/**
 * Reads the body of `/verify` and `/settle` as the payment that it asks for. The server's requirements define the
 * purchase, never the payload. Refusals are words of the reference.
 */
import type { X402Request } from "turnpike/facilitator";
import {
  type Address,
  EIP2612_GAS_SPONSORING,
  gasSponsoringInfoSchema,
  isEip3009,
  isPermit2,
  memoSchema,
  PERMIT2,
  type Permit2Authorization,
  permit2AuthorizationOf,
  permit2NonceOf,
  proxyOf,
} from "turnpike/protocol";
import type { ExactRequest, X402Reason } from "../../payments/exact";
import { purchaseOfServer } from "../../payments/grants";
import type { TokenPermit, Transfer } from "../../payments/transfer";

type Requirements = X402Request["paymentRequirements"];

/** What the payer signed, and how it moves. */
type Signed = Pick<ExactRequest, "authorization" | "signature" | "transfer">;

/**
 * @param act an `upto` payment is verified at its maximum, and settled at what is charged
 * @returns a reason in the standard's words when the payload was made for other requirements than it is presented with
 */
export function exactRequestOf(request: X402Request, act: "verify" | "settle"): ExactRequest | X402Reason {
  const { paymentPayload, paymentRequirements, grant } = request;
  const { network, asset, payTo, maxTimeoutSeconds } = paymentRequirements;
  const signed = signedOf(request, act);
  if (typeof signed === "string") return signed;
  const purchase = grant ? { grantId: grant.id, isGate: true } : purchaseOfServer();
  const memo = memoSchema.safeParse(paymentRequirements.extra?.memo).data;
  const common = { network, token: asset, payTo, maxTimeoutSec: maxTimeoutSeconds, memo, ...signed, purchase };
  if (paymentPayload.x402Version === 1) {
    if (!("maxAmountRequired" in paymentRequirements) || paymentPayload.network !== network)
      return "invalid_payment_requirements";
    const { maxAmountRequired: amount, resource } = paymentRequirements;
    return grant && grant.resource !== resource ? "invalid_payment_requirements" : { ...common, amount, resource };
  }
  const { accepted } = paymentPayload;
  if (!("amount" in paymentRequirements)) return "invalid_payment_requirements";
  const { amount } = paymentRequirements;
  const named = paymentPayload.resource?.url;
  const resource = grant?.resource ?? named ?? "";
  const isSettlingUpto = accepted.scheme === "upto" && act === "settle";
  const isSame =
    accepted.network === network &&
    accepted.asset === asset &&
    accepted.payTo === payTo &&
    (accepted.amount === amount || isSettlingUpto) &&
    (named === undefined || named === resource);
  return isSame ? { ...common, amount, resource } : "invalid_payment_requirements";
}

function signedOf({ paymentPayload, paymentRequirements }: X402Request, act: "verify" | "settle"): Signed | X402Reason {
  const { payload } = paymentPayload;
  const methods = [paymentRequirements.extra, ...("accepted" in paymentPayload ? [paymentPayload.accepted.extra] : [])];
  if (payload.authorization) {
    if (!methods.every(isEip3009)) return "unsupported_payload_type";
    return { authorization: payload.authorization, signature: payload.signature };
  }
  if (!("accepted" in paymentPayload) || !("amount" in paymentRequirements) || !methods.every(isPermit2))
    return "unsupported_payload_type";
  const authorized = permit2AuthorizationOf(payload);
  const { accepted } = paymentPayload;
  const isUpto = accepted.scheme === "upto";
  const mismatch = mismatchOf(authorized, paymentRequirements, isUpto ? accepted.amount : paymentRequirements.amount);
  if (mismatch) return mismatch;
  const permit = permitOf("extensions" in paymentPayload ? paymentPayload.extensions : undefined, authorized);
  if (typeof permit === "string") return permit;
  const { from, to, amount, nonce, deadline, validAfter, facilitator } = authorized;
  const approval = permit && { permit };
  const transfer: Transfer = facilitator
    ? { method: "upto", max: amount, sender: facilitator, ...approval }
    : { method: "permit2", ...approval };
  const value = isUpto && act === "settle" ? paymentRequirements.amount : amount;
  const window = { validAfter, validBefore: deadline + 1n };
  return {
    authorization: { from, to, value, ...window, nonce: permit2NonceOf(nonce) },
    signature: payload.signature,
    transfer,
  };
}

function mismatchOf(
  { spender, token, amount, facilitator }: Permit2Authorization,
  { asset }: Requirements,
  required: bigint,
): X402Reason | undefined {
  if (spender !== proxyOf(facilitator ? "upto" : "permit2")) return "invalid_permit2_spender";
  if (token !== asset) return "permit2_token_mismatch";
  return amount === required ? undefined : "permit2_amount_mismatch";
}

/** Returns the permit that the payer sent to approve Permit2; what a server merely advertises is none. */
function permitOf(
  extensions: Readonly<Record<string, unknown>> | undefined,
  { from, token, amount }: { readonly from: Address; readonly token: Address; readonly amount: bigint },
): TokenPermit | X402Reason | undefined {
  const info = (extensions?.[EIP2612_GAS_SPONSORING] as { info?: unknown } | undefined)?.info;
  if (typeof info !== "object" || info === null || !("signature" in info)) return undefined;
  const parsed = gasSponsoringInfoSchema.safeParse(info);
  if (!parsed.success) return "invalid_eip2612_extension_format";
  const permit = parsed.data;
  if (permit.from !== from) return "eip2612_from_mismatch";
  if (permit.asset !== token) return "eip2612_asset_mismatch";
  if (permit.spender !== PERMIT2) return "eip2612_spender_not_permit2";
  if (permit.amount !== amount) return "permit2_2612_amount_mismatch";
  return { value: permit.amount, deadline: permit.deadline, signature: permit.signature };
}
