/** A provider's acts on plans: its own transactions on Turnpike, and the vouchers that it signs. */
import { Contract, type Signer, type TransactionReceipt } from "ethers";
import {
  type Address,
  ConfigError,
  checksum,
  type Hex,
  lengthOf,
  lensAddressOf,
  mutableTypes,
  NO_PLAN,
  planIdOf,
  type TurnpikeDeployment,
  voucherTypedData,
} from "../protocol";
import { lensInterface, turnpikeInterface } from "./abi";
import { decodeRevert } from "./errors";
import { checkedPlan, checkedVoucher, type NewPlan, type VoucherOffer } from "./provider-inputs";

export type { NewPlan, NewPlanTerms, VoucherOffer } from "./provider-inputs";

/** A plan, and the transaction that created it. */
export interface CreatedPlan {
  readonly planId: Hex;
  /** undefined: the same plan existed before */
  readonly receipt: TransactionReceipt | undefined;
}

/**
 * Creates a plan with the signer as provider, or finds it created.
 * @param signer connected to an RPC
 * @throws ConfigError without one, or that names a field; TurnpikeError by the contract's own name, such as InvalidTerms
 */
export async function createPlan(signer: Signer, turnpike: Address, plan: NewPlan): Promise<CreatedPlan> {
  const provider = checksum(await signer.getAddress());
  const { period, token, amount, graceSec, payTo, salt, metadata } = checkedPlan(plan, provider);
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

/** Stops a plan for good: nothing on it is charged any more, and each of its subscriptions ends with its paid period. */
export function stopPlan(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "stopPlan", [planId]);
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

/**
 * Proposes another payee, as provider or present payee. Anyone can apply it seven days later; it is applied at once where
 * the other of the two proposes the same.
 */
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

/** Takes over a plan that the signer is offered, as provider and payee, from a provider who is its payee. */
export function acceptPlan(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "acceptPlan", [planId]);
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
 * @throws ConfigError that names a field
 */
export async function issueVoucher(
  signer: Signer,
  deployment: TurnpikeDeployment,
  offer: VoucherOffer,
): Promise<IssuedVoucher> {
  const message = checkedVoucher(offer);
  const data = voucherTypedData(deployment, message);
  return {
    signer: checksum(await signer.getAddress()),
    firstAmount: message.firstAmount.toString(),
    firstInterval: message.firstInterval,
    deadline: message.deadline.toString(),
    signature: (await signer.signTypedData(data.domain, mutableTypes(data.types), data.message)) as Hex,
  };
}

async function mined(
  signer: Signer,
  turnpike: Address,
  method: string,
  parameters: readonly unknown[],
): Promise<TransactionReceipt> {
  const sent = await new Contract(turnpike, turnpikeInterface, signer)
    .getFunction(method)(...parameters)
    .catch((error: unknown) => {
      throw decodeRevert(error) ?? error;
    });
  const receipt: TransactionReceipt | null = await sent.wait();
  if (!receipt) throw new Error(`${method}: the transaction was sent but no receipt came`);
  return receipt;
}
