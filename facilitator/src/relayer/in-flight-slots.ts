/** A lane's places in the pool: those that its last round has counted, and those that were taken since. */
export interface InFlightSlots {
  used(): number;
  /** for a transaction that is being signed; its database transaction may yet fail */
  acquire(id: string): void;
  release(id: string): void;
  /** @param seen ids of all that this round found stored. @param waiting how many of them no block holds yet */
  count(seen: readonly string[], waiting: number): void;
}

/** Whatever so many rounds have not seen was rolled back, or has left the pool already. */
const ROUNDS_UNSEEN = 3;

export function createInFlightSlots(): InFlightSlots {
  let counted = 0;
  /** id, and how many rounds have not seen it */
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
