import { Pool } from "pg";
import { cellsOn } from "../../../../sdk/src/gate/cells/cells";
import { postgresCells } from "../../../../sdk/src/gate/cells/postgres";
import { METER_STORE } from "../../../../sdk/src/gate/metering/shared-store";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { testSharedMeter } from "../support/shared-meter";

describe("meters that share PostgreSQL", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let pool: Pool;

  before(async () => {
    postgres = await startPostgres();
    pool = new Pool({ connectionString: await postgres.database(), max: 8 });
    // Connections that end with their server.
    pool.on("error", () => undefined);
  });
  after(async () => {
    await pool.end();
    await postgres.stop();
  });

  testSharedMeter((space) => cellsOn(postgresCells(pool, { space }), { what: METER_STORE }));
});
