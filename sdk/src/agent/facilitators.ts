/** The Facilitators this agent may use: those of its configuration, and no other, whoever names one. */
import { type Account, createFacilitatorClient, type FacilitatorClient } from "../facilitator";
import { type Address, ConfigError, type Network, networkOfChain, systemClock } from "../protocol";
import type { Effects } from "./effects";
import { isPrivateChannel } from "./request";

export interface Facilitators {
  /** The configured Facilitator at `url`; the first one where none is named. Undefined for a stranger's. */
  find(url: string | undefined): Facilitator | undefined;
}

export interface Facilitator {
  /** as configured, without a trailing slash */
  readonly url: string;
  readonly client: FacilitatorClient;
  /** @throws Unavailable, or the Facilitator's refusal */
  account(address: Address, token: Address, signal?: AbortSignal): Promise<Account>;
}

/** @throws ConfigError for what is no http(s) address, and for plain http to another machine */
export function createFacilitators(urls: readonly string[], effects: Effects, allowHttp: boolean): Facilitators {
  if (!Array.isArray(urls)) throw new ConfigError("facilitators must be a list of base URLs");
  const known = new Map<string, Facilitator>();
  for (const text of urls) {
    const url = normalize(text);
    if (url === undefined) throw new ConfigError(`facilitators holds "${text}", which is no http(s) address`);
    if (!allowHttp && !isPrivateChannel(url)) {
      throw new ConfigError(`facilitators holds "${text}": use https, or set policy.allowHttp`);
    }
    known.set(url, createFacilitator(url, effects));
  }
  return {
    find: (url) => {
      if (url === undefined) return known.values().next().value;
      const normalized = normalize(url);
      return normalized === undefined ? undefined : known.get(normalized);
    },
  };
}

function createFacilitator(url: string, effects: Effects): Facilitator {
  const timeoutMs = effects.limits.facilitatorTimeoutMs;
  // Bodies are read here, so that an exchange ends with the agent as a whole.
  const exchange: typeof effects.fetch = (input, init) =>
    effects.fetch(input, {
      ...init,
      signal: AbortSignal.any([effects.closing, ...(init.signal ? [init.signal] : [])]),
    });
  const client = createFacilitatorClient({ url, fetch: exchange, timeoutMs });
  return {
    url,
    client,
    async account(address, token, signal) {
      const found = await client.account({ address, token }, { signal });
      if (found.kind === "refused") throw found.error;
      return found.value;
    },
  };
}

function normalize(text: string): string | undefined {
  if (typeof text !== "string" || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  if ((url.protocol !== "http:" && url.protocol !== "https:") || url.username || url.search || url.hash)
    return undefined;
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

const MAX_SKEW_SEC = 15 * 60;

/**
 * The chain's time as a Facilitator tells it. On a public network it stands near the wall clock, so a teller that is
 * far off is not believed: it could otherwise make the agent sign windows that stay open long after they are needed.
 * A local chain's clock may have been moved on purpose.
 */
export function believedTimeSec(toldSec: number, chainId: number, networks: readonly Network[]): number {
  const isLocal = networkOfChain(chainId, networks).name.startsWith("local-");
  const wallSec = systemClock.nowSec();
  return isLocal || Math.abs(toldSec - wallSec) <= MAX_SKEW_SEC ? toldSec : wallSec;
}
