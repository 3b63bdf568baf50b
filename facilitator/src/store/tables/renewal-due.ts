/** Narrow work list of the renewals: one row per subscription that will be collectable, claimed by lease. */
import type { Generated } from "kysely";

export interface RenewalDueTable {
  chain_id: number;
  id_hash: string;
  /** unix seconds: when to look at it next; at first the end of the paid period, of a leased row the end of its lease */
  due_at: number;
  /** the period's end that this row is about */
  paid_through: number;
  attempts: number;
  lease_owner: string | null;
  /** unix seconds of the chain */
  lease_until: number;
  /** its time has come, and nobody has it: the next two are of now */
  is_ready: Generated<boolean>;
  provider: string | null;
  /** unix seconds */
  grace_ends_at: number | null;
}
