/** Signed refunds in their wire form. */
import type { RefundRequestWire } from "turnpike/facilitator";
import {
  type Address,
  type RefundTarget,
  refundedIdOf,
  refundNonce,
  signDigest,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import type { RefundRequest } from "../../../facilitator/src/payments";
import type { FacilitatorWorld, Payer } from "../../support/facilitator";
import { authorizationToWire } from "./payments";

export interface RefundFields {
  readonly account: Payer;
  readonly to: Address;
  readonly amount: bigint;
  readonly target: RefundTarget;
  readonly index?: number;
  /** seconds from now, by the chain */
  readonly validForSec?: number;
}

export async function signRefund(world: FacilitatorWorld, fields: RefundFields): Promise<RefundRequest> {
  const { account, to, amount, target, index = 0, validForSec = 300 } = fields;
  const { contracts, chain } = world;
  const authorization = {
    from: account.address,
    to,
    value: amount,
    validAfter: 0n,
    validBefore: BigInt((await world.nowSec()) + validForSec),
    nonce: refundNonce(refundedIdOf({ chainId: chain.chainId, turnpike: contracts.turnpike }, target), index),
  };
  const { token, tokenName: name, tokenVersion: version, network } = contracts;
  const data = transferTypedData({ chainId: chain.chainId, token, name, version }, authorization);
  return { network, token, target, index, authorization, signature: signDigest(typedDataDigest(data), account.key) };
}

export const refundToWire = (refund: RefundRequest): RefundRequestWire => ({
  ...refund,
  authorization: authorizationToWire(refund.authorization),
});
