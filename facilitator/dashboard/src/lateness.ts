/** Reports whether the figures follow the chain, from the service's readiness. */
import type { Readiness } from "turnpike/facilitator";
import { formatCount } from "./format";

/**
 * Returns a sentence while the indexer is behind, or does not know whether it is; undefined while it follows.
 * @param checks of one chain
 */
export function latenessOf({ checks }: Readiness): string | undefined {
  // Of several chains, a check's name begins with the network.
  const checkOf = (part: string) => checks.find(({ name }) => name === part || name.endsWith(`: ${part}`));
  const chain = checkOf("chain");
  // Without a node nobody knows how many blocks are missing.
  if (chain && !chain.ok) return `The figures may be behind the chain: ${chain.detail}.`;
  const indexer = checkOf("indexer");
  if (!indexer || indexer.ok) return undefined;
  const late = /(\d+) s late/.exec(indexer.detail)?.[1];
  const behind =
    late === undefined || late === "0" ? "behind the chain" : `${formatCount(Number(late))} s behind the chain`;
  return `The figures are ${behind}: the Facilitator has not read the newest blocks yet. What happened since is missing until it has.`;
}
