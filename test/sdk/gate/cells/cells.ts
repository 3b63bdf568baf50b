import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Pool } from "pg";
import { type Cells, cellsOn, memoryCells } from "../../../../sdk/src/gate/cells/cells";
import { LogCells } from "../../../../sdk/src/gate/cells/log";
import { postgresCells } from "../../../../sdk/src/gate/cells/postgres";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { testCells } from "../support/cells";

describe("cells", () => {
  describe("in memory", () => {
    let last: Cells;
    testCells((again) => {
      if (!again) last = memoryCells();
      return last;
    });
  });

  describe("in a log", () => {
    let home: string;
    let folder: string;
    const open: Cells[] = [];
    before(() => {
      home = mkdtempSync(path.join(tmpdir(), "turnpike-cells-"));
    });
    afterEach(async () => {
      for (const cells of open.splice(0)) await cells.close();
    });
    after(() => rmSync(home, { recursive: true, force: true }));
    testCells((again) => {
      if (!again) folder = mkdtempSync(path.join(home, "log-"));
      const cells = new LogCells({ folder, name: "cells", what: "claims", rotateBytes: 500 });
      open.push(cells);
      return cells;
    });
  });

  describe("in PostgreSQL", function () {
    this.timeout(120_000);
    let postgres: TestPostgres;
    let pool: Pool;
    let spaces = 0;
    before(async () => {
      postgres = await startPostgres();
      pool = new Pool({ connectionString: await postgres.database(), max: 4 });
      pool.on("error", () => undefined);
    });
    after(async () => {
      await pool.end();
      await postgres.stop();
    });
    testCells((again) => {
      if (!again) spaces++;
      return cellsOn(postgresCells(pool, { space: `cells ${spaces}` }), { what: "The store" });
    });
  });
});
