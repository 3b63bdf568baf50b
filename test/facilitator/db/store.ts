import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { inspect } from "node:util";
import { expect } from "chai";
import { sql } from "kysely";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import { loadConfig, SETTINGS } from "../../../facilitator/src/config";
import { Secret } from "../../../facilitator/src/config/setting";
import { openStore, type Store } from "../../../facilitator/src/db/open";
import type { EventDraft } from "../../../facilitator/src/events/event";
import { createNotifier } from "../../../facilitator/src/lib/notifier";
import { emptyDatabase } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const KEY = `0x${"ab".repeat(32)}`;
const ADDRESS = `0x${"cd".repeat(20)}`;
const COMPLETE = {
  CHAIN_ID: "31337",
  RPC_URLS: "http://127.0.0.1:8545",
  TURNPIKE: ADDRESS,
  BATCH_SETTLER: ADDRESS,
  TOKENS: JSON.stringify([{ address: ADDRESS, name: "Test USD", version: "1" }]),
  RELAYER_KEYS: KEY,
  PROOF_KEY: KEY,
};

describe("configuration", () => {
  it("takes every default, and finds the network by the chain's id", () => {
    const config = loadConfig(COMPLETE);
    expect(config.network.name).to.equal("local-31337");
    expect(config.database).to.include({ kind: "pglite" });
    expect(config).to.include({ confirmations: 1, finalityDepth: 1, startBlock: 0 });
    expect(config.tokens[0]).to.include({ decimals: 6, minAmount: 100n });
  });

  it("names each variable that is missing, in one sentence", () => {
    for (const name of Object.keys(COMPLETE)) {
      const env: Record<string, string | undefined> = { ...COMPLETE, [name]: undefined };
      expect(() => loadConfig(env)).to.throw(new RegExp(`^${name} is missing: `));
    }
    expect(() => loadConfig({ ...COMPLETE, CHAIN_ID: "8453" })).to.throw(
      /^START_BLOCK is missing.* CHAIN_ID 8453 is base-mainnet; a local chain needs no START_BLOCK\.$/,
    );
  });

  it("B23 names a malformed variable and never prints its value", () => {
    const cases = {
      RELAYER_KEYS: "0x1234secret",
      PROOF_KEY: "hunter2secret",
      PORT: "-1secret",
      TOKENS: "{secret",
      PAY_TO: "0xsecret",
      DATABASE_URL: "mysql://secret",
    };
    for (const [name, value] of Object.entries(cases)) {
      const failure = (): unknown => loadConfig({ ...COMPLETE, [name]: value });
      expect(failure).to.throw(new RegExp(`^${name} `));
      expect(failure).not.to.throw(/secret/);
    }
  });

  it("B23 prints no secret, however the configuration is printed", () => {
    const config = loadConfig({ ...COMPLETE, DATABASE_URL: "postgres://user:hunter2@db/turnpike" });
    for (const printed of [
      inspect(config, { depth: 9 }),
      JSON.stringify(config, (_, v) => (typeof v === "bigint" ? String(v) : v)),
      `${config.proofKey?.kind === "local" ? config.proofKey.key : ""}`,
    ]) {
      expect(printed).not.to.match(/hunter2|abababab/);
      expect(printed).to.contain("[redacted]");
    }
  });

  it("describes every setting, with a default or as required", () => {
    const names = Object.values(SETTINGS).map((setting) => setting.env);
    expect(new Set(names).size).to.equal(names.length);
    for (const setting of Object.values(SETTINGS)) expect(setting.about).to.match(/\.$/);
  });
});

