/** Maps signed acts to contract calls: function, arguments and gas. Pure. */
import { encodePermit, encodeVoucher, turnpikeInterface } from "turnpike/chain";
import type { ChangeAct, ChangeRequest, PermitFields, SubscribeRequest, VoidRequest } from "turnpike/facilitator";
import { type Hex, idHashOf, keccakText, ZERO_ADDRESS } from "turnpike/protocol";

/**
 * Gas limits of the acts, from the contract's own limits. A token may use 300,000 gas for a permit and again for a
 * charge, and diagnosis takes 100,000. A contract wallet may use 500,000 for a signature. An act leaves a 64th of the
 * gas behind at each of these calls, and its own steps take less than 200,000. These are limits, not prices: unused gas
 * costs nothing.
 */
const WALLET_GAS = 500_000n;

export const SUBSCRIBE_GAS = 900_000n + WALLET_GAS;

const CHANGE_GAS = 600_000n + WALLET_GAS;

const VOID_GAS = 150_000n + WALLET_GAS;

const RENEW_GAS = 450_000n;

/** A token asks a contract wallet for its signature. */
export const PERMIT_GAS = 300_000n + WALLET_GAS;

export interface ActCall {
  readonly data: Hex;
  readonly gasLimit: bigint;
}

const NO_TERMS = { token: ZERO_ADDRESS, payTo: ZERO_ADDRESS, amount: 0n, interval: 0, months: false };

const encode = (name: string, args: readonly unknown[]): Hex =>
  turnpikeInterface.encodeFunctionData(name, args as unknown[]) as Hex;

export function subscribeCall(request: SubscribeRequest): ActCall {
  const { subscriber, planId, secretHash, maxOverage, until = 0, voucher, deadline, signature } = request;
  const signup = { planId, secretHash, maxOverage, until };
  const args = [subscriber, signup, encodeVoucher(voucher), encodePermit(request.permit), deadline, signature];
  return { data: encode("subscribe", args), gasLimit: SUBSCRIBE_GAS + (voucher ? WALLET_GAS : 0n) };
}

export function voidCall({ subscriber, secretHash, deadline, signature }: VoidRequest): ActCall {
  return { data: encode("void", [subscriber, secretHash, deadline, signature]), gasLimit: VOID_GAS };
}

type Encoder<A extends ChangeAct> = (idHash: Hex, request: ChangeRequest<A>, auth: unknown) => Hex;

const ENCODERS: { readonly [A in ChangeAct]: Encoder<A> } = {
  pause: (idHash, _request, auth) => encode("pause", [idHash, auth]),
  resume: (idHash, { maxCharge }, auth) => encode("resume", [idHash, maxCharge, auth]),
  cancel: (idHash, { atPeriodEnd }, auth) => encode("cancel", [idHash, atPeriodEnd, auth]),
  "max-overage": (idHash, { cap }, auth) => encode("setMaxOverage", [idHash, cap, auth]),
  next: (idHash, { until, nextPlanId, terms }, auth) => {
    const shown = terms ? { ...terms, months: terms.unit === "months" } : NO_TERMS;
    return encode("setNext", [idHash, until, nextPlanId, shown, auth]);
  },
  plan: (idHash, { newPlanId, maxOverage, maxCharge }, auth) =>
    encode("changePlan", [idHash, newPlanId, maxOverage, maxCharge, auth]),
  rekey: (idHash, { newSecretHash }, auth) => encode("rekey", [idHash, newSecretHash, auth]),
};

export function changeCall<A extends ChangeAct>(act: A, idHash: Hex, request: ChangeRequest<A>): ActCall {
  const { version, deadline, signature } = request;
  const encoder: Encoder<A> = ENCODERS[act];
  return { data: encoder(idHash, request, { version, deadline, signature }), gasLimit: CHANGE_GAS };
}

/** Runs the due renewal first, then the change, in one transaction. */
export function renewedFirst(idHash: Hex, change: ActCall): ActCall {
  const renew = encode("renew", [idHash]);
  return { data: encode("multicall", [[renew, change.data]]), gasLimit: change.gasLimit + RENEW_GAS };
}

export function quoteCall(idHash: Hex, newPlanId: Hex): Hex {
  return encode("quoteChange", [idHash, newPlanId]);
}

export function decodeQuote(data: Hex): { readonly charge: bigint; readonly credit: bigint } {
  const [charge, credit] = turnpikeInterface.decodeFunctionResult("quoteChange", data);
  return { charge: charge as bigint, credit: credit as bigint };
}

/** Excludes the permit: the same signed act with another permit is the same act. */
export function actKeyOf(act: string, objectId: Hex, signature: Hex): Hex {
  return keccakText(`${act}|${objectId}|${signature.toLowerCase()}`);
}

/** Returns the record that a rekey creates; otherwise the changed record. */
export function resultingIdHash(
  act: ChangeAct,
  idHash: Hex,
  record: { subscriber: string },
  request: ChangeRequest,
): Hex {
  if (act !== "rekey") return idHash;
  return idHashOf(record.subscriber as `0x${string}`, (request as ChangeRequest<"rekey">).newSecretHash);
}

/** Whether a permit has the form of a key's signature; tokens take any other as bytes. */
export const isKeySignature = (signature: Hex): boolean => signature.length === 132;

export function splitSignature({ signature }: Pick<PermitFields, "signature">): { v: number; r: Hex; s: Hex } {
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)];
  return { v: Number.parseInt(v, 16), r: `0x${r}`, s: `0x${s}` };
}
