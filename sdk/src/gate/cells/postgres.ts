/** Stores cells in PostgreSQL: one function changes several rows of one table atomically. Knows no client library. */
import type { AtomicStore } from "./cells";

/** A pool or client of `pg`, or anything that answers like one. */
export interface PostgresClient {
  /** Runs one statement, as `pg` does. */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly Record<string, unknown>[] }>;
}

export interface PostgresCellsOptions {
  /** separates the cells of several users of one table */
  readonly space: string;
}

/** The schema, to be created by a role with that right where the gate's own role lacks it. */
export const POSTGRES_SCHEMA = `
CREATE TABLE IF NOT EXISTS turnpike_gate_cells (
  space text NOT NULL,
  key text NOT NULL,
  value text NOT NULL,
  listed boolean NOT NULL DEFAULT false,
  keep_until timestamptz,
  PRIMARY KEY (space, key)
);
CREATE INDEX IF NOT EXISTS turnpike_gate_cells_listed ON turnpike_gate_cells (space) WHERE listed;
CREATE INDEX IF NOT EXISTS turnpike_gate_cells_keep ON turnpike_gate_cells (keep_until) WHERE keep_until IS NOT NULL;
CREATE OR REPLACE FUNCTION turnpike_gate_swap(of_space text, changes jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  change jsonb;
  made int := 0;
  touched int;
BEGIN
  -- In one order everywhere: two gates never wait for each other.
  FOR change IN SELECT value FROM jsonb_array_elements(changes) ORDER BY value ->> 'key' LOOP
    IF change ->> 'expected' IS NULL THEN
      INSERT INTO turnpike_gate_cells AS c (space, key, value, listed, keep_until)
      VALUES (of_space, change ->> 'key', change ->> 'next', coalesce((change ->> 'listed')::boolean, false),
        clock_timestamp() + (change ->> 'keepSec')::float8 * interval '1 second')
      ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, listed = excluded.listed,
        keep_until = excluded.keep_until WHERE c.keep_until < clock_timestamp();
    ELSE
      UPDATE turnpike_gate_cells SET value = change ->> 'next',
        listed = coalesce((change ->> 'listed')::boolean, listed),
        keep_until = coalesce(clock_timestamp() + (change ->> 'keepSec')::float8 * interval '1 second', keep_until)
      WHERE space = of_space AND key = change ->> 'key' AND value = change ->> 'expected';
    END IF;
    GET DIAGNOSTICS touched = ROW_COUNT;
    IF touched = 0 AND made = 0 THEN RETURN false; END IF;
    IF touched = 0 THEN RAISE EXCEPTION 'turnpike_gate_swap: overtaken' USING ERRCODE = 'TP001'; END IF;
    made := made + 1;
  END LOOP;
  RETURN true;
END $$;`;

const OVERTAKEN = "TP001";

/** Serializes creation: of two sessions that create the same object, PostgreSQL lets one fail. */
const OPENING_LOCK = 4_020_402;

/** Expired rows are deleted after this many changes, or this many bytes. */
const PURGE_EVERY = 10_000;

const PURGE_EVERY_BYTES = 16 * 1_024 * 1_024;

export function postgresCells(client: PostgresClient, { space }: PostgresCellsOptions): AtomicStore {
  let changesMade = 0;
  let bytesMade = 0;

  async function exists(): Promise<boolean> {
    const { rows } = await client.query(
      "SELECT to_regprocedure('turnpike_gate_swap(text, jsonb)') IS NOT NULL AS made",
    );
    return rows[0]?.made === true;
  }

  return {
    async open() {
      if (await exists()) return;
      const locked = `SELECT pg_advisory_xact_lock(${OPENING_LOCK});`;
      // One simple query of several statements is one transaction.
      await client.query(`BEGIN; ${locked} ${POSTGRES_SCHEMA} COMMIT;`);
    },
    async nowMs() {
      const { rows } = await client.query("SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms");
      return Number(rows[0]?.ms);
    },
    async read(keys) {
      const { rows } = await client.query(
        `SELECT key, value FROM turnpike_gate_cells
         WHERE space = $1 AND key = ANY($2::text[]) AND (keep_until IS NULL OR keep_until >= clock_timestamp())`,
        [space, [...keys]],
      );
      const texts = new Map(rows.map(({ key, value }) => [key, String(value)]));
      return keys.map((key) => texts.get(key));
    },
    async compareAndSwap(changes, untilMs) {
      for (const { next } of changes) bytesMade += next.length;
      if (++changesMade % PURGE_EVERY === 0 || bytesMade > PURGE_EVERY_BYTES) {
        bytesMade = 0;
        await client.query("DELETE FROM turnpike_gate_cells WHERE keep_until < clock_timestamp()");
      }
      try {
        // A pool keeps statements while it has no connection; NULL: it came too late.
        const { rows } = await client.query(
          `SELECT CASE WHEN extract(epoch FROM clock_timestamp()) * 1000 <= $3::float8
             THEN turnpike_gate_swap($1, $2::jsonb) END AS made`,
          [space, JSON.stringify(changes), untilMs],
        );
        const made = rows[0]?.made;
        return made === null ? "late" : made === true ? "made" : "differs";
      } catch (error) {
        if ((error as { code?: unknown }).code === OVERTAKEN) return "differs";
        throw error;
      }
    },
    async listed() {
      const { rows } = await client.query("SELECT key, value FROM turnpike_gate_cells WHERE space = $1 AND listed", [
        space,
      ]);
      return rows.map(({ key, value }) => ({ key: String(key), text: String(value) }));
    },
  };
}
