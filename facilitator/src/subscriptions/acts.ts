/** Maps signed acts to contract calls: function, arguments and gas. Pure. */
import { turnpikeInterface } from "turnpike/chain";
import type { ChangeAct, ChangeRequest, PermitFields, SubscribeRequest } from "turnpike/facilitator";
import { type Hex, idHashOf, keccakText } from "turnpike/protocol";

/**
 * Gas limits of the acts. The token may use 300,000 gas for a permit and again for a charge. Diagnosis takes 100,000; a
 * contract wallet's signature takes the rest. These are limits, not prices: unused gas costs nothing.
 */
export const SUBSCRIBE_GAS = 1_000_000n;

const CHANGE_GAS = 700_000n;

/** a renewal before the change */
const RENEW_GAS = 450_000n;

export const PERMIT_GAS = 300_000n;

export interface ActCall {
  readonly data: Hex;
  readonly gasLimit: bigint;
}

const NO_PERMIT = { value: 0n, deadline: 0n, v: 0, r: `0x${"00".repeat(32)}`, s: `0x${"00".repeat(32)}` };

const encode = (name: string, args: readonly unknown[]): Hex =>
  turnpikeInterface.encodeFunctionData(name, args as unknown[]) as Hex;

export function subscribeCall(request: SubscribeRequest): ActCall {
  const { subscriber, planId, secretHash, maxOverage, deadline, signature, permit } = request;
  const permitArg = permit ? { value: permit.value, deadline: permit.deadline, ...splitSignature(permit) } : NO_PERMIT;
  return {
    data: encode("subscribeBySig", [subscriber, planId, secretHash, maxOverage, deadline, signature, permitArg]),
    gasLimit: SUBSCRIBE_GAS,
  };
}

type Encoder<A extends ChangeAct> = (idHash: Hex, request: ChangeRequest<A>, auth: unknown) => Hex;

const ENCODERS: { readonly [A in ChangeAct]: Encoder<A> } = {
  pause: (idHash, _request, auth) => encode("pauseBySig", [idHash, auth]),
  resume: (idHash, { maxCharge }, auth) => encode("resumeBySig", [idHash, maxCharge, auth]),
  cancel: (idHash, { atPeriodEnd }, auth) => encode("cancelBySig", [idHash, atPeriodEnd, auth]),
  "max-overage": (idHash, { cap }, auth) => encode("setMaxOverageBySig", [idHash, cap, auth]),
  plan: (idHash, { newPlanId, maxOverage, maxCharge }, auth) =>
    encode("changePlanBySig", [idHash, newPlanId, maxOverage, maxCharge, auth]),
  rekey: (idHash, { newSecretHash }, auth) => encode("rekeyBySig", [idHash, newSecretHash, auth]),
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

export function splitSignature({ signature }: Pick<PermitFields, "signature">): { v: number; r: Hex; s: Hex } {
  const v = Number.parseInt(signature.slice(130), 16);
  return { v: v < 27 ? v + 27 : v, r: `0x${signature.slice(2, 66)}`, s: `0x${signature.slice(66, 130)}` };
}
