/**
 * Whose turn it is: the providers that have something ready, and from which end of grace on to look at each. Pure memory of
 * one process; what it forgets or never knew is found by looking at everything from time to time.
 */
export interface Turn {
  readonly provider: string;
  /** nothing of this provider's with an earlier end of grace is ready, as far as is known; unix seconds */
  readonly fromSec: number;
}

export interface Turns {
  /** Something of the provider's became ready, with this end of grace. */
  add(provider: string, graceEndsAtSec: number): void;
  /** The next providers in the round, at most so many. */
  next(count: number): Turn[];
  /** What was found when they were asked for `limit` rows. */
  took(asked: readonly Turn[], rows: readonly { provider: string; grace_ends_at: number }[], limit: number): void;
  isEmpty(): boolean;
  clear(): void;
}

export function createTurns(): Turns {
  /** in the order of the round: who was asked stands at the end */
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
        // Fewer than were asked for: everything that these had was given, and none has more.
        if (rows.length < limit) continue;
        from.set(provider, reached ?? fromSec);
      }
    },
    isEmpty: () => from.size === 0,
    clear: () => from.clear(),
  };
}
