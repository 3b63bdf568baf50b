/** A provider's acts on plans: its own transactions on Turnpike, and the vouchers that it signs. */
import { Contract, type Provider, type Signer, type TransactionReceipt } from "ethers";
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
import { callback, fieldsOf } from "../protocol/arguments";
import { lensInterface, turnpikeInterface } from "./abi";
import { decodeRevert } from "./errors";
import {
  checkedParameter,
  checkedPlan,
  checkedVoucher,
  type NewPlan,
  requireAddress,
  type VoucherOffer,
} from "./provider-inputs";

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
  requireSigner(signer);
  const address = requireAddress(turnpike, "turnpike");
  const provider = checksum(await signer.getAddress());
  const { period, token, amount, graceSec, payTo, salt, metadata } = checkedPlan(plan, provider);
  requireSender(signer);
  const { chainId } = await (signer.provider as Provider).getNetwork();
  const planId = planIdOf({
    chainId: Number(chainId),
    turnpike: address,
    provider,
    token,
    amount,
    graceSec,
    payTo,
    salt,
    metadata,
    ...lengthOf(period),
  });
  const lens = new Contract(lensAddressOf(address), lensInterface, signer);
  if ((await lens.getFunction("getPlan")(planId)).planId === planId) return { planId, receipt: undefined };
  const terms = { token, amount, interval: period.count, months: period.unit === "month", grace: graceSec, payTo };
  return {
    planId,
    receipt: await mined(signer, turnpike, "createPlan", { terms, salt, metadata }, ["terms", "salt", "metadata"]),
  };
}

/** Closes a plan to new subscriptions. @param plan its successor is the plan to point to; default none */
export function deprecatePlan(
  signer: Signer,
  turnpike: Address,
  plan: { readonly planId: Hex; readonly successor?: Hex },
): Promise<TransactionReceipt> {
  const { planId, successor = NO_PLAN } = fieldsOf(plan, "plan");
  return mined(signer, turnpike, "deprecatePlan", { planId, successor }, ["planId", "successor"]);
}

/** Stops a plan for good: nothing on it is charged any more, and each of its subscriptions ends with its paid period. */
export function stopPlan(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "stopPlan", { planId }, ["planId"]);
}

/** Sets what `account` may do on the plan: a sum of `RIGHTS`; 0 revokes all. */
export function setOperator(
  signer: Signer,
  turnpike: Address,
  operator: { readonly planId: Hex; readonly account: Address; readonly rights: number },
): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "setOperator", fieldsOf(operator, "operator"), ["planId", "account", "rights"]);
}

/**
 * Proposes another payee, as provider or present payee. Anyone can apply it seven days later; it is applied at once where
 * the other of the two proposes the same.
 */
export function proposePayTo(
  signer: Signer,
  turnpike: Address,
  proposal: { readonly planId: Hex; readonly payTo: Address },
): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "proposePayTo", fieldsOf(proposal, "proposal"), ["planId", "payTo"]);
}

/** Withdraws a proposed payee, as provider or present payee. */
export function withdrawPayTo(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "withdrawPayTo", { planId }, ["planId"]);
}

/** Makes a payee that was proposed seven days ago the plan's; anyone may. */
export function applyPayTo(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "applyPayTo", { planId }, ["planId"]);
}

/** Offers the plan to another provider, who accepts it by {@link acceptPlan}. */
export function offerPlan(
  signer: Signer,
  turnpike: Address,
  offer: { readonly planId: Hex; readonly nextProvider: Address },
): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "offerPlan", fieldsOf(offer, "offer"), ["planId", "nextProvider"]);
}

/** Takes over a plan that the signer is offered, as provider and payee, from a provider who is its payee. */
export function acceptPlan(signer: Signer, turnpike: Address, planId: Hex): Promise<TransactionReceipt> {
  return mined(signer, turnpike, "acceptPlan", { planId }, ["planId"]);
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
  requireSigner(signer);
  const message = checkedVoucher(offer);
  fieldsOf(deployment, "deployment");
  const data = voucherTypedData(deployment, message);
  return {
    signer: checksum(await signer.getAddress()),
    firstAmount: message.firstAmount.toString(),
    firstInterval: message.firstInterval,
    deadline: message.deadline.toString(),
    signature: (await signer.signTypedData(data.domain, mutableTypes(data.types), data.message)) as Hex,
  };
}

/** @throws ConfigError for a signer that can send nothing */
function requireSender(signer: Signer): void {
  requireSigner(signer);
  if (!signer.provider) throw new ConfigError("signer has no provider: connect it, as in new Wallet(key, provider)");
}

function requireSigner(signer: Signer): void {
  callback(fieldsOf(signer, "signer").getAddress, "signer.getAddress");
  callback(signer.signTypedData, "signer.signTypedData");
}

async function mined(
  signer: Signer,
  turnpike: Address,
  method: string,
  given: object,
  names: readonly string[],
): Promise<TransactionReceipt> {
  requireSender(signer);
  const address = requireAddress(turnpike, "turnpike");
  const parameters = names.map((name) => checkedParameter(name, (given as Readonly<Record<string, unknown>>)[name]));
  const sent = await new Contract(address, turnpikeInterface, signer)
    .getFunction(method)(...parameters)
    .catch((error: unknown) => {
      throw decodeRevert(error) ?? error;
    });
  const receipt: TransactionReceipt | null = await sent.wait();
  if (!receipt) throw new Error(`${method}: the transaction was sent but no receipt came`);
  return receipt;
}
