/** One row per relayer key: who may send with it, until when, and the next nonce. The row is the fence. */
export interface LanesTable {
  chain_id: number;
  /** address of the key */
  key: string;
  lease_owner: string;
  lease_epoch: number;
  /** unix milliseconds by the database's clock */
  lease_until_ms: number;
  next_nonce: number;
  status: "running" | "stopped";
  reason: string | null;
}
