/** A chain of the sandbox with what is on it: the contracts, a test token, Permit2, and the example provider's plans. */
import path from "node:path";
import { createPlan, deprecatePlan } from "turnpike/chain";
import { defaultGraceSec, type Hex } from "turnpike/protocol";
import type { FundedWallet, LocalChain } from "./chain";
import { deployAll, type LocalContracts } from "./contracts";
import { placePermit2 } from "./permit2";

/** One whole token: it has 6 decimals. */
export const UNIT = 1_000_000n;

export const DAY_SEC = 86_400;

export const INTERVAL_SEC = 30 * DAY_SEC;

/** Waiting for blocks gains nothing while the contracts are deployed one after another. */
const SETUP_BLOCK_MS = 25;

export type PlanName = "reader" | "small" | "large" | "retired";

export interface ChainDeployment {
  readonly chain: LocalChain;
  readonly contracts: LocalContracts;
  readonly providerAccount: FundedWallet;
  readonly plans: Readonly<Record<PlanName, Hex>>;
}

/** @param home folder of the addresses, in a folder of the chain */
export async function deployOn(
  chain: LocalChain,
  { blockMs, home }: { readonly blockMs: number; readonly home: string },
): Promise<ChainDeployment> {
  await chain.mineEvery(Math.min(blockMs, SETUP_BLOCK_MS));
  const contracts = await deployAll(chain, path.join(home, "deployments"));
  await placePermit2(chain);
  const providerAccount = await chain.wallet("provider");
  const plans = await createPlans(providerAccount, contracts);
  await chain.mineEvery(blockMs);
  return { chain, contracts, providerAccount, plans };
}

/** Monthly plans of the example provider: one for reading, two sizes of a metered one, and one that is closed. */
async function createPlans(
  account: FundedWallet,
  { turnpike, token }: LocalContracts,
): Promise<ChainDeployment["plans"]> {
  const create = async (name: string, units: bigint): Promise<Hex> => {
    const terms = { amount: units * UNIT, intervalSec: INTERVAL_SEC, graceSec: defaultGraceSec(INTERVAL_SEC) };
    const { planId } = await createPlan(account, turnpike, { token, ...terms, metadata: JSON.stringify({ name }) });
    return planId;
  };
  const plans = {
    reader: await create("Reader", 10n),
    small: await create("Small", 5n),
    large: await create("Large", 20n),
    retired: await create("Reader of last year", 8n),
  };
  await deprecatePlan(account, turnpike, { planId: plans.retired, successor: plans.reader });
  return plans;
}
