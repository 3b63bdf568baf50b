/** Reports whether the figures follow the chain, from the service's readiness. */
import type { Readiness } from "turnpike/facilitator";
import { formatCount } from "./format";

/** Returns a sentence while the indexer is behind; undefined while it follows. */
export function latenessOf({ checks }: Readiness): string | undefined {
  const indexer = checks.find(({ name }) => name === "indexer");
  if (!indexer || indexer.ok) return undefined;
  const late = /(\d+) s late/.exec(indexer.detail)?.[1];
  const behind =
    late === undefined || late === "0" ? "behind the chain" : `${formatCount(Number(late))} s behind the chain`;
  return `The figures are ${behind}: the Facilitator has not read the newest blocks yet. What happened since is missing until it has.`;
}
