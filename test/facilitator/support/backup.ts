import { Client } from "pg";
import { until } from "../../support/facilitator";
import type { TestPostgres } from "../../support/postgres";

const PATIENCE_MS = 120_000;

/**
 * Copies a database, as pg_dump and pg_restore would: the same rows in another one. Nobody may stay connected to it.
 * @returns the URL of the copy
 */
export async function copyDatabase(postgres: TestPostgres, url: string): Promise<string> {
  const copy = new URL(await postgres.database());
  const [to, from] = [copy.pathname.slice(1), new URL(url).pathname.slice(1)];
  const server = new Client({ connectionString: postgres.url });
  await server.connect();
  try {
    await server.query(`drop database ${to}`);
    const copied = (): Promise<boolean> =>
      server.query(`create database ${to} template ${from}`).then(
        () => true,
        () => false,
      );
    await until(copied, "the last connection is gone", PATIENCE_MS);
  } finally {
    await server.end();
  }
  return copy.href;
}
