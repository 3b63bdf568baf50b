/**
 * Records the health of each node from its answers. Identifies a node by its position in RPC_URLS and its host: the
 * rest of a URL may be a key. Makes no decisions; `rpc-nodes.ts` chooses the node.
 */
import { faultOf } from "turnpike/chain";

export type NodeStatus = "unknown" | "well" | "failing" | "wrong_chain";

export interface NodeHealth {
  /** position in RPC_URLS, from 1 */
  readonly position: number;
  /** with its port, if that is not a default one */
  readonly host: string;
  readonly status: NodeStatus;
  readonly head?: number;
  /** blocks behind the node that is furthest ahead */
  readonly behind?: number;
  readonly latencyMs?: number;
  /** seconds since its last answer */
  readonly answeredSec?: number;
  /** cause of its last failure; kept after it recovers */
  readonly lastFault?: { readonly code: string; readonly agoSec: number };
}

/** A node's newest block, and the monotonic milliseconds at which it was first returned. */
export interface SeenHead {
  readonly number: number;
  readonly sinceMs: number;
}

export interface NodeRecord {
  answered(tookMs: number): void;
  failed(error: unknown): void;
  recordHead(head: number): void;
  seenHead(): SeenHead | undefined;
  health(isWrongChain: boolean): NodeHealth;
}

export function recordNode(url: string, index: number, monotonicMs: () => number): NodeRecord {
  let head: SeenHead | undefined;
  let answer: { readonly atMs: number; readonly tookMs: number } | undefined;
  let fault: { readonly atMs: number; readonly code: string } | undefined;
  let isFailing = false;
  const secondsSince = (atMs: number): number => Math.floor((monotonicMs() - atMs) / 1_000);
  return {
    answered(tookMs) {
      answer = { atMs: monotonicMs(), tookMs };
      isFailing = false;
    },
    failed(error) {
      fault = { atMs: monotonicMs(), code: faultOf(error) };
      isFailing = true;
    },
    recordHead(number) {
      if (head?.number !== number) head = { number, sinceMs: monotonicMs() };
    },
    seenHead: () => head,
    health: (isWrongChain) => ({
      position: index + 1,
      host: new URL(url).host,
      status: isFailing ? "failing" : !answer ? "unknown" : isWrongChain ? "wrong_chain" : "well",
      ...(head && { head: head.number }),
      ...(answer && { latencyMs: Math.round(answer.tookMs), answeredSec: secondsSince(answer.atMs) }),
      ...(fault && { lastFault: { code: fault.code, agoSec: secondsSince(fault.atMs) } }),
    }),
  };
}

/** Compares heads among the nodes with status `well`: the height of another chain means nothing. */
export function compareHeads(nodes: readonly NodeHealth[]): NodeHealth[] {
  const best = Math.max(
    ...nodes.flatMap(({ status, head }) => (status === "well" && head !== undefined ? [head] : [])),
  );
  return nodes.map((node) =>
    node.head === undefined || node.status !== "well" ? node : { ...node, behind: best - node.head },
  );
}

/** Longer than a block of any chain takes. */
const STALE_MS = 30_000;

/**
 * Returns whether a node's newest block stays the same while another's grows. When no node's grows, the chain has
 * stopped, and no node is stale.
 */
export function isStale(head: SeenHead | undefined, others: readonly (SeenHead | undefined)[], nowMs: number): boolean {
  if (!head || nowMs - head.sinceMs < STALE_MS) return false;
  return others.some((other) => other && other.number > head.number && other.sinceMs > head.sinceMs);
}

const SILENT_MS = 15_000;

const SILENT_BLOCKS = 3;

/**
 * Returns how long all nodes may be silent before the chain counts as unreachable. Longer than the interval between two
 * queries.
 */
export function silentAfterMs({
  blockTimeMs,
  pollMs,
}: {
  readonly blockTimeMs: number;
  readonly pollMs: number;
}): number {
  return Math.max(SILENT_MS, SILENT_BLOCKS * Math.max(blockTimeMs, pollMs));
}

/** Identifies nodes by position only: the text is public, and a host may be a key. */
export function describeSilence(nodes: readonly NodeHealth[]): string {
  const each = nodes.map(({ position, status, lastFault }) =>
    status === "failing" && lastFault ? `node ${position} (${lastFault.code})` : `node ${position}`,
  );
  return `no node of RPC_URLS answers: ${each.join(", ")}`;
}
