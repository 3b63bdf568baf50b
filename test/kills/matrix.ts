import path from "node:path";
import { lapseInPostgres } from "../sdk/gate/support/lapse";
import { startPostgres, type TestPostgres } from "../support/postgres";
import { testKillMatrix } from "./support/kill-matrix";

describe("the kill matrix", function () {
  this.timeout(600_000);

  describe("with claims in a file", () => {
    testKillMatrix({ place: (folder, fault) => ({ kind: "file", folder: path.join(folder, `claims-${fault}`) }) });
  });

  describe("with claims in PostgreSQL", () => {
    let postgres: TestPostgres;
    let url: string;

    before(async () => {
      postgres = await startPostgres();
      url = await postgres.database();
    });
    after(() => postgres.stop());

    testKillMatrix({
      place: () => ({ kind: "postgres", url }),
      lapse: () => lapseInPostgres(url),
      faults: ["the gate is killed"],
    });
  });
});
