/** One row for each payment that was sent and moved nothing, for an hour. */
export interface FailedSpendsTable {
  chain_id: number;
  /** by the database's clock */
  at_ms: number;
  payer: string;
  pay_to: string;
}
