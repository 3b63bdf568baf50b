/** Reads plans and tokens from the chain. A plan's terms never change; whether it is deprecated can. */
import type { Result } from "ethers";
import { type Address, checksum, type Hex, isTurnpikeError } from "../protocol";
import { tokenInterface, turnpikeInterface } from "./abi";
import { callView, NO_ANSWER, type Rpc } from "./rpc";

/** A plan as the chain has it; amounts in base units, times in seconds. */
export interface Plan {
  readonly planId: Hex;
  readonly index: number;
  readonly provider: Address;
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  readonly intervalSec: number;
  readonly graceSec: number;
  readonly payTo: Address;
  readonly deprecated: boolean;
  readonly successor: Hex | undefined;
}

interface PlanOutput {
  readonly planId: string;
  readonly index: bigint;
  readonly provider: string;
  readonly terms: { token: string; amount: bigint; interval: bigint; grace: bigint; payTo: string };
  readonly deprecated: boolean;
  readonly successor: string;
}

const PLANS_PER_CALL = 200;

const ZERO_WORD = `0x${"0".repeat(64)}`;

/** @returns the plans that exist, by lower-case id. @throws Unavailable */
export async function loadPlans(rpc: Rpc, turnpike: Address, planIds: readonly Hex[]): Promise<Map<Hex, Plan>> {
  const plans = new Map<Hex, Plan>();
  for (let start = 0; start < planIds.length; start += PLANS_PER_CALL) {
    const args = [planIds.slice(start, start + PLANS_PER_CALL)];
    const [views] = await callView(rpc, { to: turnpike, iface: turnpikeInterface, method: "getPlans", args });
    for (const view of views as PlanOutput[]) {
      if (view.planId !== ZERO_WORD) plans.set(view.planId as Hex, planOf(view));
    }
  }
  return plans;
}

function planOf({ planId, index, provider, terms, deprecated, successor }: PlanOutput): Plan {
  return {
    planId: planId as Hex,
    index: Number(index),
    provider: checksum(provider),
    token: checksum(terms.token),
    amount: terms.amount,
    intervalSec: Number(terms.interval),
    graceSec: Number(terms.grace),
    payTo: checksum(terms.payTo),
    deprecated,
    successor: successor === ZERO_WORD ? undefined : (successor as Hex),
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
