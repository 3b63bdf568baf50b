/** Records whose contracts' logs a database holds, so that no start reads another contract into it. */
import type { Migration } from "./migration";

export const chainContracts: Migration = {
  id: "446-chain-contracts",
  statements: [
    `create table chain_contracts (
      chain_id bigint primary key, turnpike text not null, batch_settler text not null)`,
  ],
};
