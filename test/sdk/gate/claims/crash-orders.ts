import { Pool } from "pg";
import { postgresCells } from "../../../../sdk/src/gate/cells/postgres";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { timedByActs } from "../support/claim-store";
import { localPlaces, testCrashOrders } from "../support/crash-orders";

describe("a purchase whose gates die", () => {
  const { inMemory, inFile } = localPlaces();
  let postgres: TestPostgres;
  let pool: Pool;
  let places = 0;

  before(async () => {
    postgres = await startPostgres();
    pool = new Pool({ connectionString: await postgres.database(), max: 4 });
    pool.on("error", () => undefined);
  });
  after(async () => {
    await pool.end();
    await postgres.stop();
  });

  const inPostgres = () => {
    const space = `crash ${places++}`;
    return { open: () => timedByActs(postgresCells(pool, { space })) };
  };
  testCrashOrders("in memory", inMemory, 60);
  testCrashOrders("in one file", inFile, 40);
  testCrashOrders("in PostgreSQL", inPostgres, 15);
});
