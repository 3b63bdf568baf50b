/** A payment as requested through one of the two channels, before any of it is verified. The database column is `door`. */
import {
  type Address,
  type ErrorCode,
  findNetwork,
  type Hex,
  keccakText,
  parseMemo,
  paymentIdOf,
  paymentNonce,
  resourceWithoutQuery,
  type SignedPayment,
  TurnpikeError,
  type TurnpikeErrorOptions,
} from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { TokenConfig } from "../config/chain";
import type { PaymentChannel } from "../db/tables/payments";
import type { RefundOf } from "./refunds";

export interface Authorization {
  readonly from: Address;
  readonly to: Address;
  readonly value: bigint;
  /** unix seconds, exclusive */
  readonly validAfter: bigint;
  /** unix seconds, exclusive */
  readonly validBefore: bigint;
  readonly nonce: Hex;
}

/** The purchase that an x402 payment is for. */
export interface Purchase {
  readonly grantId: Hex;
  /**
   * true when a gate named the purchase and can ask for it again; a stock server's purchase is created here and ends
   * with its request
   */
  readonly isGate: boolean;
}

export interface PaymentRequest {
  readonly channel: PaymentChannel;
  /** set for x402 payments; a native payment names its purchase in its nonce */
  readonly purchase: Purchase | undefined;
  /** set for refunds */
  readonly refund?: RefundOf;
  readonly paymentId: Hex;
  readonly token: TokenConfig;
  readonly authorization: Authorization;
  readonly signature: Hex;
  readonly resourceHash: Hex;
  /** origin and path */
  readonly resourceShown: string;
  /** unix seconds after which the memo is worthless, if it says so */
  readonly memoExpiresAtSec: number | undefined;
}

/** Stable reason of a refusal, sent beside the error code. */
export type RefusalReason =
  | "network"
  | "token"
  | "payee"
  | "amount"
  | "resource"
  | "nonce"
  | "not_yet_valid"
  | "expired"
  | "window_too_long"
  | "signature"
  | "funds"
  | "nonce_used"
  | "other_contents"
  | "other_door"
  | "refund_account"
  | "refund_cap"
  | "not_paid"
  | "granted"
  | "not_moved"
  | "busy"
  | "losses"
  | "reservations"
  | "relayer";

export function refusal(
  code: ErrorCode,
  reason: RefusalReason,
  message: string,
  options: TurnpikeErrorOptions = {},
): TurnpikeError {
  return new TurnpikeError(code, message, { ...options, reason });
}

export interface RequestedFacts {
  readonly purchase?: Purchase;
  readonly network: string;
  readonly token: Address;
  readonly authorization: Authorization;
  readonly signature: Hex;
  /** "" when a stock server names none: x402 version 2 does not require it */
  readonly resource: string;
}

/**
 * Builds the request of a native payment. Its nonce must be the hash of memo reference and resource, so that the payer
 * has signed what it buys.
 */
export function requestOfSignedPayment(
  config: FacilitatorConfig,
  signed: SignedPayment,
): PaymentRequest | TurnpikeError {
  const memo = parseMemo(signed.memo);
  if (paymentNonce(memo?.ref ?? signed.memo, signed.resource) !== signed.authorization.nonce) {
    return refusal("InvalidRequest", "nonce", "the authorization's nonce does not match this memo and resource");
  }
  return requestOf(config, "authorize", signed, memo?.expiresAtSec);
}

export function requestOf(
  config: FacilitatorConfig,
  channel: PaymentChannel,
  facts: RequestedFacts,
  memoExpiresAtSec?: number,
): PaymentRequest | TurnpikeError {
  if (findNetwork(facts.network)?.chainId !== config.chainId) {
    return refusal("PaymentNotAllowed", "network", `this Facilitator settles on ${config.network.name}`);
  }
  const token = findToken(config, facts.token);
  if (!token) return refusal("PaymentNotAllowed", "token", `this Facilitator does not settle token ${facts.token}`);
  const { authorization } = facts;
  // Only payees are restricted; a refund goes to a payer.
  if (channel !== "refund" && config.payTo && !config.payTo.includes(authorization.to)) {
    return refusal("PaymentNotAllowed", "payee", `this Facilitator does not settle payments to ${authorization.to}`);
  }
  if (authorization.value < token.minAmount) {
    return refusal(
      "PaymentNotAllowed",
      "amount",
      `this Facilitator does not settle amounts below ${token.minAmount} base units`,
    );
  }
  const isNamed = facts.resource !== "" || channel === "authorize";
  if (isNamed && !URL.canParse(facts.resource)) {
    return refusal("InvalidRequest", "resource", "resource is not a URL");
  }
  return {
    channel,
    purchase: facts.purchase,
    paymentId: paymentIdOf({
      chainId: config.chainId,
      token: token.address,
      payer: authorization.from,
      nonce: authorization.nonce,
    }),
    token,
    authorization,
    signature: facts.signature,
    resourceHash: keccakText(facts.resource),
    resourceShown: isNamed ? resourceWithoutQuery(facts.resource) : "",
    memoExpiresAtSec,
  };
}

/**
 * Result of binding a payment.
 * `known`: the payment id already has a row, in any state.
 * `short`: the payer's pending payments leave too little.
 * `granted`: another purchase has reserved it, or it bought something else before its block was reverted.
 */
export type Binding = "bound" | "known" | "short" | "granted";

export interface Acceptance {
  readonly chainId: number;
  readonly request: PaymentRequest;
  readonly hasCode: boolean;
  /** as read at `atBlock` */
  readonly balance: bigint;
  readonly atBlock: number;
  /** parked: nothing is sent, because the chain already has the evidence */
  readonly state: "queued" | "parked";
}
