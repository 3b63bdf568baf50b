/**
 * Reads and writes cursors of the feed: a position for each chain. With one chain it is a number. With several, each chain
 * has its own, because a lower number of one chain may be committed after a higher number of another.
 */
const RADIX = 36;

/** @returns the position of each chain; a chain that the cursor does not name begins with its first event */
export function positionsOf(cursor: string, chainIds: readonly number[]): Map<number, number> {
  if (!cursor.includes("-")) return new Map(chainIds.map((chainId) => [chainId, Number(cursor)]));
  const named = namedIn(cursor);
  return new Map(chainIds.map((chainId) => [chainId, named.get(chainId) ?? 0]));
}

/**
 * @returns the positions in the cursor of other chains than these. The next cursor keeps them: a chain that was taken away
 * goes on there when it is back.
 */
export function otherPositionsOf(cursor: string, chainIds: readonly number[]): Map<number, number> {
  return new Map(cursor.includes("-") ? [...namedIn(cursor)].filter(([chainId]) => !chainIds.includes(chainId)) : []);
}

function namedIn(cursor: string): Map<number, number> {
  return new Map(
    cursor.split("_").map((part) => {
      const [chainId = "", position = ""] = part.split("-");
      return [Number.parseInt(chainId, RADIX), Number.parseInt(position, RADIX)];
    }),
  );
}

export function cursorOf(positions: ReadonlyMap<number, number>): string {
  const [only] = positions.values();
  if (positions.size === 1 && only !== undefined) return String(only);
  return [...positions]
    .map(([chainId, position]) => `${chainId.toString(RADIX)}-${position.toString(RADIX)}`)
    .join("_");
}
