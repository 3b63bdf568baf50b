/** A provider's acts on plans: its own transactions on Turnpike, and the vouchers that it signs. */
import { Contract, type Signer, type TransactionReceipt } from "ethers";
import {
  type Address,
  ConfigError,
  checksum,
  type FirstPeriod,
  type Hex,
  lengthOf,
  lensAddressOf,
  mutableTypes,
  NO_PLAN,
  type Period,
  planIdOf,
  type TurnpikeDeployment,
  voucherTypedData,
} from "../protocol";
import { lensInterface, turnpikeInterface } from "./abi";

/** A plan to create; amounts in base units, times in seconds. Its periods count seconds, or calendar months (UTC). */
export type NewPlan = NewPlanTerms & ({ readonly intervalSec: number } | { readonly months: number });

/** What every new plan has, whatever its periods count. */
export interface NewPlanTerms {
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  /** service after a period while its renewal is awaited; shorter than any period */
  readonly graceSec: number;
  /** default: the provider itself */
  readonly payTo?: Address;
  /** distinguishes plans with equal terms; default zero */
  readonly salt?: Hex;
  /** a short JSON, e.g. {"name":"Pro"}; emitted, not stored */
  readonly metadata?: string;
}

/** A plan, and the transaction that created it. */
export interface CreatedPlan {
  readonly planId: Hex;
  /** undefined: the same plan existed before */
  readonly receipt: TransactionReceipt | undefined;
}

/**
 * Creates a plan with the signer as provider, or finds it created.
 * @param signer connected to an RPC
 * @throws ConfigError without one; the contract's own errors, as ethers does
 */
export async function createPlan(signer: Signer, turnpike: Address, plan: NewPlan): Promise<CreatedPlan> {
  const provider = checksum(await signer.getAddress());
  const { token, amount, graceSec, payTo = provider, salt = `0x${"00".repeat(32)}`, metadata = "{}" } = plan;
  const period: Period =
    "months" in plan ? { unit: "month", count: plan.months } : { unit: "second", count: plan.intervalSec };
  if (!signer.provider) throw new ConfigError("signer has no provider: connect it, as in new Wallet(key, provider)");
  const { chainId } = await signer.provider.getNetwork();
  const planId = planIdOf({
    chainId: Number(chainId),
    turnpike,
    provider,
    token,
    amount,
    graceSec,
    payTo,
    salt,
    metadata,
    ...lengthOf(period),
  });
  const lens = new Contract(lensAddressOf(turnpike), lensInterface, signer);
  if ((await lens.getFunction("getPlan")(planId)).planId === planId) return { planId, receipt: undefined };
  const terms = { token, amount, interval: period.count, months: period.unit === "month", grace: graceSec, payTo };
  return { planId, receipt: await mined(signer, turnpike, "createPlan", [terms, salt, metadata]) };
}

/** Closes a plan to new subscriptions. @param successor the plan to point to; default none */
export function deprecatePlan(
  signer: Signer,
  turnpike: Address,
  { planId, successor = NO_PLAN }: { readonly planId: Hex; readonly successor?: Hex },
): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "deprecatePlan", [planId, successor]);
}

/** What an account may do on a plan, as the contract's bits: debit, sign vouchers, sign usage receipts. */
export const RIGHTS = { debit: 1, voucher: 2, receipt: 4 } as const;

/** Sets what `account` may do on the plan: a sum of {@link RIGHTS}; 0 revokes all. */
export function setOperator(
  signer: Signer,
  turnpike: Address,
  { planId, account, rights }: { readonly planId: Hex; readonly account: Address; readonly rights: number },
): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "setOperator", [planId, account, rights]);
}

/** Proposes another payee, as provider or present payee. Anyone can apply it seven days later. */
export function proposePayTo(
  signer: Signer,
  turnpike: Address,
  { planId, payTo }: { readonly planId: Hex; readonly payTo: Address },
): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "proposePayTo", [planId, payTo]);
}

/** Withdraws a proposed payee, as provider or present payee. */
export function withdrawPayTo(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "withdrawPayTo", [planId]);
}

/** Makes a payee that was proposed seven days ago the plan's; anyone may. */
export function applyPayTo(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "applyPayTo", [planId]);
}

/** Offers the plan to another provider, who accepts it by {@link acceptPlan}. */
export function offerPlan(
  signer: Signer,
  turnpike: Address,
  { planId, nextProvider }: { readonly planId: Hex; readonly nextProvider: Address },
): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "offerPlan", [planId, nextProvider]);
}

/** Takes over a plan that the signer is offered. */
export function acceptPlan(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "acceptPlan", [planId]);
}

/** What to sign a voucher over: it is good for this subscriber and this secret alone. */
export interface VoucherOffer extends FirstPeriod {
  readonly planId: Hex;
  readonly subscriber: Address;
  readonly secretHash: Hex;
  /** unix seconds, inclusive: until when the signup can be made */
  readonly deadlineSec: number;
}

/** A voucher as the signup carries it; amounts as decimal strings. */
export interface IssuedVoucher {
  readonly signer: Address;
  readonly firstAmount: string;
  readonly firstInterval: number;
  readonly deadline: string;
  readonly signature: Hex;
}

/**
 * Signs a voucher for another first period, as the provider or an account with the voucher right on the plan. The
 * contract accepts it once; whom to offer one, and how often, is the issuer's to decide.
 */
export async function issueVoucher(
  signer: Signer,
  deployment: TurnpikeDeployment,
  { planId, subscriber, secretHash, firstAmount, firstInterval, deadlineSec }: VoucherOffer,
): Promise<IssuedVoucher> {
  const message = { planId, subscriber, secretHash, firstAmount, firstInterval, deadline: BigInt(deadlineSec) };
  const data = voucherTypedData(deployment, message);
  return {
    signer: checksum(await signer.getAddress()),
    firstAmount: firstAmount.toString(),
    firstInterval,
    deadline: String(deadlineSec),
    signature: (await signer.signTypedData(data.domain, mutableTypes(data.types), data.message)) as Hex,
  };
}

async function mined(
  signer: Signer,
  turnpike: Address,
  method: string,
  parameters: readonly unknown[],
): Promise<TransactionReceipt> {
  const sent = await new Contract(turnpike, turnpikeInterface, signer).getFunction(method)(...parameters);
  const receipt: TransactionReceipt | null = await sent.wait();
  if (!receipt) throw new Error(`${method}: the transaction was sent but no receipt came`);
  return receipt;
}
