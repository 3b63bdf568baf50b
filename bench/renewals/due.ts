/**
 * Measures the claim of one due renewal among many subscriptions, on a private PostgreSQL with the service's own work
 * list. A snapshot stays open from before the first claim. In addition to elapsed time, which other load disturbs, it
 * measures the CPU time of the database's processes, which other load does not affect.
 */
import { readFileSync } from "node:fs";
import { Client } from "pg";
import { Secret } from "../../facilitator/src/config/setting";
import { openStore } from "../../facilitator/src/db/open";
import { createWorkList } from "../../facilitator/src/subscriptions/renewals/work-list";

export interface DueReport {
  readonly subscriptions: number;
  readonly claimed: number;
  /** microseconds for each claimed row: reading, leasing, scheduling the next check */
  readonly perItemUs: number;
  /** the claims alone, without the scheduling */
  readonly claimUs: number;
  /** CPU of the database's processes, microseconds for each claimed row */
  readonly cpuUs: number;
}

export interface DueAsk {
  /** of the server */
  readonly serverUrl: string;
  readonly subscriptions: number;
  /** of them due in each round */
  readonly due: number;
  readonly rounds: number;
  /** rows of one claim */
  readonly batch: number;
  readonly withOldSnapshot: boolean;
}

const CHAIN_ID = 31_337;
const DAY_SEC = 86_400;
const NOW_SEC = 1_800_000_000;
const PROVIDERS = 50;

export async function measureDue(ask: DueAsk): Promise<DueReport> {
  const name = `renewals_${ask.subscriptions}_${Math.random().toString(36).slice(2, 8)}`;
  const admin = await connect(ask.serverUrl);
  await admin.query(`create database ${name}`);
  const url = new URL(ask.serverUrl);
  url.pathname = `/${name}`;
  const store = await openStore({ kind: "postgres", url: new Secret(url.href), poolSize: 4 });
  const fill = await connect(url.href);
  await fillTables(fill, ask);
  const snapshot = await connect(url.href);
  if (ask.withOldSnapshot) {
    await snapshot.query("begin isolation level repeatable read");
    await snapshot.query("select count(*) from plans");
  }
  const rounds: { total: number; claims: number; cpu: number }[] = [];
  for (let round = 0; round < ask.rounds; round++) rounds.push(await oneRound(round));
  await snapshot.end();
  await fill.end();
  await store.close();
  await admin.query(`drop database ${name} with (force)`);
  await admin.end();
  // The first round also fills caches; the best of the others is the least disturbed.
  const warm = rounds.slice(1);
  return {
    subscriptions: ask.subscriptions,
    claimed: ask.due,
    perItemUs: Math.min(...warm.map(({ total }) => total)),
    claimUs: Math.min(...warm.map(({ claims }) => claims)),
    // CPU time has ticks of 10 ms, so all rounds are measured together.
    cpuUs: warm.reduce((sum, { cpu }) => sum + cpu, 0) / warm.length,
  };

  /** Claims everything that is due for one owner and reschedules it, as after failures. */
  async function oneRound(round: number): Promise<{ total: number; claims: number; cpu: number }> {
    const nowSec = NOW_SEC + round * DAY_SEC;
    const monotonicMs = (): number => performance.now();
    const owner = `bench ${round}`;
    const work = createWorkList({
      db: store.db,
      chainId: CHAIN_ID,
      owner,
      limit: ask.batch,
      leaseSec: 120,
      monotonicMs,
    });
    let count = 0;
    let claimMs = 0;
    const cpuBeforeMs = await databaseCpuMs(fill, name);
    const startedMs = performance.now();
    for (;;) {
      const beganMs = performance.now();
      const rows = await work.claim(nowSec);
      claimMs += performance.now() - beganMs;
      if (rows.length === 0) break;
      count += rows.length;
      await work.postpone(rows.map((row) => ({ ...row, dueAtSec: nowSec + 30 * DAY_SEC, attempts: row.attempts + 1 })));
    }
    if (count !== ask.due) throw new TypeError(`claimed ${count} of ${ask.due} in round ${round}`);
    const tookMs = performance.now() - startedMs;
    const cpuMs = (await databaseCpuMs(fill, name)) - cpuBeforeMs;
    return { total: (tookMs * 1_000) / count, claims: (claimMs * 1_000) / count, cpu: (cpuMs * 1_000) / count };
  }
}

const TICK_MS = 10;

/** Returns the CPU time of all connections since they were opened. The server runs on this machine. */
async function databaseCpuMs(db: Client, name: string): Promise<number> {
  const { rows } = await db.query<{ pid: number }>(
    "select pid from pg_stat_activity where datname = $1 and backend_type = 'client backend'",
    [name],
  );
  let ticks = 0;
  for (const { pid } of rows) {
    // After the name in parentheses: state, ten others, then user and system time.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * TICK_MS;
}

/** In each round exactly `due` rows are due; all others wait for later. */
async function fillTables(db: Client, { subscriptions, due, rounds }: DueAsk): Promise<void> {
  const address = (sql: string): string => `'0x' || lpad(to_hex(${sql}), 40, '0')`;
  const hash = (sql: string): string => `'0x' || md5((${sql})::text) || md5((${sql})::text || 'x')`;
  await db.query(`insert into plans select ${CHAIN_ID}, ${hash("p")}, p, ${address("p")}, ${address("1")}, 1000000,
    ${30 * DAY_SEC}, (1 + p % 5) * 3600, ${address("2")}, ${hash("0")}, '{}', false, null, 1, 1
    from generate_series(1, ${PROVIDERS}) p`);
  await db.query(`insert into subscriptions select ${CHAIN_ID}, ${hash("s")}, ${address("s")}, ${hash(`1 + s % ${PROVIDERS}`)},
    ${NOW_SEC}, 0, false, false, false, null, 1, 1, ${hash("0")} from generate_series(1, ${subscriptions}) s`);
  await db.query(`insert into renewal_due (chain_id, id_hash, due_at, paid_through)
    select ${CHAIN_ID}, ${hash("s")}, case when s <= ${due * rounds}
      then ${NOW_SEC} + ((s - 1) / ${due}) * ${DAY_SEC} - s % 3600
      else ${NOW_SEC + rounds * DAY_SEC} + s % ${25 * DAY_SEC} end, ${NOW_SEC} from generate_series(1, ${subscriptions}) s`);
  for (const table of ["plans", "subscriptions", "renewal_due"]) await db.query(`vacuum analyze ${table}`);
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  // The server stops first after a failure, so that the original failure is reported.
  client.on("error", () => undefined);
  await client.connect();
  return client;
}
