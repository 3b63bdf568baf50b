import { type Address, type Hex, lensAddressOf } from "../protocol";
import { aList, aText, fieldsOf } from "../protocol/arguments";
import { lensInterface } from "./abi";
import type { MeterStatesOptions } from "./metered-states";
import { requireRpc } from "./require-rpc";
import { callView } from "./rpc";

/** What an account may do on a plan, as the contract's bits: debit, sign vouchers, sign usage receipts. */
export const RIGHTS = { debit: 1, voucher: 2, receipt: 4 } as const;

/** @returns those of `accounts` that may not debit on the plan. @throws Unavailable */
export async function missingOperators(
  options: MeterStatesOptions,
  planId: Hex,
  accounts: readonly Address[],
): Promise<Address[]> {
  const { rpc, turnpike } = fieldsOf(options, "options");
  requireRpc(rpc, "options.rpc");
  aText(turnpike, "options.turnpike");
  aText(planId, "planId");
  aList(accounts, "accounts");
  const allowed = await Promise.all(
    accounts.map(async (account) => ((await rightsOf(options, planId, account)) & RIGHTS.debit) !== 0),
  );
  return accounts.filter((_, i) => !allowed[i]);
}

/** Returns an account's rights on a plan: the sum of DEBIT 1, VOUCHER 2 and RECEIPT 4. @throws Unavailable */
export async function rightsOf({ rpc, turnpike }: MeterStatesOptions, planId: Hex, account: Address): Promise<number> {
  const to = lensAddressOf(turnpike);
  const [rights] = await callView(rpc, { to, iface: lensInterface, method: "rightsOf", args: [planId, account] });
  return Number(rights);
}

/** Returns an account's topic in a log's indexed parameters. */
export const topicOfAccount = (account: Address): string => `0x${account.slice(2).toLowerCase().padStart(64, "0")}`;
