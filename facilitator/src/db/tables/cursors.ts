/** How far a worker has come, by its name. */
export interface CursorsTable {
  chain_id: number;
  name: string;
  position: number;
}
