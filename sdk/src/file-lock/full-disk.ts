const FULL = new Set(["ENOSPC", "EDQUOT"]);

/** Returns whether an error, or what caused it, says that the disk or the user's share of it is full. */
export function isDiskFull(error: unknown): boolean {
  for (let at = error as { readonly code?: string; readonly cause?: unknown } | undefined; at; ) {
    if (at.code !== undefined && FULL.has(at.code)) return true;
    at = at.cause as typeof at;
  }
  return false;
}
