/** What gates tell of their requests, in sums: who was asked to pay, who paid, who was served. A gate's word, not the chain's. */
export interface RollupFunnelTable {
  chain_id: number;
  /** empty for all of them together */
  provider: string;
  grain: number;
  bucket: number;
  /** a path's template; empty for all of a provider's together */
  resource: string;
  token: string;
  step: string;
  cause: string;
  offer: string;
  count: number;
  amount: string;
}

/** Which reports were counted, so that one that is sent again is not. */
export interface GateReportsTable {
  chain_id: number;
  provider: string;
  id: string;
  digest: string;
  accepted_at: number;
}
