/** Ends the leases of claims whose gate is dead, in stores that have a clock of their own. */
import type { Redis } from "ioredis";
import { Pool } from "pg";

export async function lapseInPostgres(url: string): Promise<void> {
  const pool = new Pool({ connectionString: url });
  const past = "regexp_replace(value, '^(S \\S+ running \\S+) \\d+', '\\1 1')";
  await pool.query(`UPDATE turnpike_gate_cells SET value = ${past}`);
  await pool.end();
}

export async function lapseInRedis(client: Redis): Promise<void> {
  for (const key of await client.keys("turnpike:claim:0x*")) {
    const line = String(await client.get(key));
    await client.set(key, line.replace(/^(S \S+ running \S+) \d+/, "$1 1"), "KEEPTTL");
  }
}
