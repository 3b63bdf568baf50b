/** Progress of a worker, by its name. */
export interface CursorsTable {
  chain_id: number;
  name: string;
  position: number;
}
