import path from "node:path";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { lapseInPostgres } from "../support/lapse";
import { testKilledWhileSettling } from "../support/settle-killed";

/** A claim's lease is over for a process whose clock is this far ahead. */
const PAST_LEASE_MS = 61_000;

const TEN_MINUTES_MS = 600_000;

describe("a gate that is killed while it settles", function () {
  this.timeout(120_000);

  describe("with claims in a file", () => {
    testKilledWhileSettling({
      place: (folder) => ({ kind: "file", folder: path.join(folder, "claims") }),
      shiftsMs: [0, PAST_LEASE_MS],
    });
  });

  describe("with claims in PostgreSQL, and clocks twenty minutes apart", () => {
    let postgres: TestPostgres;
    let url: string;

    before(async () => {
      postgres = await startPostgres();
      url = await postgres.database();
    });
    after(() => postgres.stop());

    testKilledWhileSettling({
      place: () => ({ kind: "postgres", url }),
      shiftsMs: [-TEN_MINUTES_MS, TEN_MINUTES_MS],
      lapse: () => lapseInPostgres(url),
    });
  });
});
