/**
 * Caches the terms that quotes are made from: plans and tokens, read from the chain once and kept current by its logs.
 */
import type { HeadListener } from "../../chain/confirmed-head";
import { describeFault } from "../../chain/json-rpc";
import { loadPlans, type Plan } from "../../chain/plans";
import { checkChainId, type Rpc } from "../../chain/rpc";
import { judgeTokenDomain, loadToken, readTokenDomain } from "../../chain/token-domain";
import { hasCode, NO_ANSWER } from "../../chain/views";
import { type Address, ConfigError, type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import { keptCall } from "../../protocol/exchange";
import { WITHOUT_AUTHORIZATIONS } from "../methods";
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
   * @throws ConfigError when a plan does not exist, the chain is another, or a contract is missing or another one;
   * Unavailable, for the provider's log: it names the host of rpcUrl
   */
  load(planIds: readonly Hex[], withToken: boolean): Promise<void>;
  /**
   * Makes sure that rpcUrl, if there is one, serves the configured chain and contract, and that the token has the
   * configured decimals. @throws as `load`
   */
  checkChain(): Promise<void>;
  /**
   * Makes sure, where there is an rpcUrl, that the one-time token accepts signatures under its name and version: payers
   * sign for what the 402 says. @throws as `load`
   */
  checkDomain(): Promise<void>;
}

const LONGEST_CHECK_MS = 30_000;

export function createTerms(settings: Settings, rpc: Rpc | undefined): Terms {
  const plans = new Map<Hex, Plan>();
  const tokens = new Map<Address, TokenTerms>();
  const { token, deployment, network } = settings;
  const checked = keptCall(LONGEST_CHECK_MS, () => check(requireRpc()));
  const decimalsChecked = keptCall(LONGEST_CHECK_MS, () => checkDecimals(requireRpc()));
  const domainChecked = keptCall(LONGEST_CHECK_MS, async () => judgeDomain(await checkedRpc()));
  const faults = createFaultLog(settings);
  if (token?.name !== undefined && token.version !== undefined) {
    tokens.set(token.address, { address: token.address, name: token.name, version: token.version });
  }

  async function loadMissing(planIds: readonly Hex[], withToken: boolean): Promise<void> {
    const missing = planIds.filter((planId) => !plans.has(planId));
    if (missing.length > 0) await readPlans(missing);
    const wanted = planIds.map((planId) => plans.get(planId)?.token);
    if (withToken) wanted.push(token?.address);
    await Promise.all([...new Set(wanted)].map((address) => address && readToken(address)));
  }

  async function readPlans(planIds: readonly Hex[]): Promise<void> {
    if (!deployment) throw new ConfigError("turnpike is not set (TURNPIKE_ADDRESS)");
    const chain = await checkedRpc();
    const found = await named(
      loadPlans(chain, deployment.turnpike, planIds),
      `turnpike is ${deployment.turnpike}, but the contract there is not Turnpike: check that it is not another contract's address`,
    );
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
    const chain = await checkedRpc();
    const field = address === token?.address ? "token" : "a plan's token";
    tokens.set(address, await named(loadToken(chain, address), noToken(field, address)));
  }

  function requireRpc(): Rpc {
    if (rpc) return rpc;
    throw new ConfigError("rpcUrl is not set (TURNPIKE_RPC_URL): plans and tokens are read from the chain");
  }

  async function checkedRpc(): Promise<Rpc> {
    const chain = requireRpc();
    await checked();
    return chain;
  }

  async function check(chain: Rpc): Promise<void> {
    await checkChainId(chain, network.chainId);
    if (deployment && !(await hasCode(chain, deployment.turnpike))) {
      throw new ConfigError(`turnpike is ${deployment.turnpike}, but there is no contract on ${network.name}`);
    }
  }

  /** Decimals are part of no signature: with wrong ones every price in decimals would be wrong by powers of ten. */
  async function checkDecimals(chain: Rpc): Promise<void> {
    if (!token?.hasGivenDecimals) return;
    const { decimals } = await named(loadToken(chain, token.address), noToken("token", token.address));
    if (decimals === token.decimals) return;
    throw new ConfigError(
      `token.decimals is ${token.decimals}, but the token ${token.address} on ${network.name} has ${decimals}: correct it`,
    );
  }

  async function judgeDomain(chain: Rpc): Promise<void> {
    const terms = token && tokens.get(token.address);
    if (!terms) return;
    const { address, name, version } = terms;
    const given = { chainId: network.chainId, token: address, name, version };
    const verdict = judgeTokenDomain(given, await readTokenDomain(chain, address));
    if (verdict.kind !== "other") return;
    const problem = `the token ${address} on ${network.name} accepts no signatures under the name "${name}" and the version "${version}"`;
    const { signable } = verdict;
    throw new ConfigError(
      signable
        ? `${problem}: set token.name to "${signable.name}" and token.version to "${signable.version}"`
        : `${problem}, nor under others that payers could sign for: ${WITHOUT_AUTHORIZATIONS.wayOut}`,
    );
  }

  const noToken = (field: string, address: Address): string =>
    `${field} is ${address}, but there is no token on ${network.name} that answers name() and decimals(): correct the address`;

  function refresh(planIds: readonly Hex[]): void {
    // Terms never change, only whether a plan is deprecated: until that is read, the offer stays as it was.
    if (planIds.length > 0) void readPlans(planIds).catch(() => undefined);
  }

  return {
    plan: (planId) => plans.get(planId),
    token: (address) => tokens.get(address),
    load: (planIds, withToken) => faults.watch(() => loadMissing(planIds, withToken)),
    checkChain: () =>
      faults.watch(async () => {
        if (!rpc) return;
        await checkedRpc();
        await decimalsChecked();
      }),
    checkDomain: () =>
      faults.watch(async () => {
        if (rpc) await domainChecked();
      }),
    onAdvance: (_head, touched) => refresh([...plans.keys()].filter((planId) => touched.has(planId))),
    onReset: () => refresh([...plans.keys()]),
  };
}

