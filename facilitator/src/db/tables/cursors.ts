export interface CursorsTable {
  chain_id: number;
  name: string;
  position: number;
}

/** What the last `reconcile` named, in its order. */
export interface ReconcileDifferencesTable {
  chain_id: number;
  place: number;
  difference: string;
}
