import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Pool } from "pg";
import { fileClaims, memoryClaims } from "turnpike/gate";
import { postgresCells } from "../../../../sdk/src/gate/cells/postgres";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { timedByActs } from "../support/claim-store";
import { testCrashOrders } from "../support/crash-orders";

describe("a purchase whose gates die", () => {
  let folder: string;
  let postgres: TestPostgres;
  let pool: Pool;
  let places = 0;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-crash-orders-"));
    postgres = await startPostgres();
    pool = new Pool({ connectionString: await postgres.database(), max: 4 });
    pool.on("error", () => undefined);
  });
  after(async () => {
    await pool.end();
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const inMemory = () => {
    const store = memoryClaims({ warn: false });
    return { open: () => ({ ...store, close: async () => undefined }) };
  };
  const inFile = () => {
    const place = path.join(folder, String(places++));
    return { open: () => fileClaims({ folder: place }) };
  };
  const inPostgres = () => {
    const space = `crash ${places++}`;
    return { open: () => timedByActs(postgresCells(pool, { space })) };
  };
  testCrashOrders("in memory", inMemory, 60);
  testCrashOrders("in one file", inFile, 40);
  testCrashOrders("in PostgreSQL", inPostgres, 15);
});
