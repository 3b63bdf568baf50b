/**
 * Schedules providers in turn: which ones have ready rows, and from which end of grace to read each. In memory of one
 * process only; a periodic full scan finds what it does not know.
 */
export interface Turn {
  readonly provider: string;
  /** no row of this provider with an earlier end of grace is known to be ready; unix seconds */
  readonly fromSec: number;
}

export interface Turns {
  /** Records that a row of the provider became ready, with this end of grace. */
  add(provider: string, graceEndsAtSec: number): void;
  /** Returns the next providers in the round, up to a limit. */
  next(count: number): Turn[];
  /** Records what was found when they were queried for `limit` rows. */
  took(asked: readonly Turn[], rows: readonly { provider: string; grace_ends_at: number }[], limit: number): void;
  isEmpty(): boolean;
  clear(): void;
}

export function createTurns(): Turns {
  /** in the order of the round: queried providers move to the end */
  const from = new Map<string, number>();
  return {
    add(provider, graceEndsAtSec) {
      const known = from.get(provider);
      if (known === undefined || graceEndsAtSec < known) from.set(provider, graceEndsAtSec);
    },
    next: (count) => [...from].slice(0, count).map(([provider, fromSec]) => ({ provider, fromSec })),
    took(asked, rows, limit) {
      const latest = new Map<string, number>();
      for (const { provider, grace_ends_at } of rows) {
        latest.set(provider, Math.max(latest.get(provider) ?? 0, grace_ends_at));
      }
      for (const { provider, fromSec } of asked) {
        from.delete(provider);
        const reached = latest.get(provider);
        // The query returned fewer rows than its limit, so these providers have no more.
        if (rows.length < limit) continue;
        from.set(provider, reached ?? fromSec);
      }
    },
    isEmpty: () => from.size === 0,
    clear: () => from.clear(),
  };
}
