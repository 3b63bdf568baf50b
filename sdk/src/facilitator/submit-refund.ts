/** Signs a refund with the payee's or the provider's own wallet, and has the Facilitator settle it. */
import {
  type Address,
  caip2Of,
  type Hex,
  type RefundTarget,
  refundedIdOf,
  refundNonce,
  type TurnpikeDeployment,
  type TypedData,
  transferTypedData,
  Unavailable,
} from "../protocol";
import { aBigint, aNumber, aText, callback, fieldsOf } from "../protocol/arguments";
import { windowTimeSec } from "../protocol/periods";
import type { CallOptions, FacilitatorClient, RefundOutcome } from "./client";

/** What to refund, to whom, and who signs; amounts in base units. */
export interface WantedRefund {
  readonly target: RefundTarget;
  /** counts the refunds of one target; default 0. The same one is refunded once, however often it is submitted. */
  readonly index?: number;
  readonly amount: bigint;
  readonly token: Address;
  /** who paid, and is refunded */
  readonly payer: Address;
  /** the payee or the provider, of the payment or of now: the money is its own */
  readonly account: Address;
  /** the chain and contract: nothing is signed for others, whatever the Facilitator reports */
  readonly deployment: TurnpikeDeployment;
  /** how long the transfer can be mined, seconds; default 600 */
  readonly validForSec?: number;
  /** Signs with the account's wallet. */
  sign(data: TypedData): Promise<Hex>;
}

/**
 * Signs and submits a refund. After `pending` or Unavailable call it again with the same values: the token accepts the
 * target and index once.
 * @throws Unavailable when there was no usable answer; ask again
 */
export async function submitRefund(
  client: Pick<FacilitatorClient, "account" | "refund">,
  wanted: WantedRefund,
  call: CallOptions = {},
): Promise<RefundOutcome> {
  for (const name of ["account", "refund"] as const) callback(fieldsOf(client, "client")[name], `client.${name}`);
  aBigint(fieldsOf(wanted, "wanted").amount, "wanted.amount");
  callback(wanted.sign, "wanted.sign");
  fieldsOf(wanted.target, "wanted.target");
  for (const name of ["token", "payer", "account"] as const) aText(wanted[name], `wanted.${name}`);
  aNumber(fieldsOf(wanted.deployment, "wanted.deployment").chainId, "wanted.deployment.chainId");
  const { target, index = 0, amount, token, payer, account, deployment, validForSec = 600 } = wanted;
  const asked = { ...call, network: caip2Of(deployment.chainId) };
  const found = await client.account({ address: account, token }, asked);
  if (found.kind === "refused") return found;
  const { chainId, network, tokenName: name, tokenVersion: version, chainTimeSec } = found.value;
  if (chainId !== deployment.chainId)
    throw new Unavailable(`The Facilitator is on chain ${chainId}: nothing was signed.`);
  const authorization = {
    from: account,
    to: payer,
    value: amount,
    validAfter: 0n,
    validBefore: BigInt(windowTimeSec(chainTimeSec, network) + validForSec),
    nonce: refundNonce(refundedIdOf(deployment, target), index),
  };
  const signature = await wanted.sign(transferTypedData({ chainId, token, name, version }, authorization));
  const { value, validAfter, validBefore, ...parties } = authorization;
  const times = { validAfter: validAfter.toString(), validBefore: validBefore.toString() };
  const signed = { authorization: { ...parties, ...times, value: value.toString() }, signature };
  return client.refund({ network, token, target, index, ...signed }, call);
}
