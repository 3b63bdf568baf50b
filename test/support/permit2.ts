/** What payers over Permit2 sign, and their approval of it. */
import type { Contract } from "ethers";
import type { X402RequestWire } from "turnpike/facilitator";
import {
  type Address,
  EXACT_PERMIT2_PROXY,
  type Hex,
  PERMIT2,
  type Permit2Authorization,
  permit2TypedData,
  randomBytes,
  signDigest,
  toHex,
  typedDataDigest,
  UPTO_PERMIT2_PROXY,
} from "turnpike/protocol";
import { type FacilitatorWorld, fund, type Payer, walletOf } from "./facilitator";

export interface Permit2Fields extends Partial<Permit2Authorization> {
  readonly payer: Payer;
  /** seconds from now, by the chain */
  readonly validForSec?: number;
  /** what the server requires where it differs from what is signed */
  readonly required?: { readonly amount?: bigint; readonly payTo?: Address; readonly asset?: Address };
  readonly resource?: string;
  /** default 20 */
  readonly maxTimeoutSeconds?: number;
  /** of the extension eip2612GasSponsoring */
  readonly info?: object;
  readonly grant?: { readonly id: Hex; readonly resource: string };
}

/** A payment of 0.25 as a stock server sends it to `/verify` and `/settle`; `upto` when a facilitator is named. */
export async function signPermit2(world: FacilitatorWorld, fields: Permit2Fields): Promise<X402RequestWire> {
  const { payer, validForSec = 3_000, required = {}, resource, info, grant, maxTimeoutSeconds = 20, ...rest } = fields;
  const { chainId } = world.chain;
  const isUpto = fields.facilitator !== undefined;
  const signed: Permit2Authorization = {
    from: payer.address,
    token: world.contracts.token,
    amount: 250_000n,
    spender: isUpto ? UPTO_PERMIT2_PROXY : EXACT_PERMIT2_PROXY,
    nonce: BigInt(toHex(randomBytes(32))),
    deadline: BigInt((await world.nowSec()) + validForSec),
    to: world.payee,
    validAfter: 0n,
    ...rest,
  };
  const signature = signDigest(typedDataDigest(permit2TypedData(chainId, signed)), payer.key);
  const { from, token, amount, spender, nonce, deadline, to, validAfter, facilitator } = signed;
  const common = {
    network: `eip155:${chainId}`,
    asset: required.asset ?? token,
    payTo: required.payTo ?? to,
    maxTimeoutSeconds,
    extra: {
      name: world.contracts.tokenName,
      version: world.contracts.tokenVersion,
      assetTransferMethod: "permit2",
      ...(facilitator && { facilitatorAddress: facilitator }),
    },
  };
  const witness = { to, validAfter: `${validAfter}` };
  const transfer = {
    from,
    spender,
    nonce: `${nonce}`,
    deadline: `${deadline}`,
    permitted: { token, amount: `${amount}` },
  };
  const more = {
    resource: { url: resource ?? "https://api.example/quote" },
    ...(info && { extensions: { eip2612GasSponsoring: { info } } }),
  };
  const charged = `${required.amount ?? amount}`;
  const named = grant ? { grant } : {};
  if (facilitator) {
    const terms = { ...common, scheme: "upto" as const };
    const payload = { signature, permit2Authorization: { ...transfer, witness: { ...witness, facilitator } } };
    return {
      paymentPayload: { x402Version: 2, payload, accepted: { ...terms, amount: `${amount}` }, ...more },
      paymentRequirements: { ...terms, amount: charged },
      ...named,
    };
  }
  const terms = { ...common, scheme: "exact" as const, amount: charged };
  const payload = { signature, permit2Authorization: { ...transfer, witness } };
  return {
    paymentPayload: { x402Version: 2, payload, accepted: terms, ...more },
    paymentRequirements: terms,
    ...named,
  };
}

/** A payer with so many base units that has approved Permit2 for all of them. */
export async function approvedPayer(world: FacilitatorWorld, funds = 1_000_000n): Promise<Payer> {
  const payer = await world.payer(funds);
  await approvePermit2(world, payer, funds);
  return payer;
}

export async function approvePermit2(world: FacilitatorWorld, payer: Payer, amount: bigint): Promise<void> {
  await fund(world.chain, payer.address);
  const token = world.token.connect(walletOf(world.chain, payer.key)) as Contract;
  await (await token.getFunction("approve")(PERMIT2, amount)).wait();
}