describe("store", function () {
  this.timeout(120_000);
  let home: string;
  let store: Store;
  const open = (dir: string) => openStore({ kind: "pglite", dir, lockMs: 2_000 });

  before(async () => {
    home = mkdtempSync(path.join(tmpdir(), "turnpike-store-"));
    cpSync(await emptyDatabase(), path.join(home, "db"), { recursive: true });
    store = await open(path.join(home, "db"));
  });
  after(async () => {
    await store.close();
    rmSync(home, { recursive: true, force: true });
  });

  it("lets no second opener into the folder, and says what to do", async () => {
    const second = await open(path.join(home, "db")).then(
      () => "opened",
      (error: Error) => error.message,
    );
    expect(second).to.match(/^PGLITE_DIR .* is in use by another process: stop it/);
  });

  it("runs migrations once, and refuses a database of a newer version", async () => {
    const applied = () => sql<{ id: string }>`select id from migrations order by id`.execute(store.db);
    const before = (await applied()).rows;
    await store.close();
    store = await open(path.join(home, "db"));
    expect((await applied()).rows).to.deep.equal(before);
    await sql`insert into migrations (id, breaking) values ('999-from-the-future', true)`.execute(store.db);
    await store.close();
    const reopened = await open(path.join(home, "db")).then(
      (opened) => opened.close().then(() => "opened"),
      (error: Error) => error.message,
    );
    expect(reopened).to.match(/newer version \(it has 999-from-the-future\)/);
    cpSync(await emptyDatabase(), path.join(home, "other"), { recursive: true });
    store = await open(path.join(home, "other"));
  });

  it("keeps amounts of 78 digits as text, times as numbers and hashes as they were", async () => {
    const most = (2n ** 256n - 1n).toString();
    const row = {
      chain_id: 1,
      plan_id: KEY,
      plan_index: 1,
      months: 0,
      first_provider: null,
      first_pay_to: null,
      proposed_pay_to: null,
      pay_to_effective_at: null,
      provider: ADDRESS,
      token: ADDRESS,
      amount: most,
      interval_sec: 4_294_967_295,
      grace_sec: 0,
      pay_to: ADDRESS,
      salt: KEY,
      metadata: "{}",
      deprecated: false,
      stopped_at: null,
      successor: null,
      block_number: 5,
      created_at: 1_800_000_000,
    };
    await store.db.insertInto("plans").values(row).execute();
    expect(await store.db.selectFrom("plans").selectAll().executeTakeFirst()).to.deep.equal(row);
  });

  it("leaves nothing of a transaction that fails", async () => {
    const failed = await store
      .transaction(async (tx) => {
        await tx.insertInto("cursors").values({ chain_id: 1, name: "x", position: 1 }).execute();
        throw new RangeError("on purpose");
      })
      .catch((error: Error) => error.name);
    expect(failed).to.equal("RangeError");
    expect(await store.db.selectFrom("cursors").selectAll().execute()).to.deep.equal([]);
  });

  it("S6 numbers the events of an object, and takes the same event once", async () => {
    const draft = (id: string): EventDraft => ({
      id,
      chainId: 1,
      type: "payment.settled",
      objectId: KEY,
      payload: { a: 1 },
      blockTime: 1,
    });
    const feed = createEventFeed(1);
    const append = (...drafts: EventDraft[]) => store.transaction((tx) => feed.append(tx, drafts));
    expect(await append(draft("0x1"), draft("0x2"))).to.equal(2);
    expect(await append(draft("0x2"), draft("0x3"))).to.equal(1);
    const rows = await store.db
      .selectFrom("events")
      .select(["id", "sequence", "payload"])
      .orderBy("sequence")
      .execute();
    expect(rows).to.deep.equal(
      ["0x1", "0x2", "0x3"].map((id, index) => ({ id, sequence: index + 1, payload: { a: 1 } })),
    );
  });
});

describe("the notifier", () => {
  it("notifies those that wait for the topic, and everybody when it closes", async () => {
    const notifier = createNotifier();
    const waits = [notifier.wait("a", 5_000), notifier.wait("b", 10), notifier.wait("c", 5_000)];
    notifier.notify("a");
    setImmediate(() => notifier.close());
    expect(await Promise.all(waits)).to.deep.equal([true, false, false]);
    expect(await notifier.wait("d", 5_000)).to.equal(false);
  });
});

describe("store on PostgreSQL", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres.stop());

  it("S6 wakes what waits in another process", async () => {
    const database = { kind: "postgres", url: new Secret(await postgres.database()), poolSize: 2 } as const;
    const [one, other] = await Promise.all([openStore(database), openStore(database)]);
    try {
      const woken = async (): Promise<boolean> => {
        const waiting = one.notifier.wait("payment:0x1", 100);
        other.notifier.notify("payment:0x1");
        return waiting;
      };
      let answers = 0;
      for (let tries = 0; tries < 50 && answers === 0; tries++) answers += Number(await woken());
      expect(answers).to.equal(1);
    } finally {
      await one.close();
      await other.close();
    }
  });
});