/** Turns "the chain answered, but not with such a contract" into the setting that is wrong. */
async function named<T>(reading: Promise<T>, problem: string): Promise<T> {
  try {
    return await reading;
  } catch (cause) {
    if (isTurnpikeError(cause) && cause.reason === NO_ANSWER) throw new ConfigError(problem, { cause });
    throw cause;
  }
}

/** Logs why nothing can be quoted: each wrong setting once, and each outage once. */
function createFaultLog({ rpcUrls }: Settings) {
  const reported = new Set<string>();
  let isOut = false;
  const hosts = rpcUrls.map((url) => (URL.canParse(url) ? new URL(url).host : "not a URL")).join(", ");
  const at = hosts === "" ? "rpcUrl" : `rpcUrl (${hosts})`;
  const readAt = hosts === "" ? "" : ` Read at ${at}.`;
  return {
    async watch(read: () => Promise<void>): Promise<void> {
      try {
        await read();
        isOut = false;
      } catch (error) {
        if (!isTurnpikeError(error)) throw error;
        if (error.code === "ConfigError") {
          if (!reported.has(error.message)) process.emitWarning(`${error.message}.${readAt}`, "ConfigError");
          reported.add(error.message);
          throw error;
        }
        const outage = new Unavailable(`The chain cannot be read at ${at}${cameBack(error)}.`, {
          cause: error,
          retryAfterSec: error.retryAfterSec ?? RETRY_AFTER_SEC,
        });
        if (!isOut) process.emitWarning(`${outage.message} Routes that need it answer 503 until it can be read.`);
        isOut = true;
        throw outage;
      }
    },
  };
}

const RETRY_AFTER_SEC = 2;

/** Returns what came back from the chain's endpoint, where an exchange with it failed. */
const cameBack = ({ cause }: TurnpikeError): string => (cause === undefined ? "" : `: ${describeFault(cause)}`);

/** Returns a token's terms. @throws Unavailable while they are not known; they are read for the next attempt */
export function requireToken(terms: Terms, address: Address): TokenTerms {
  const token = terms.token(address);
  // Payloads alone must end the outage too. The terms log what fails.
  if (!token) void terms.load([], true).catch(() => undefined);
  return requireLoaded(token, "The token's terms");
}

export function requireLoaded<T>(value: T | undefined, what: string): T {
  if (value !== undefined) return value;
  throw new Unavailable(`${what} could not be read from the chain yet.`, { retryAfterSec: 2 });
}
