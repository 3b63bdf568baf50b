/** Debits that providers asked for: which transaction carries each, so that a repeated request finds it. */
export interface DebitRequestsTable {
  chain_id: number;
  id_hash: string;
  debit_index: number;
  /** from 0; a further one only when the one before can never land */
  attempt: number;
  amount: string;
  provider: string;
  /** set in the transaction that inserts the row */
  transaction_id: string | null;
  /** why this attempt did not debit; absent while it may */
  closed_code: string | null;
  accepted_at_ms: number;
}
