/** To which purchase an x402 payment belongs: held from its acceptance on, granted once, for ever. */
export interface PaymentGrantsTable {
  chain_id: number;
  payment_id: string;
  /** the gate's, or that of the stock server's request that holds the payment */
  grant_id: string;
  /** a gate's hold has no end; a stock server's ends with its request */
  is_gate: boolean;
  /** by the database's clock; null for a gate */
  held_until_ms: number | null;
  granted_at_ms: number | null;
}
