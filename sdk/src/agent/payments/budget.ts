import { DAY_SEC } from "../../protocol/periods";
import type { AgentContext } from "../core/context";

/** The budget of the last 24 hours, base units. */
export interface BudgetView {
  readonly perDay: bigint;
  readonly perPayee: bigint | undefined;
  /** reserved and spent by every agent with this ledger, less proven refunds */
  readonly spent: bigint;
  /** what may still be spent now */
  readonly remaining: bigint;
}

export async function budget({ ledger, policy, effects }: AgentContext): Promise<BudgetView> {
  const { perDay, perPayee } = policy.limits;
  const spent = (await ledger()).spentSince({ sinceSec: effects.clock.nowSec() - DAY_SEC });
  return { perDay, perPayee, spent, remaining: spent < perDay ? perDay - spent : 0n };
}
