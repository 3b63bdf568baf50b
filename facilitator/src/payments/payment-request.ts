/** A payment as requested through one of the two channels, before any of it is verified. The database column is `door`. */
import {
  type Address,
  type ErrorCode,
  findNetwork,
  type Hex,
  keccakText,
  keySignature,
  parseMemo,
  paymentNonce,
  resourceWithoutQuery,
  type SignedPayment,
  TurnpikeError,
  type TurnpikeErrorOptions,
} from "turnpike/protocol";
import { unwrapSignature, type WalletDeployment } from "../chain/undeployed-wallet";
import { type FacilitatorConfig, findToken } from "../config";
import type { TokenConfig } from "../config/chain";
import type { PaymentChannel } from "../db/tables/payments";
import { isSignedByKey } from "./payer-key";
import type { RefundOf } from "./refunds";
import { type Authorization, EIP3009, idOfPayment, type Transfer } from "./transfer";

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
  readonly transfer: Transfer;
  /** without the wrapper of ERC-6492: what the token is sent */
  readonly signature: Hex;
  /** set when the signature came in that wrapper: how to deploy the payer's wallet */
  readonly deployment?: WalletDeployment;
  readonly resourceHash: Hex;
  /** origin and path */
  readonly resourceShown: string;
  /** ties the payment to a request of the provider's; undefined when none is named */
  readonly memo: string | undefined;
  /** unix seconds after which the memo is worthless, if it says so */
  readonly memoExpiresAtSec: number | undefined;
}

/** Stable reason of a refusal, sent beside the error code. */
export type RefusalReason =
  | "network"
  | "method"
  | "token"
  | "payee"
  | "amount"
  | "resource"
  | "nonce"
  | "not_yet_valid"
  | "expired"
  | "window_too_long"
  | "signature"
  | "wallet_factory"
  | "wallet_deployment"
  | "funds"
  | "allowance"
  | "permit_expired"
  | "settler"
  | "above_maximum"
  | "spender"
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
  | "gas"
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
  /** absent: the token's EIP-3009 */
  readonly transfer?: Transfer;
  readonly signature: Hex;
  /** "" when a stock server names none: x402 version 2 does not require it */
  readonly resource: string;
  readonly memo?: string | undefined;
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
  const { authorization, transfer = EIP3009 } = facts;
  if (transfer.method !== "eip3009" && !config.permit2) {
    return refusal("PaymentNotAllowed", "method", "this Facilitator does not settle payments over Permit2");
  }
  // Only payees are restricted; a refund goes to a payer.
  if (channel !== "refund" && config.payTo && !config.payTo.includes(authorization.to)) {
    return refusal("PaymentNotAllowed", "payee", `this Facilitator does not settle payments to ${authorization.to}`);
  }
  const isWaived = transfer.method === "upto" && authorization.value === 0n;
  if (authorization.value < token.minAmount && !isWaived) {
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
  // Permit2 calls the payer's wallet itself, so a wallet must be there already.
  const signed = transfer.method === "eip3009" ? unwrapSignature(facts.signature) : { signature: facts.signature };
  if (!signed) {
    return refusal("InvalidSignature", "signature", "the signature's ERC-6492 wrapper is malformed");
  }
  const isOwn = (signature: Hex): boolean => isSignedByKey(config, { token, authorization, transfer, signature });
  return {
    channel,
    purchase: facts.purchase,
    paymentId: idOfPayment(config.chainId, token.address, authorization, transfer),
    token,
    authorization,
    transfer,
    ...signed,
    signature: keySignature(signed.signature, isOwn),
    resourceHash: keccakText(facts.resource),
    resourceShown: isNamed ? resourceWithoutQuery(facts.resource) : "",
    memo: facts.memo === undefined ? undefined : storedMemo(facts.memo),
    memoExpiresAtSec,
  };
}

/** Returns the memo as the database has it, which stores neither NUL nor half of a surrogate pair. */
export const storedMemo = (memo: string): string => Buffer.from(memo).toString().replaceAll("\0", "\ufffd");

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
  /** parked: nothing is sent, because the chain already has the evidence; waived: nothing is charged */
  readonly state: "queued" | "parked" | "waived";
  /** names the request's span in its trace, where that is kept */
  readonly traceparent?: string | undefined;
}
