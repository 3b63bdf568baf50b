/** The contracts of each chain that the database was read from. Written at the first start, and by a wiping reindex. */
export interface ChainContractsTable {
  chain_id: number;
  /** EIP-55 */
  turnpike: string;
  batch_settler: string;
}
