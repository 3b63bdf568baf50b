/** Events that are deleted because of their age: what they wait for, what stays of them, and their archive. */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { expect } from "chai";
import pino from "pino";
import { type Hex, isTurnpikeError, type SignedPayment, ZERO_ADDRESS } from "turnpike/protocol";
import { keepCosts, transactionCosts } from "../../../facilitator/src/analytics/costs";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import type { Core } from "../../../facilitator/src/app/core";
import { eventRetention, upkeepTasks } from "../../../facilitator/src/app/upkeep";
import { reconcile } from "../../../facilitator/src/cli/maintenance/reconcile";
import { reindex } from "../../../facilitator/src/cli/maintenance/reindex";
import { reconcileSince } from "../../../facilitator/src/cli/maintenance/since";
import { listEvents } from "../../../facilitator/src/events/list";
import { deleteOldEvents } from "../../../facilitator/src/events/retention";
import { noProgress } from "../../../facilitator/src/lib/progress";
import { transactionsAwaited } from "../../../facilitator/src/payments/ledger";
import { deleteOldTransactions } from "../../../facilitator/src/relayer/retention";
import { finaliseTransactions } from "../../../facilitator/src/relayer/transactions";
import { createWebhookEndpoints } from "../../../facilitator/src/webhooks/endpoints";
import { type FacilitatorWorld, type Payer, startWorld, until } from "../../support/facilitator";

const log = pino({ level: "silent" });

const DAY_SEC = 86_400;

