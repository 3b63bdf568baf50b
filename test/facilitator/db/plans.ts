/** How the statements of a payment find their rows in tables that have grown. */
import { expect } from "chai";
import { Client } from "pg";
import pino from "pino";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { copyPayments, keepOriginals } from "../../../bench/storage/copies";
import { createCosts } from "../../../facilitator/src/analytics/costs";
import { listPayments } from "../../../facilitator/src/analytics/lists";
import type { Core } from "../../../facilitator/src/app/core";
import { createLookups } from "../../../facilitator/src/app/lookups";
import { startAppUpkeep } from "../../../facilitator/src/app/upkeep";
import { compareSettled } from "../../../facilitator/src/cli/maintenance/since/settled";
import { openStore } from "../../../facilitator/src/db/open";
import { listEvents } from "../../../facilitator/src/events/list";
import { newestBlock } from "../../../facilitator/src/indexer/applied-blocks";
import type { ExactRequest } from "../../../facilitator/src/payments";
import { findExpired } from "../../../facilitator/src/payments/expired";
import { type Acceptance, requestOf } from "../../../facilitator/src/payments/payment-request";
import { createReservations } from "../../../facilitator/src/payments/reservations";
import { createMetrics } from "../../../facilitator/src/telemetry/metrics";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const REAL = 40;

const PAYMENTS = 20_000;

/** Tables of a row or more for every payment. */
const TABLES = ["payments", "payment_grants", "events"];

/** Indexes that only these statements need. */
const LISTING = ["payments_block", "payments_finished", "payments_finished_of_payer", "transactions_stored"];

/** Bytes of each table's indexes for one payment; those that only pending payments are in take next to nothing. */
const MAX_INDEX_BYTES: Readonly<Record<string, number>> = { payments: 510, payment_grants: 130, events: 520 };

/** Payments of one block. */
const IN_BLOCK = 1_000;

/** Payments that are reserved together. */
const TOGETHER = 50;

/** Events that are old enough to be deleted. */
const OLD_EVENTS = 1_000;

