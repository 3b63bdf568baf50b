/** Where a reader of something has come to, by name. */
export interface CursorsTable {
  chain_id: number;
  name: string;
  position: number;
}