describe("Facilitator: events that are no longer kept", function () {
  this.timeout(300_000);
  let world: FacilitatorWorld;
  let core: Core;
  let folder: string;
  const paid: SignedPayment[] = [];

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-archive-"));
    // Few blocks: a busy machine reads them late.
    world = await startWorld({ blockMs: 1_000 });
    core = await world.core();
    const payer = await world.payer();
    for (let payments = 0; payments < 5; payments++) paid.push(await settle(payer));
  });
  after(async () => {
    await world?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function settle(payer: Payer): Promise<SignedPayment> {
    const signed = await world.signPayment({ payer, amount: 1_000n, validForSec: 3_600 });
    await until(async () => (await core.payments.authorize(signed)).kind === "settled", "it is settled");
    return signed;
  }

  interface Limits {
    readonly beforeSec?: number;
    readonly finalBlock?: number;
    readonly archiveDir?: string;
  }

  const run = ({ beforeSec = 1e11, finalBlock = 1e9, archiveDir }: Limits = {}): Promise<number> => {
    const config = archiveDir === undefined ? core.config : { ...core.config, archiveDir };
    return deleteOldEvents(eventRetention({ ...core, config }), { beforeSec, finalBlock });
  };
  const rows = () => core.store.db.selectFrom("events").selectAll().orderBy("seq").execute();
  const seqs = async () => (await rows()).map(({ seq }) => seq);
  const list = (after: number, provider: Hex = world.payee, more: { type?: string } = {}) =>
    listEvents(core.store.db, {
      owner: { provider, chainIds: [core.config.chainId] },
      after: String(after),
      limit: 50,
      ...more,
    });

  async function finalise(): Promise<void> {
    const { chainId } = core.config;
    await core.store.transaction(async (tx) =>
      transactionCosts.finalised(tx, chainId, await finaliseTransactions(tx, chainId, core.indexer.applied())),
    );
  }

  /** Deletes the transactions, as retention does once they are final and old. */
  async function deleteTransactions(): Promise<void> {
    const { store, config } = core;
    const { chainId } = config;
    await finalise();
    const retention = { store, chainId, awaited: transactionsAwaited };
    await deleteOldTransactions(
      { ...retention, onDelete: (tx, ids) => keepCosts(tx, chainId, ids) },
      Date.now() + DAY_SEC * 1_000_000,
    );
  }

  async function differences(): Promise<string[]> {
    const found: string[] = [];
    const { chain } = core.relayer;
    const job = { config: core.config, store: core.store, chain, log, progress: noProgress };
    for await (const wrong of reconcile(job)) found.push(wrong);
    const options = { since: "2020-01-01" };
    await reconcileSince({ ...job, options, say: (line) => found.push(line) });
    return found;
  }

  const refusalOf = (act: Promise<unknown>): Promise<string> =>
    act.then(
      () => "accepted",
      (error: unknown) => (isTurnpikeError(error) ? `${error.code}: ${error.message}` : String(error)),
    );

  const endpoints = () =>
    createWebhookEndpoints({
      store: core.store,
      network: core.config.network,
      allowPrivate: true,
      nowMs: core.wallClock.nowMs,
    });
  const actor = () => ({
    provider: world.payee,
    chainIds: [core.config.chainId],
    isEveryChain: true,
    keyId: "key",
    address: "127.0.0.1",
    requestId: "r",
  });

  it("HD16 are kept, like their transactions, while the database's clock is years ahead of the chain's", async () => {
    await finalise();
    const transactions = () => core.store.db.selectFrom("transactions").select("id").orderBy("seq").execute();
    const before = { events: await seqs(), transactions: await transactions() };
    expect(before.transactions).to.have.length(5);
    const config = { ...core.config, retainEventsDays: 2, retainTransactionsDays: 2, webhookLogDays: 2 };
    const wallClock = { nowMs: () => core.wallClock.nowMs() + 3_650 * DAY_SEC * 1_000 };
    for (const task of upkeepTasks({ config, store: core.store, wallClock }))
      expect(await task.run(), task.name).to.equal(0);
    expect({ events: await seqs(), transactions: await transactions() }).to.deep.equal(before);
  });

  it("S1 wait for their age, their block, their transaction and their deliveries, in order", async () => {
    const all = await rows();
    expect(all.map(({ type }) => type)).to.deep.equal(Array(5).fill("payment.settled"));
    const [first, second] = all;
    if (!first || !second) return expect.fail("there are five");
    expect(await run(), "their transactions are kept").to.equal(0);
    await deleteTransactions();
    expect(await core.store.db.selectFrom("transaction_hashes").selectAll().execute()).to.deep.equal([]);
    expect(await run({ beforeSec: first.block_time }), "young").to.equal(0);
    expect(await run({ finalBlock: (first.block_number ?? 0) - 1 }), "not final").to.equal(0);
    const { id } = await endpoints().create(actor(), { url: "http://127.0.0.1:9/", description: "" });
    await endpoints().resend(actor(), id, second.id);
    expect(await run(), "up to the one that is to be delivered").to.equal(1);
    expect(await run()).to.equal(0);
    expect(await seqs()).to.deep.equal(all.slice(1).map(({ seq }) => seq));
    expect(await refusalOf(endpoints().resend(actor(), id, first.id))).to.match(
      /^UnknownObject: no event 0x\w+: the provider has none of this id, or it is too old and was deleted$/,
    );
    await core.store.db.deleteFrom("webhook_deliveries").execute();
    await endpoints().remove(actor(), id);
  });

  it("S6 refuse a cursor before them, and name the one to continue with; another provider or type misses nothing", async () => {
    const [first] = await seqs();
    const through = (first ?? 0) - 1;
    for (const cursor of [0, through - 1])
      expect(await refusalOf(list(cursor))).to.equal(
        `EventsDeleted: events after cursor ${cursor} were deleted because of their age; the first event that is kept has a number above ${through}: continue with cursor=${through}`,
      );
    expect((await list(through)).events).to.have.length(4);
    expect((await list(0, ZERO_ADDRESS)).events).to.deep.equal([]);
    expect((await list(0, world.payee, { type: "plan.created" })).events).to.deep.equal([]);
    expect(await refusalOf(list(0, world.payee, { type: "payment.settled" }))).to.match(/^EventsDeleted/);
  });

  it("S1 are in a file with a checksum before they are deleted; while it cannot be written, none is", async () => {
    const before = await rows();
    const beforeSec = (before[0]?.block_time ?? 0) + DAY_SEC;
    const archiveDir = path.join(folder, "archive");
    writeFileSync(path.join(folder, "file"), "");
    await run({ archiveDir: path.join(folder, "file") }).then(
      () => expect.fail("a file is no folder"),
      (error: NodeJS.ErrnoException) => expect(error.code).to.match(/EEXIST|ENOTDIR/),
    );
    expect(await seqs()).to.deep.equal(before.map(({ seq }) => seq));
    expect(await run({ archiveDir, beforeSec }), "few wait for a day").to.equal(0);
    expect(await run({ archiveDir, beforeSec: beforeSec + 1 }), "all but the newest").to.equal(3);
    const [name = "", checksum] = readdirSync(archiveDir).sort();
    expect(name).to.match(
      new RegExp(`^events-${core.config.chainId}-${before[0]?.seq}-\\d+-[0-9a-f]{8}\\.ndjson\\.gz$`),
    );
    expect(checksum).to.equal(`${name}.sha256`);
    const packed = readFileSync(path.join(archiveDir, name));
    const sha256 = createHash("sha256").update(packed).digest("hex");
    expect(readFileSync(path.join(archiveDir, checksum ?? ""), "utf8"), "as sha256sum reads it").to.equal(
      `${sha256}  ${name}\n`,
    );
    const lines = gunzipSync(packed).toString().trimEnd().split("\n");
    const archived = lines.map((line) => JSON.parse(line));
    expect(archived.map(({ seq, id }) => [seq, id])).to.deep.equal(before.slice(0, 3).map(({ seq, id }) => [seq, id]));
    expect(archived[0].payload).to.deep.include({ paymentId: before[0]?.object_id, amount: "1000", status: "settled" });
    expect(await core.store.db.selectFrom("archive_files").select(["name", "rows"]).execute()).to.deep.equal([
      { name, rows: 3 },
    ]);
    expect(await seqs(), "the newest stays").to.deep.equal([before.at(-1)?.seq]);
  });

  it("S3 S5 stay in the sums; their payments keep their proofs, and reconcile finds no difference", async () => {
    for (const signed of paid) expect((await core.payments.authorize(signed)).kind).to.equal("settled");
    expect(await differences()).to.deep.equal([]);
    const count = (table: "pruned_payers" | "pruned_totals", value: number) =>
      core.store.db
        .updateTable(table)
        .set({ count: value })
        .where("token", table === "pruned_totals" ? "=" : "<>", "");
    await count("pruned_payers", 77).execute();
    await count("pruned_totals", 9).execute();
    const found = (await differences()).join("\n");
    expect(found).to.match(/rollup_payers .*: 5 5000 0 0 here, 78 5000 0 0 by the events/);
    expect(found).to.match(/4 payments up to block \d+ are settled without an event, and 9 events were deleted/);
    await count("pruned_payers", 4).execute();
    await count("pruned_totals", 4).execute();
    expect(await findWrongSums(core.store.db, core.config.chainId, 0)).to.deep.equal([]);
  });

  it("S6 S8 are not published again when the chain is read again", async () => {
    const kept = await rows();
    const payments = () => core.store.db.selectFrom("payments").selectAll().orderBy("payment_id").execute();
    const before = await payments();
    await core.indexer.stop();
    const job = { config: core.config, store: core.store, chain: core.relayer.chain, log, progress: noProgress };
    await reindex({ ...job, isWiped: true });
    expect(await rows()).to.deep.equal(kept);
    expect(await payments()).to.deep.equal(before);
    expect(await differences()).to.deep.equal([]);
  });
});
