/** Creates and closes plans: the provider's own transactions on Turnpike. */
import { Contract, type Provider, type Signer, type TransactionReceipt } from "ethers";
import { lensInterface, turnpikeInterface } from "turnpike/chain";
import { type Address, checksum, type Hex, lengthOf, lensAddressOf, type Period, planIdOf } from "turnpike/protocol";

export type NewPlan = PlanTerms & ({ readonly intervalSec: number } | { readonly months: number });

interface PlanTerms {
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
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
  const { token, amount, graceSec, payTo = provider, salt = `0x${"00".repeat(32)}`, metadata = "{}" } = plan;
  const period: Period =
    "months" in plan ? { unit: "month", count: plan.months } : { unit: "second", count: plan.intervalSec };
  const { chainId } = await signer.provider.getNetwork();
  const planId = planIdOf({
    ...{ chainId: Number(chainId), turnpike, provider, token, amount, graceSec, payTo, salt, metadata },
    ...lengthOf(period),
  });
  const contract = new Contract(turnpike, turnpikeInterface, signer);
  const known = await new Contract(lensAddressOf(turnpike), lensInterface, signer).getFunction("getPlan")(planId);
  if (known.planId === planId) return { planId, receipt: undefined };
  const terms = { token, amount, interval: period.count, months: period.unit === "month", grace: graceSec, payTo };
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

/** What an account may do on a plan, as the contract's bits. */
export const RIGHTS = { debit: 1, voucher: 2, receipt: 4 } as const;

/** Sets what `account` may do on the plan: a sum of {@link RIGHTS}; 0 revokes all. */
export async function setOperator(
  signer: LiveSigner,
  turnpike: Address,
  { planId, account, rights }: { readonly planId: Hex; readonly account: Address; readonly rights: number },
): Promise<TransactionReceipt> {
  return mined(new Contract(turnpike, turnpikeInterface, signer), "setOperator", [planId, account, rights]);
}

async function mined(contract: Contract, method: string, parameters: readonly unknown[]): Promise<TransactionReceipt> {
  const sent = await contract.getFunction(method)(...parameters);
  const receipt: TransactionReceipt | null = await sent.wait();
  if (!receipt) throw new Error(`${method}: the transaction was sent but no receipt came`);
  return receipt;
}
