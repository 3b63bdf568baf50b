/** Narrow work list of the renewals: one row per subscription that will be collectable, claimed by lease. */
export interface RenewalDueTable {
  chain_id: number;
  id_hash: string;
  /** unix seconds: when to look at it next; at first the end of the paid period */
  due_at: number;
  /** the period's end that this row is about */
  paid_through: number;
  attempts: number;
  lease_owner: string | null;
  /** unix seconds of the chain */
  lease_until: number;
}
