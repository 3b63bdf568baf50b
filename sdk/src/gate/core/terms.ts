/**
 * Caches the terms that quotes are made from: plans and tokens, read from the chain once and kept current by its logs.
 */
import type { HeadListener } from "../../chain/confirmed-head";
import { loadPlans, loadToken, type Plan } from "../../chain/plans";
import { checkChainId, hasCode, type Rpc } from "../../chain/rpc";
import { type Address, ConfigError, type Hex, Unavailable } from "../../protocol";
import type { Settings } from "./settings";

/** A token's EIP-712 domain. */
export interface TokenTerms {
  readonly address: Address;
  readonly name: string;
  readonly version: string;
}

export interface Terms extends HeadListener {
  plan(planId: Hex): Plan | undefined;
  token(address: Address): TokenTerms | undefined;
  /**
   * Makes sure that these plans, their tokens and the one-time token are known.
   * @throws ConfigError when a plan does not exist, the chain is another or the contract is not there; Unavailable
   */
  load(planIds: readonly Hex[], withToken: boolean): Promise<void>;
}

export function createTerms(settings: Settings, rpc: Rpc | undefined): Terms {
  const plans = new Map<Hex, Plan>();
  const tokens = new Map<Address, TokenTerms>();
  const { token, deployment, network } = settings;
  let checked: Promise<void> | undefined;
  if (token?.name !== undefined && token.version !== undefined) {
    tokens.set(token.address, { address: token.address, name: token.name, version: token.version });
  }

  async function load(planIds: readonly Hex[], withToken: boolean): Promise<void> {
    const missing = planIds.filter((planId) => !plans.has(planId));
    if (missing.length > 0) await readPlans(missing);
    const wanted = planIds.map((planId) => plans.get(planId)?.token);
    if (withToken) wanted.push(token?.address);
    await Promise.all([...new Set(wanted)].map((address) => address && readToken(address)));
  }

  async function readPlans(planIds: readonly Hex[]): Promise<void> {
    if (!deployment) throw new ConfigError("turnpike is not set (TURNPIKE_ADDRESS)");
    const chain = await checkedRpc();
    const found = await loadPlans(chain, deployment.turnpike, planIds);
    for (const planId of planIds) {
      const plan = found.get(planId);
      if (!plan) {
        throw new ConfigError(`plan ${planId} does not exist on ${network.name} in Turnpike at ${deployment.turnpike}`);
      }
      plans.set(planId, plan);
    }
  }

  async function readToken(address: Address): Promise<void> {
    if (tokens.has(address)) return;
    tokens.set(address, await loadToken(await checkedRpc(), address));
  }

  async function checkedRpc(): Promise<Rpc> {
    if (!rpc) throw new ConfigError("rpcUrl is not set (TURNPIKE_RPC_URL): plans and tokens are read from the chain");
    checked ??= check(rpc);
    try {
      await checked;
    } catch (error) {
      checked = undefined;
      throw error;
    }
    return rpc;
  }

  async function check(chain: Rpc): Promise<void> {
    await checkChainId(chain, network.chainId);
    if (deployment && !(await hasCode(chain, deployment.turnpike))) {
      throw new ConfigError(`turnpike is ${deployment.turnpike}, but there is no contract on ${network.name}`);
    }
  }

  function refresh(planIds: readonly Hex[]): void {
    // Terms never change, only whether a plan is deprecated: until that is read, the offer stays as it was.
    if (planIds.length > 0) void readPlans(planIds).catch(() => undefined);
  }

  return {
    plan: (planId) => plans.get(planId),
    token: (address) => tokens.get(address),
    load,
    onAdvance: (_head, touched) => refresh([...plans.keys()].filter((planId) => touched.has(planId))),
    onReset: () => refresh([...plans.keys()]),
  };
}

export function requireLoaded<T>(value: T | undefined, what: string): T {
  if (value !== undefined) return value;
  throw new Unavailable(`${what} could not be read from the chain yet.`, { retryAfterSec: 2 });
}
