export interface CursorsTable {
  chain_id: number;
  name: string;
  position: number;
}
