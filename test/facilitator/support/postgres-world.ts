/** A chain and a PostgreSQL server of its own for all the tests of a file. */
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

export interface PostgresWorld {
  readonly world: FacilitatorWorld;
  readonly postgres: TestPostgres;
}

/** Registers the hooks that start and stop it; what it gives is there in tests only. */
export function usePostgresWorld({ blockMs }: { readonly blockMs: number }): PostgresWorld {
  let world: FacilitatorWorld;
  let postgres: TestPostgres;
  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs, postgres });
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });
  return {
    get world() {
      return world;
    },
    get postgres() {
      return postgres;
    },
  };
}
