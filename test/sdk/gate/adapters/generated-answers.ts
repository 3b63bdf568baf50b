/**
 * C14 HA23: thousands of answers, written in any order: what arrives, and what the handler sees, is what the same handler
 * gives and sees without a gate. ANSWER_RUNS sets how many, ANSWER_SEED which.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Pool } from "pg";
import { fileClaims, memoryClaims } from "turnpike/gate";
import { postgresClaims } from "turnpike/gate/postgres";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import type { Stores } from "../support/answer-gates";
import { testGeneratedAnswers } from "../support/generated-answers";
import { testGeneratedResponses } from "../support/generated-responses";

let folder: string;
let postgres: TestPostgres;
let pool: Pool;
let spaces = 0;

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "turnpike-generated-"));
  postgres = await startPostgres();
  pool = new Pool({ connectionString: await postgres.database(), max: 4 });
  // Connections that end with their server.
  pool.on("error", () => undefined);
});
after(async () => {
  await pool.end();
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
});

const STORES: Stores = {
  memory: () => memoryClaims({ warn: false }),
  file: () => fileClaims({ folder: path.join(folder, String(spaces++)) }),
  postgres: () => postgresClaims(pool, { space: String(spaces++) }),
};
testGeneratedAnswers("memory, a file and PostgreSQL", STORES);
testGeneratedResponses("memory, a file and PostgreSQL", STORES);
