/** Creates and closes plans: the provider's own transactions on Turnpike. */
import { Contract, type Provider, type Signer, type TransactionReceipt } from "ethers";
import { turnpikeInterface } from "turnpike/chain";
import { type Address, checksum, type Hex, planIdOf } from "turnpike/protocol";

export interface NewPlan {
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  readonly intervalSec: number;
  readonly graceSec: number;
  /** default: the provider itself */
  readonly payTo?: Address;
  readonly salt?: Hex;
  /** a short JSON, e.g. {"name":"Pro"}; emitted, not stored */
  readonly metadata?: string;
}

export interface CreatedPlan {
  readonly planId: Hex;
  /** undefined: the same plan existed before */
  readonly receipt: TransactionReceipt | undefined;
}

type LiveSigner = Signer & { provider: Provider };

export async function createPlan(signer: LiveSigner, turnpike: Address, plan: NewPlan): Promise<CreatedPlan> {
  const provider = checksum(await signer.getAddress());
  const {
    token,
    amount,
    intervalSec,
    graceSec,
    payTo = provider,
    salt = `0x${"00".repeat(32)}`,
    metadata = "{}",
  } = plan;
  const planId = planIdOf({ provider, token, amount, intervalSec, graceSec, payTo, salt, metadata });
  const contract = new Contract(turnpike, turnpikeInterface, signer);
  const known = await contract.getFunction("getPlan")(planId);
  if (known.planId === planId) return { planId, receipt: undefined };
  const terms = { token, amount, interval: intervalSec, grace: graceSec, payTo };
  return { planId, receipt: await mined(contract, "createPlan", [terms, salt, metadata]) };
}

/** @param successor the plan to point to; default none */
export async function deprecatePlan(
  signer: LiveSigner,
  turnpike: Address,
  { planId, successor = `0x${"00".repeat(32)}` }: { readonly planId: Hex; readonly successor?: Hex },
): Promise<TransactionReceipt> {
  return mined(new Contract(turnpike, turnpikeInterface, signer), "deprecatePlan", [planId, successor]);
}

/** Allows or disallows `operator` to debit on the plan. */
export async function setOperator(
  signer: LiveSigner,
  turnpike: Address,
  { planId, operator, allowed }: { readonly planId: Hex; readonly operator: Address; readonly allowed: boolean },
): Promise<TransactionReceipt> {
  return mined(new Contract(turnpike, turnpikeInterface, signer), "setOperator", [planId, operator, allowed]);
}

async function mined(contract: Contract, method: string, parameters: readonly unknown[]): Promise<TransactionReceipt> {
  const sent = await contract.getFunction(method)(...parameters);
  const receipt: TransactionReceipt | null = await sent.wait();
  if (!receipt) throw new Error(`${method}: the transaction was sent but no receipt came`);
  return receipt;
}
