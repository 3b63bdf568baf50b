/** Follows a gate's chain: its head, its time, and the subscriptions that are read from it. */
import { type ChainClock, createChainClock } from "../../chain/clock";
import { type HeadWatcher, watchHeads } from "../../chain/heads";
import { connectRpc, type Rpc } from "../../chain/rpc";
import { createStateReader, type StateReader } from "../../chain/states";
import { type Address, type Clock, type Network, systemClock, Unavailable } from "../../protocol";
import { atMost } from "../../protocol/exchange";
import { CLOCK_SLACK_SEC } from "../../protocol/periods";
import type { ProviderOptions } from "./options";
import type { Settings } from "./settings";
import type { Terms } from "./terms";

const LOCAL = /^local-/;

/** A public chain without a new block for this long is not being read correctly. */
const MAX_SILENCE_MS = 120_000;

interface FollowedHeads {
  readonly heads: HeadWatcher;
  readonly time: GateTime;
}

export interface FollowedChain extends FollowedHeads {
  readonly states: StateReader | undefined;
}

/** Opens the chain of an entry that is on another one than the provider's. */
export function openChain(network: Network, urls: readonly string[], options: ProviderOptions) {
  const rpc = urls.length > 0 ? connectRpc({ urls, chainId: network.chainId }) : undefined;
  const followed = rpc && followHeads({ rpc, network, turnpike: undefined, options });
  const stop = (): void => {
    followed?.heads.close();
    rpc?.close();
  };
  return { rpc, time: timeOf(options, followed), stop };
}

/** Follows the provider's own chain. Each new head updates the terms. */
export function followChain({
  rpc,
  settings: { network, deployment },
  terms,
  options,
}: {
  readonly rpc: Rpc;
  readonly settings: Settings;
  readonly terms: Terms;
  readonly options: ProviderOptions;
}): FollowedChain {
  const turnpike = deployment?.turnpike;
  const { heads, time } = followHeads({ rpc, network, turnpike, options });
  heads.listen(terms);
  const states = turnpike && createStateReader({ rpc, turnpike, heads });
  return { heads, time, states };
}

function followHeads({
  rpc,
  network,
  turnpike,
  options: { pollMs },
}: {
  readonly rpc: Rpc;
  readonly network: Network;
  readonly turnpike: Address | undefined;
  readonly options: ProviderOptions;
}): FollowedHeads {
  const clock = createChainClock();
  const silence = LOCAL.test(network.name) ? {} : { maxSilenceMs: MAX_SILENCE_MS };
  const heads = watchHeads({ rpc, clock, turnpike, ...(pollMs === undefined ? {} : { pollMs }), ...silence });
  return { heads, time: chainTime(clock, heads, network) };
}

/** Returns the time that a gate judges by: the option's clock, else the followed chain's, else the machine's. */
export function timeOf({ clock }: ProviderOptions, followed: FollowedHeads | undefined): GateTime {
  return clock ? fixedTime(clock) : (followed?.time ?? fixedTime(systemClock));
}

/** The time that a gate judges by: the chain's where it was ever read, the machine's otherwise. */
export interface GateTime extends Clock {
  /**
   * The later of the chain's and the machine's time, for what ends: windows, quotes, challenges. A chain without a new
   * block is behind the clocks of its payers, and the next block is not.
   */
  latestSec(): number;
  /**
   * Returns why no window can be judged now: this gate reads a public chain far behind the machine's clock. Warns of one
   * that is ahead of it.
   */
  outage(): Unavailable | undefined;
  /** Brings `nowSec` up to date; undefined when it is. Waits a bounded time. */
  refresh(): Promise<void> | undefined;
}

export function fixedTime(clock: Clock): GateTime {
  const nowSec = () => clock.nowSec();
  return { nowSec, latestSec: nowSec, outage: () => undefined, refresh: () => undefined };
}

/** How far a public chain's time may be behind: a machine's clock may be off besides. */
const MAX_LATE_SEC = MAX_SILENCE_MS / 1_000 + CLOCK_SLACK_SEC;

/** How long requests wait for a head since it was asked for. */
const WAIT_MS = 250;

/** For the first head. A public chain's time is near the machine's, and a function that begins cold answers at once. */
const FIRST_WAIT_MS = 75;

/** For the first head of a local chain, whose time may be any. */
const FIRST_LOCAL_WAIT_MS = 1_000;

/** In an outage the last known head and the time since it still serve: quotes need a time even then. */
export function chainTime(
  clock: ChainClock,
  heads: Pick<HeadWatcher, "fresh" | "current" | "missingForMs">,
  network: Network,
): GateTime {
  const isPublic = !LOCAL.test(network.name);
  let isWarned = false;
  const nowSec = () => (clock.head ? clock.nowSec() : systemClock.nowSec());
  return {
    nowSec,
    latestSec: () => Math.max(nowSec(), systemClock.nowSec()),
    outage() {
      const lateSec = systemClock.nowSec() - nowSec();
      const isLate = lateSec > MAX_LATE_SEC;
      if (!isPublic || (!isLate && lateSec >= -CLOCK_SLACK_SEC)) {
        isWarned = false;
        return undefined;
      }
      const off = `${Math.abs(lateSec)} s ${isLate ? "behind" : "ahead of"} this machine's clock`;
      const message = `The newest block that rpcUrl gives of ${network.name} is ${off}: check whether the node is synchronised, and the clock.`;
      const effect = isLate ? "Payments by x402 payload answer 503 meanwhile." : "Payments are judged by the block.";
      if (!isWarned) process.emitWarning(`${message} ${effect}`);
      isWarned = true;
      return isLate ? new Unavailable(message, { reason: "chain_late", retryAfterSec: 10 }) : undefined;
    },
    refresh() {
      if (heads.fresh()) return undefined;
      const waitMs = clock.head ? WAIT_MS : isPublic ? FIRST_WAIT_MS : FIRST_LOCAL_WAIT_MS;
      const leftMs = waitMs - heads.missingForMs();
      const current = heads.current().then(ignored, ignored);
      return leftMs > 0 ? atMost(leftMs, current, ignored) : undefined;
    },
  };
}

const ignored = (): undefined => undefined;
