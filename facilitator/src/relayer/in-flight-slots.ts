/** Counts a lane's used slots in the pool: those of its last round, and those acquired since. */
export interface InFlightSlots {
  used(): number;
  /** Call it for a transaction that is being signed; its database transaction may still fail. */
  acquire(id: string): void;
  release(id: string): void;
  /** @param seen ids of all stored transactions of this round @param waiting how many of them are in no block yet */
  count(seen: readonly string[], waiting: number): void;
}

/** A transaction unseen for this many rounds was rolled back, or has already left the pool. */
const ROUNDS_UNSEEN = 3;

export function createInFlightSlots(): InFlightSlots {
  let counted = 0;
  /** id, and the number of rounds that did not see it */
  const unseen = new Map<string, number>();
  return {
    used: () => counted + unseen.size,
    acquire: (id) => void unseen.set(id, 0),
    release: (id) => void unseen.delete(id),
    count(seen, waiting) {
      for (const id of seen) unseen.delete(id);
      for (const [id, rounds] of unseen) {
        if (rounds < ROUNDS_UNSEEN) unseen.set(id, rounds + 1);
        else unseen.delete(id);
      }
      counted = waiting;
    },
  };
}
