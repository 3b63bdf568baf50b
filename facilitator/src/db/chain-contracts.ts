/**
 * Binds a database to the contracts that it reads, one pair for each chain. Rows do not say which contract they are of:
 * a start with another TURNPIKE would mix the records of two contracts for good.
 */
import { type Address, ConfigError } from "turnpike/protocol";
import type { Db, Tx } from "./open";

export interface ChainContracts {
  readonly chainId: number;
  readonly turnpike: Address;
  readonly batchSettler: Address;
}

/** @returns what is wrong when the database belongs to other contracts on this chain; undefined for a new database */
export async function foreignContracts(db: Db, wanted: ChainContracts): Promise<string | undefined> {
  const bound = await db
    .selectFrom("chain_contracts")
    .selectAll()
    .where("chain_id", "=", wanted.chainId)
    .executeTakeFirst();
  if (!bound) return undefined;
  const pairs = [
    ["TURNPIKE", bound.turnpike, wanted.turnpike],
    ["BATCH_SETTLER", bound.batch_settler, wanted.batchSettler],
  ] as const;
  const wrong = pairs.filter(([, theirs, ours]) => theirs !== ours);
  if (wrong.length === 0) return undefined;
  const differences = wrong.map(([name, theirs, ours]) => `${name} ${theirs}, and ${name} is ${ours}`).join("; ");
  return `the database belongs to ${differences} (chain ${wanted.chainId})`;
}

export const FOREIGN_REMEDY =
  "set it to the address that the database belongs to, or name another database; if the contract was replaced for good, stop every Facilitator on this database and run `facilitator reindex --wipe`";

/** @throws ConfigError when the database belongs to other contracts */
export async function requireChainContracts(db: Db, wanted: ChainContracts): Promise<void> {
  const problem = await foreignContracts(db, wanted);
  if (problem) throw new ConfigError(`${problem}: ${FOREIGN_REMEDY}`);
}

/**
 * Binds a new database; call it once the contracts were found on the chain.
 * @throws ConfigError when it belongs to others
 */
export async function bindChainContracts(db: Db, wanted: ChainContracts): Promise<void> {
  await db
    .insertInto("chain_contracts")
    .values(rowOf(wanted))
    .onConflict((oc) => oc.doNothing())
    .execute();
  // Another process may have bound it first.
  await requireChainContracts(db, wanted);
}

/** Binds a database to other contracts; everything that was read from the former ones is deleted in `tx`. */
export async function rebindChainContracts(tx: Tx, wanted: ChainContracts): Promise<void> {
  const { chain_id, ...contracts } = rowOf(wanted);
  await tx
    .insertInto("chain_contracts")
    .values({ chain_id, ...contracts })
    .onConflict((oc) => oc.column("chain_id").doUpdateSet(contracts))
    .execute();
}

const rowOf = ({ chainId, turnpike, batchSettler }: ChainContracts) => ({
  chain_id: chainId,
  turnpike,
  batch_settler: batchSettler,
});
