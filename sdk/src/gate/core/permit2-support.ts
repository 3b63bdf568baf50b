/**
 * Keeps what a Facilitator supports of payments over Permit2, as `GET /supported` states it: quotes of such payments name
 * its key. Known answers are used at once and renewed behind the requests that read them.
 */
import { tokenInterface } from "../../chain/abi";
import { callView, NO_ANSWER, type Rpc } from "../../chain/rpc";
import type { Supported } from "../../facilitator/service";
import {
  type Address,
  caip2Of,
  checksum,
  EIP2612_GAS_SPONSORING,
  isAddress,
  isTurnpikeError,
  Unavailable,
} from "../../protocol";
import type { Settings } from "./settings";

/** One answer; a new object where anything changed. */
export interface Permit2Support {
  /** whether it settles `exact` payments over Permit2 */
  readonly exact: boolean;
  /** the key that `upto` payments name; undefined: it settles none */
  readonly uptoSigner: Address | undefined;
  /** whether payers without gas may send the token's permit along */
  readonly sponsorsGas: boolean;
  /** the least that it settles of this token, base units, but for 0; undefined: not stated */
  readonly minAmount: string | undefined;
  /** its keys, former ones that can still send among them */
  readonly senders: readonly Address[];
}

export interface Permit2Supports {
  /** Returns the last answer, and renews it in the background; undefined before the first. */
  known(): Permit2Support | undefined;
  /** @throws Unavailable when the Facilitator does not answer, and never did */
  read(): Promise<Permit2Support>;
  /** Returns whether a payment that names this key can settle; asks again for a key that is new. @throws Unavailable */
  isSender(address: Address): Promise<boolean>;
}

export interface Permit2SupportsParts {
  readonly settings: Pick<Settings, "facilitator" | "network" | "token">;
  readonly rpc: Rpc | undefined;
  readonly supported: () => Promise<Supported>;
}

/** An answer is renewed when it is this old. */
const RENEW_MS = 60_000;

/** Requests that nobody can answer yet, and payloads that name unknown keys, ask no more often than this. */
const ASK_AGAIN_MS = 5_000;

/** Another project's Facilitator states nothing that this gate relies on; it refuses what it does not settle. */
const UNSTATED: Permit2Support = {
  exact: true,
  uptoSigner: undefined,
  sponsorsGas: false,
  minAmount: undefined,
  senders: [],
};

export function createPermit2Supports({ settings, rpc, supported }: Permit2SupportsParts): Permit2Supports {
  const isForeign = settings.facilitator?.trustUnsigned === true;
  let current = isForeign ? UNSTATED : undefined;
  let askedAtMs = isForeign ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY;
  let asking: Promise<Permit2Support> | undefined;
  let hasPermits: boolean | undefined = settings.token?.permits;

  async function ask(): Promise<Permit2Support> {
    const answer = await supported();
    const isAdvertised = answer.extensions.includes(EIP2612_GAS_SPONSORING);
    if (isAdvertised && hasPermits === undefined && settings.token) {
      hasPermits = rpc !== undefined && (await readPermits(rpc, settings.token.address));
    }
    const next = supportIn(answer, settings, isAdvertised && hasPermits === true);
    if (JSON.stringify(next) !== JSON.stringify(current)) current = next;
    return current ?? next;
  }

  function renew(): Promise<Permit2Support> {
    askedAtMs = performance.now();
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    return asking;
  }

  const isOlderThan = (ms: number): boolean => performance.now() - askedAtMs > ms;

  return {
    known() {
      if (current && isOlderThan(RENEW_MS)) void renew().catch(() => undefined);
      return current;
    },
    async read() {
      if (current) return current;
      // It has just failed: requests in between do not wait for another attempt.
      if (!asking && !isOlderThan(ASK_AGAIN_MS)) {
        throw new Unavailable("The Facilitator did not state what it supports.", { retryAfterSec: 2 });
      }
      return renew();
    },
    async isSender(address) {
      const { senders } = await this.read();
      if (senders.includes(address) || !isOlderThan(ASK_AGAIN_MS)) return senders.includes(address);
      return (await renew()).senders.includes(address);
    },
  };
}

function supportIn(
  { kinds, transferMethods, relayers, tokens }: Supported,
  { network: { chainId }, token }: Pick<Settings, "network" | "token">,
  sponsorsGas: boolean,
): Permit2Support {
  const upto = kinds.find(({ scheme, network }) => scheme === "upto" && network === caip2Of(chainId));
  const named = upto?.extra?.facilitatorAddress;
  const uptoSigner = typeof named === "string" && isAddress(named) ? checksum(named) : undefined;
  return {
    exact: transferMethods?.includes("permit2") === true,
    uptoSigner,
    sponsorsGas,
    minAmount: tokens.find(({ address }) => address === token?.address)?.minAmount,
    senders: [...new Set([...(uptoSigner ? [uptoSigner] : []), ...relayers])],
  };
}

/** Returns whether a token answers `nonces`, which EIP-2612 permits need. @throws Unavailable */
async function readPermits(rpc: Rpc, token: Address): Promise<boolean> {
  try {
    await callView(rpc, { to: token, iface: tokenInterface, method: "nonces", args: [token] });
    return true;
  } catch (error) {
    if (isTurnpikeError(error) && error.reason === NO_ANSWER) return false;
    throw error;
  }
}
