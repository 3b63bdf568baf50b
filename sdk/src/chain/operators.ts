/** Reads which accounts a plan's provider allows to debit. Sends nothing. */
import type { Address, Hex } from "../protocol";
import { turnpikeInterface } from "./abi";
import type { MeterStatesOptions } from "./metered-states";
import { callView } from "./rpc";

/** @returns those of `accounts` that may not debit on the plan. @throws Unavailable */
export async function missingOperators(
  { rpc, turnpike }: MeterStatesOptions,
  planId: Hex,
  accounts: readonly Address[],
): Promise<Address[]> {
  const allowed = await Promise.all(
    accounts.map(async (account) => {
      const args = [planId, account];
      const [isOperator] = await callView(rpc, { to: turnpike, iface: turnpikeInterface, method: "isOperator", args });
      return isOperator as boolean;
    }),
  );
  return accounts.filter((_, i) => !allowed[i]);
}

/** Returns an account's topic in a log's indexed parameters. */
export const topicOfAccount = (account: Address): string => `0x${account.slice(2).toLowerCase().padStart(64, "0")}`;
