/** Reads plans and tokens from the chain. A plan's terms never change; its payee, its provider and its end can. */
import type { Result } from "ethers/abi";
import {
  type Address,
  checksum,
  type Hex,
  idOrNone,
  isHash32,
  isTurnpikeError,
  lengthOf,
  lensAddressOf,
  type PeriodLength,
  ZERO_ADDRESS,
} from "../protocol";
import { aList, aText, wrongKind } from "../protocol/arguments";
import { lensInterface, tokenInterface } from "./abi";
import { requireRpc } from "./require-rpc";
import { callView, NO_ANSWER, type Rpc } from "./rpc";

/** A plan as the chain has it; amounts in base units, times in seconds. */
export interface Plan extends PeriodLength {
  readonly planId: Hex;
  readonly index: number;
  readonly provider: Address;
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  readonly graceSec: number;
  /** receives every charge and debit now */
  readonly payTo: Address;
  /** the payee at creation, which the planId proves */
  readonly firstPayTo: Address;
  /** a payee that is proposed, and from when on (unix seconds) anyone can apply it */
  readonly proposedPayTo: { readonly payTo: Address; readonly effectiveAtSec: number } | undefined;
  readonly deprecated: boolean;
  /** it charges nothing any more, and its subscriptions end with the period that is paid */
  readonly stopped: boolean;
  readonly successor: Hex | undefined;
}

interface PlanOutput {
  readonly planId: string;
  readonly index: bigint;
  readonly provider: string;
  readonly terms: { token: string; amount: bigint; interval: bigint; months: boolean; grace: bigint; payTo: string };
  readonly deprecated: boolean;
  readonly stopped: boolean;
  readonly successor: string;
  readonly firstPayTo: string;
  readonly proposedPayTo: string;
  readonly effectiveAt: bigint;
}

const PLANS_PER_CALL = 200;

/** @returns the plans that exist, by lower-case id. @throws Unavailable */
export async function loadPlans(rpc: Rpc, turnpike: Address, planIds: readonly Hex[]): Promise<Map<Hex, Plan>> {
  requireRpc(rpc);
  aText(turnpike, "turnpike");
  aList(planIds, "planIds");
  for (const planId of planIds) if (!isHash32(planId)) throw wrongKind(planId, "planIds", "0x and 64 hex digits");
  const plans = new Map<Hex, Plan>();
  for (let start = 0; start < planIds.length; start += PLANS_PER_CALL) {
    const args = [planIds.slice(start, start + PLANS_PER_CALL)];
    const [views] = await callView(rpc, {
      to: lensAddressOf(turnpike),
      iface: lensInterface,
      method: "getPlans",
      args,
    });
    for (const view of views as PlanOutput[]) {
      const planId = idOrNone(view.planId);
      if (planId) plans.set(planId, planOf(view));
    }
  }
  return plans;
}

function planOf(view: PlanOutput): Plan {
  const { terms, proposedPayTo } = view;
  return {
    planId: view.planId as Hex,
    index: Number(view.index),
    provider: checksum(view.provider),
    token: checksum(terms.token),
    amount: terms.amount,
    ...lengthOf({ unit: terms.months ? "month" : "second", count: Number(terms.interval) }),
    graceSec: Number(terms.grace),
    payTo: checksum(terms.payTo),
    firstPayTo: checksum(view.firstPayTo),
    proposedPayTo:
      proposedPayTo === ZERO_ADDRESS
        ? undefined
        : { payTo: checksum(proposedPayTo), effectiveAtSec: Number(view.effectiveAt) },
    deprecated: view.deprecated,
    stopped: view.stopped,
    successor: idOrNone(view.successor),
  };
}

/** A token and its EIP-712 domain. */
export interface Token {
  readonly address: Address;
  /** of its EIP-712 domain */
  readonly name: string;
  readonly version: string;
  readonly decimals: number;
}

/** `eip712Domain()` where the token has it, else `name()` and `version()` (1 when absent). @throws Unavailable */
export async function loadToken(rpc: Rpc, address: Address): Promise<Token> {
  requireRpc(rpc);
  aText(address, "address");
  const view = (method: string) => callView(rpc, { to: address, iface: tokenInterface, method, args: [] });
  const optional = async (method: string): Promise<Result | undefined> => {
    try {
      return await view(method);
    } catch (error) {
      if (isTurnpikeError(error) && error.reason === NO_ANSWER) return undefined;
      throw error;
    }
  };
  const [named, decimals, domain] = await Promise.all([view("name"), view("decimals"), optional("eip712Domain")]);
  const version = domain ? String(domain.version) : String((await optional("version"))?.[0] ?? "1");
  return {
    address: checksum(address),
    name: domain ? String(domain.getValue("name")) : String(named[0]),
    version,
    decimals: Number(decimals[0]),
  };
}
