/** `reconcile --since`: what it compares, in which steps, and where it continues. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import pino from "pino";
import { RpcAnswerError } from "turnpike/chain";
import { type Hex, Unavailable } from "turnpike/protocol";
import { answer } from "../../../bench/reconcile/chain";
import { CHAIN_ID, PAYMENTS_IN_A_BLOCK, TOKEN, TURNPIKE } from "../../../bench/reconcile/payments";
import { fillDatabase } from "../../../bench/reconcile/rows";
import type { Core } from "../../../facilitator/src/app/core";
import { type ChainReader, createChainReader } from "../../../facilitator/src/chain/chain-reader";
import type { Rpc } from "../../../facilitator/src/chain/rpc";
import { reconcile } from "../../../facilitator/src/cli/maintenance/reconcile";
import { reconcileSince } from "../../../facilitator/src/cli/maintenance/since";
import type { SinceJob } from "../../../facilitator/src/cli/maintenance/since/job";
import { compareSettled } from "../../../facilitator/src/cli/maintenance/since/settled";
import { openStore } from "../../../facilitator/src/db/open";
import { bytes } from "../../../facilitator/src/db/sql";
import type { PaymentRow } from "../../../facilitator/src/db/tables/payments";
import { noProgress } from "../../../facilitator/src/lib/progress";
import { type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";

const log = pino({ level: "silent" });

const BENCH_CHAIN = { chainId: CHAIN_ID, turnpike: TURNPIKE, tokens: [{ address: TOKEN }] };

describe("Facilitator: reconcile --since", function () {
  this.timeout(300_000);
  let world: FacilitatorWorld;
  let core: Core;
  let folder: string;
  /** chain time between the first and the second payment */
  let between: number;
  let first: Hex;
  let second: Hex;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-since-"));
    // Few blocks: a busy machine reads them late.
    world = await startWorld({ blockMs: 1_000 });
    core = await world.core();
    first = await settle();
    await mine(10);
    // Blocks may share a second.
    await world.chain.provider.send("evm_increaseTime", [5]);
    await mine(1);
    between = (await world.chain.provider.getBlock("latest"))?.timestamp ?? Number.NaN;
    second = await settle();
    await mine(5);
    const head = await world.chain.provider.getBlockNumber();
    await until(async () => core.indexer.applied() >= head, "the chain is read");
  });
  after(async () => {
    await world?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** One by one: Hardhat does not link blocks that it mines at once. */
  async function mine(blocks: number): Promise<void> {
    for (let mined = 0; mined < blocks; mined++) await world.chain.provider.send("evm_mine", []);
  }

  async function settle(): Promise<Hex> {
    const signed = await world.signPayment({ validForSec: 3_600 });
    // Refused as long as the mined blocks are not read.
    await until(async () => (await core.payments.authorize(signed)).kind === "settled", "it is settled");
    return world.idOf(signed);
  }

  /** The columns that are bytes in the database and digits in a row. */
  const inBytes = (row: PaymentRow) => ({
    ...{ resource_hash: bytes(row.resource_hash), nonce: bytes(row.nonce), signature: bytes(row.signature) },
    ...{ tx_hash: bytes(row.tx_hash ?? "0x"), block_hash: bytes(row.block_hash ?? "0x") },
  });

  const timeOf = (sec: number): string => new Date(sec * 1_000).toISOString().replace(".000Z", "Z");

  interface Compared {
    readonly said: string[];
    readonly payments: number;
    readonly differences: number;
    /** blocks that queries for logs covered */
    readonly queries: readonly (readonly [number, number])[];
  }

  /** @param disturb called before each query for logs */
  async function compare(
    options: { readonly since?: string; readonly cursor?: string } = {},
    disturb: (fromBlock: number, toBlock: number) => void = () => undefined,
  ): Promise<Compared> {
    const said: string[] = [];
    const queries: [number, number][] = [];
    const chain: ChainReader = {
      ...core.relayer.chain,
      async logsBetween(fromBlock, toBlock, filter) {
        disturb(fromBlock, toBlock);
        queries.push([fromBlock, toBlock]);
        return core.relayer.chain.logsBetween(fromBlock, toBlock, filter);
      },
    };
    const outcome = await reconcileSince({
      config: world.config(),
      store: core.store,
      chain,
      log,
      progress: noProgress,
      options: { since: "2020-01-01", ...options },
      say: (line) => said.push(line),
    });
    if (!outcome) return expect.fail("nothing has been read");
    return { said, queries, payments: outcome.payments, differences: outcome.differences };
  }

  /** @returns what undoes it */
  async function breakPayment(id: Hex): Promise<() => Promise<void>> {
    const table = () => core.store.db.updateTable("payments").where("payment_id", "=", id);
    const { tx_hash: hash } = await core.store.db
      .selectFrom("payments")
      .select("tx_hash")
      .where("payment_id", "=", id)
      .executeTakeFirstOrThrow();
    await table()
      .set({ tx_hash: bytes(`0x${"00".repeat(32)}`) })
      .execute();
    return async () => {
      await table()
        .set({ tx_hash: bytes(hash ?? "0x") })
        .execute();
    };
  }

  it("S4 compares the payments of final blocks since a time, and says which no transfer proves", async () => {
    expect(await compare()).to.deep.include({ said: [], payments: 2, differences: 0 });
    const mend = await breakPayment(first);
    const all = await compare();
    expect(all.said).to.have.length(1);
    expect(all.said[0]).to.match(new RegExp(`^difference: payments ${first}: settled here by 0x0000.* no transfer`));
    expect(await compare({ since: timeOf(between) })).to.deep.include({ said: [], payments: 1, differences: 0 });
    await mend();
  });

  it("S1 names a payment that the chain moved and the database has not settled, events without a log, and missing ones", async () => {
    const { db } = core.store;
    const table = () => db.updateTable("payments").where("payment_id", "=", second);
    await table().set({ state: "parked" }).execute();
    expect((await compare()).said.join("\n")).to.contain(`payments ${second}: parked here, and its nonce is used`);
    await table().set({ state: "settled" }).execute();
    const event = db.updateTable("events").where("object_id", "=", second);
    await event.set({ log_index: 4_000 }).execute();
    expect((await compare()).said.join("\n")).to.match(
      /events: event 0x\w+ \(payment.settled\) is of log 4000 of block/,
    );
    const { log_index: place } = await db
      .selectFrom("payments")
      .select("log_index")
      .where("payment_id", "=", second)
      .executeTakeFirstOrThrow();
    await event.set({ log_index: place, reverted: true }).execute();
    expect((await compare()).said).to.deep.equal([`difference: events: payment ${second} is settled without an event`]);
    await event.set({ reverted: false }).execute();
    expect((await compare()).said).to.deep.equal([]);
  });

  it("HD15 names a settled payment whose row is lost, by its event", async () => {
    const { db } = core.store;
    const table = () => db.selectFrom("payments").where("payment_id", "=", second);
    const row = await table().selectAll().executeTakeFirstOrThrow();
    await db.deleteFrom("payments").where("payment_id", "=", second).execute();
    const lost = new RegExp(`payments ${second}: no row here is settled, and event 0x\\w+ says that it is$`);
    const { said } = await compare();
    const { chain } = core.relayer;
    const all: string[] = [];
    const job = { config: world.config(), store: core.store, chain, log, progress: noProgress };
    for await (const wrong of reconcile(job)) all.push(wrong);
    await db
      .insertInto("payments")
      .values({ ...row, ...inBytes(row) })
      .execute();
    expect(said).to.have.length(1);
    expect(said[0]).to.match(lost);
    expect(all.filter((wrong) => lost.test(wrong))).to.have.length(1);
    expect((await compare()).said).to.deep.equal([]);
  });

  it("HD15 names payments without a row and without an event, as a restored backup leaves them, and their sum", async () => {
    const { db } = core.store;
    const row = await db.selectFrom("payments").where("payment_id", "=", second).selectAll().executeTakeFirstOrThrow();
    const events = await db.selectFrom("events").where("object_id", "=", second).selectAll().execute();
    await db.deleteFrom("events").where("object_id", "=", second).execute();
    await db.deleteFrom("payments").where("payment_id", "=", second).execute();
    const { said, differences } = await compare();
    const all: string[] = [];
    const job = { config: world.config(), store: core.store, chain: core.relayer.chain, log, progress: noProgress };
    for await (const wrong of reconcile(job)) all.push(wrong);
    await db
      .insertInto("payments")
      .values({ ...row, ...inBytes(row) })
      .execute();
    for (const event of events)
      await db
        .insertInto("events")
        .values({ ...event, payload: JSON.stringify(event.payload) })
        .execute();
    const missing = `payments ${second}: 250000 base units of ${row.token} moved to ${row.pay_to} by ${row.tx_hash}, and no row is here`;
    const sum = `1 payments without a row moved 250000 base units of ${row.token}`;
    expect(said).to.deep.equal([`difference: ${missing}`, sum]);
    expect(differences).to.equal(1);
    expect(all).to.include.members([missing, sum]);
    // What strangers send to a payee is none of ours.
    const stranger = await world.payer();
    const wallet = walletOf(world.chain, stranger.key);
    await fund(world.chain, stranger.address);
    await (await (world.token.connect(wallet) as typeof world.token).getFunction("transfer")(world.payee, 5n)).wait();
    await mine(5);
    expect((await compare()).said).to.deep.equal([]);
  });

  it("reads each block once, also at a node that rejects all but short ranges", async () => {
    const { queries, payments } = await compare({}, (from, to) => {
      if (to - from > 2) throw new RpcAnswerError(-32_005, "the range is too wide", undefined);
    });
    expect(payments).to.equal(2);
    const covered = [...new Set(queries.map((range) => range.join()))].map((range) => range.split(",").map(Number));
    for (const [place, [from]] of covered.entries())
      if (place > 0) expect(from).to.equal((covered[place - 1]?.[1] ?? 0) + 1);
    await compare({}, () => {
      throw new RpcAnswerError(-32_005, "no logs here", undefined);
    }).then(
      () => expect.fail("a node without logs compares nothing"),
      (error: unknown) => expect(error).to.be.instanceOf(Unavailable),
    );
  });

  it("S1 continues a run that ended early where it ended, with the differences that it had found", async () => {
    const cursor = path.join(folder, "resumed");
    const mend = await breakPayment(first);
    const height = await blockOf(first);
    const broken = compare({ cursor }, (from, to) => {
      if (to - from > 2) throw new RpcAnswerError(-32_005, "the range is too wide", undefined);
      if (from > height) throw new Unavailable("the node is away");
    });
    await broken.then(
      () => expect.fail("it ends early"),
      (error: unknown) => expect(error).to.be.instanceOf(Unavailable),
    );
    const kept: { comparedBlock: number } = JSON.parse(readFileSync(cursor, "utf8"));
    expect(kept).to.deep.include({ chainId: world.chain.chainId, differences: 1 });
    expect(kept.comparedBlock).to.be.at.least(height);
    const rest = await compare({ cursor });
    expect(rest.queries.every(([from]) => from > kept.comparedBlock)).to.equal(true);
    expect(rest).to.deep.include({ said: [], payments: 1, differences: 1 });
    await mend();

    // The next run compares what has become final since.
    const compared = Math.max(...rest.queries.map(([, to]) => to));
    const next = await compare({ cursor });
    expect(next).to.deep.include({ said: [], payments: 0, differences: 0 });
    // A block may have become final meanwhile.
    expect(next.queries.every(([from]) => from > compared)).to.equal(true);
    await settle();
    await mine(5);
    const head = await world.chain.provider.getBlockNumber();
    await until(async () => core.indexer.applied() >= head, "the chain is read");
    expect(await compare({ cursor })).to.deep.include({ said: [], payments: 1, differences: 0 });
  });

  async function blockOf(id: Hex): Promise<number> {
    const row = await core.store.db
      .selectFrom("payments")
      .select("block_number")
      .where("payment_id", "=", id)
      .executeTakeFirstOrThrow();
    return row.block_number ?? 0;
  }

  it("keeps a short step of blocks in memory, also where many payments follow none", async () => {
    const [empty, full] = [3_000, 240];
    const store = await openStore({ kind: "pglite", dir: "memory://", lockMs: 10_000 });
    await fillDatabase(store, full, empty);
    const ask = async (method: string, params: readonly unknown[]) => answer(method, params, empty);
    const job = {
      store,
      log,
      config: { ...world.config(), ...BENCH_CHAIN } as SinceJob["config"],
      chain: createChainReader({ request: ask, requestEach: async () => [], broadcast: ask } as unknown as Rpc),
    };
    const steps: { readonly blocks: number; readonly payments: number }[] = [];
    for await (const step of compareSettled(job, { fromBlock: 0, toBlock: empty + full - 1 })) {
      expect(step.wrong).to.deep.equal([]);
      steps.push({ blocks: step.toBlock - step.fromBlock + 1, payments: step.payments });
    }
    await store.close();
    expect(steps.reduce((sum, { payments }) => sum + payments, 0)).to.equal(full * PAYMENTS_IN_A_BLOCK);
    expect(Math.max(...steps.map(({ payments }) => payments))).to.be.at.most(5_000);
    expect(Math.max(...steps.map(({ blocks }) => blocks))).to.be.greaterThan(500);
    expect(steps.at(-1)?.blocks).to.be.lessThan(150);
  });

  it("refuses a time, a duration or a cursor that it cannot read, and says what to write", async () => {
    const cursor = path.join(folder, "wrong");
    const messageOf = (options: Parameters<typeof compare>[0]): Promise<string> =>
      compare(options).then(
        () => "accepted",
        (error: Error) => error.message,
      );
    for (const since of ["yesterday", "24", "1y", "2026-13-01", "2026-01-01T00:00:00"])
      expect(await messageOf({ since })).to.match(
        /--since is ".*": use a UTC time such as .* or a duration such as 24h/,
      );
    for (const since of ["1s", "7d", "90m", "2026-01-31", "2026-01-31T10:00Z"])
      expect(await messageOf({ since })).to.equal("accepted");
    writeFileSync(cursor, "{");
    expect(await messageOf({ cursor })).to.match(/is no cursor of reconcile: delete it, or name another file$/);
    writeFileSync(cursor, JSON.stringify({ chainId: 1, comparedBlock: 5, differences: 0 }));
    expect(await messageOf({ cursor })).to.match(/is of local-1, and this is local-31337: name another file$/);
  });
});