describe("Facilitator: statements at scale", function () {
  this.timeout(480_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let client: Client;
  let lastOldEvent: number;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: 200, postgres });
    const core = await world.core();
    client = new Client({ connectionString: world.env().DATABASE_URL });
    await client.connect();
    await settle(core, REAL);
    await world.chain.provider.send("hardhat_mine", ["0x90"]);
    const head = await world.chain.provider.getBlockNumber();
    await until(async () => core.indexer.applied() >= head, "the chain is read");
    expect(await count("transactions where not is_final")).to.equal(0);
    await core.stop();
    await keepOriginals(client);
    await copyPayments(client, REAL, PAYMENTS);
    // The originals come first in the order of sending.
    await client.query("update transactions set created_at_ms = 0");
    const { rows } = await client.query<{ seq: string }>("select seq from events order by seq limit $1", [OLD_EVENTS]);
    lastOldEvent = Number(rows.at(-1)?.seq);
    await client.query("update events set block_time = 0 where seq <= $1", [lastOldEvent]);
    await client.query("vacuum analyze");
  });
  after(async () => {
    await client.end();
    await world.stop();
    await postgres.stop();
  });

  async function settle(core: Core, payments: number): Promise<void> {
    const requests = await Promise.all(Array.from({ length: payments }, () => world.signExact()));
    await Promise.all(requests.map((request) => buy(core, request)));
  }

  async function buy({ payments }: Core, request: ExactRequest): Promise<void> {
    const settled = await payments.settleExact(request);
    if (settled.kind !== "settled") expect.fail(`it is ${settled.kind}`);
    const granted = await payments.grantExact(request, settled, { waitMs: 5_000, isGone: () => false });
    expect(granted.kind).to.equal("granted");
  }

  async function count(from: string): Promise<number> {
    const { rows } = await client.query<{ count: string }>(`select count(*) from ${from}`);
    return Number(rows[0]?.count);
  }

  /** Number of times that each table was read from end to end. */
  async function fullReads(): Promise<Record<string, number>> {
    await reported();
    const { rows } = await client.query<{ table: string; reads: string }>(
      `select relname as table, seq_scan as reads from pg_stat_user_tables where relname = any($1)`,
      [TABLES],
    );
    return Object.fromEntries(rows.map(({ table, reads }) => [table, Number(reads)]));
  }

  /** Waits until all reads are counted: other backends count theirs when they end, and this one's may wait for a second. */
  async function reported(): Promise<void> {
    const others =
      "pg_stat_activity where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
    await until(async () => (await count(others)) === 0, "every other backend has ended");
    await client.query("select pg_stat_force_next_flush()");
  }

  it("read no table from end to end, from a payment's acceptance to its lists, costs and clearing", async () => {
    const { chainId } = world.config();
    const before = await fullReads();
    const core = await world.core();
    const { db } = core.store;
    await settle(core, 20);
    const [last] = await world.transfers();
    const signed = await world.signExact({ grantId: `0x${"5a".repeat(32)}` });
    await buy(core, signed);
    await buy(core, signed);
    await core.payments.status(world.idOf(signed));
    const page = { after: undefined, limit: 20 };
    const payer = signed.authorization.from;
    for (const filter of [{}, { payer }, { status: "settled" as const }])
      expect(await listPayments(db, { chainId, payTo: world.payee, ...filter }, page)).not.to.deep.equal([]);
    await listEvents(db, { owner: { provider: world.payee, chainIds: [chainId] }, after: "0", limit: 20 });
    const paymentId = world.idOf(signed);
    const taken = { kind: "payment", id: paymentId } as const;
    expect(await createLookups(db, [world.config()]).keeping(taken), "its chain is served").to.deep.equal([]);
    const elsewhere = createLookups(db, [{ chainId: 1, tokens: [] }]);
    expect(await elsewhere.keeping(taken)).to.deep.equal([chainId]);
    expect(await elsewhere.keeping({ kind: "subscription", id: paymentId })).to.deep.equal([]);
    const costs = createCosts(db, chainId, undefined);
    expect((await costs.of(last?.transaction as Hex))?.payments).to.be.greaterThan(0);
    await costs.ofLastDay();
    const newest = await newestBlock(db, chainId);
    const log = pino({ level: "silent" });
    await findExpired({ store: core.store, chain: core.relayer.chain, chainId, log }, newest?.number ?? 0);
    const settled = { fromBlock: (newest?.number ?? 0) - 200, toBlock: newest?.number ?? 0 };
    const job = { store: core.store, config: core.config, chain: core.relayer.chain, log };
    for await (const step of compareSettled(job, settled)) expect(step.wrong).to.deep.equal([]);
    const upkeep = startAppUpkeep({
      ...core,
      config: { ...core.config, retainTransactionsDays: 2, retainEventsDays: 2 },
      metrics: createMetrics(),
      log,
    });
    await until(async () => (await count("transactions where created_at_ms = 0")) === 0, "old ones are deleted");
    const pruned = `cursors where name = 'pruned events' and position = ${lastOldEvent}`;
    await until(async () => (await count(pruned)) === 1, "old events are deleted");
    await upkeep.stop();
    await core.stop();
    const after = await fullReads();
    expect(after).to.deep.equal(before);
    const { rows: used } = await client.query<{ index: string }>(
      "select indexrelname as index from pg_stat_user_indexes where idx_scan > 0 and indexrelname = any($1) order by 1",
      [LISTING],
    );
    expect(used.map(({ index }) => index)).to.deep.equal(LISTING);
  });

  for (const [table, maxBytes] of Object.entries(MAX_INDEX_BYTES)) {
    it(`keep the indexes of ${table} under ${maxBytes} bytes a payment`, async () => {
      const { rows } = await client.query<{ bytes: string }>("select pg_indexes_size($1::regclass) as bytes", [table]);
      expect(Number(rows[0]?.bytes) / PAYMENTS).to.be.lessThan(maxBytes);
    });
  }

  it("read a block's payments once for all payments that are reserved together", async () => {
    const { chainId } = world.config();
    const { rows: newest } = await client.query("select number, hash from blocks order by number desc limit 1");
    await client.query(
      `update payments p set block_number = $1, block_hash = decode(substr($2, 3), 'hex'), log_index = o.place
      from (select payment_id, 100000 + row_number() over () as place from payments limit ${IN_BLOCK}) o
      where p.payment_id = o.payment_id`,
      [newest[0].number, newest[0].hash],
    );
    await client.query("vacuum analyze payments");
    const before = await rowsRead();
    const store = await openStore(world.config().database);
    const reservations = createReservations({ store, chainId, monotonicMs: () => 0 });
    const atBlock = Number(newest[0].number) - 1;
    const acceptances = await Promise.all(Array.from({ length: TOGETHER }, (_, place) => acceptanceOf(place, atBlock)));
    const outcomes = await Promise.all(acceptances.map((acceptance) => reservations.reserve(acceptance)));
    expect(outcomes).to.deep.equal(acceptances.map(() => "bound"));
    await store.close();
    expect((await rowsRead()) - before).to.be.within(IN_BLOCK, 10 * IN_BLOCK);
  });

  /** A payment of a payer of its own. */
  async function acceptanceOf(place: number, atBlock: number): Promise<Acceptance> {
    const signed = await world.signExact();
    const request = requestOf(world.config(), "settle", {
      ...signed,
      authorization: { ...signed.authorization, from: addressOfKey(testKey(`payer ${place}`) as Hex) },
      purchase: { grantId: testKey("grant") as Hex, isGate: true },
    });
    if (request instanceof Error) throw request;
    const { chainId } = world.config();
    return { chainId, request, state: "queued", hasCode: false, balance: request.authorization.value, atBlock };
  }

  /** Number of rows of payments that statements have read. */
  async function rowsRead(): Promise<number> {
    await reported();
    const { rows } = await client.query<{ read: string }>(
      "select seq_tup_read + idx_tup_fetch as read from pg_stat_user_tables where relname = 'payments'",
    );
    return Number(rows[0]?.read);
  }
});
