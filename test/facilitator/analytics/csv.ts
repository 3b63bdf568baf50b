import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { sql } from "kysely";
import type { Address } from "turnpike/protocol";
import { z } from "zod";
import { createAnalytics } from "../../../facilitator/src/analytics";
import { openStore, type Store } from "../../../facilitator/src/db/open";
import { createApp } from "../../../facilitator/src/http/app";
import { routes } from "../../../facilitator/src/http/endpoint";
import { csvHeader, csvRows, decimalOf, money, sheetOfPages } from "../../../facilitator/src/http/figures";
import { startServer } from "../../../facilitator/src/http/server";
import { emptyDatabase, until } from "../../support/facilitator";
import { unusedServices } from "../../support/unused-services";
import { paymentToWire } from "../support/payments";
import { PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const CHAIN_ID = 31_337;
const TOKEN = "0x00000000000000000000000000000000000000C0" as Address;
const PROVIDER = "0x0000000000000000000000000000000000000001" as Address;
const OTHER = "0x0000000000000000000000000000000000000002" as Address;
/** more than the pages of a list hold, and more than one export held before */
const MANY = 10_250;
const NOW_SEC = 1_800_000_000;

const csvAt = (path: string) =>
  ({
    id: "getSheet",
    tag: "analytics",
    method: "get",
    path,
    text: "Returns a sheet.",
    mediaType: "text/csv",
    answers: { 200: z.string() },
  }) as const;

function pause(): { readonly promise: Promise<void>; end(): void } {
  let end = (): void => undefined;
  const promise = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { promise, end: () => end() };
}

describe("CSV", () => {
  it("HC24 writes amounts in base units and as decimals, with the token and its decimals, and never through a float", () => {
    for (const [base, decimals, decimal] of [
      ["1500000", 6, "1.500000"],
      ["1", 6, "0.000001"],
      ["0", 6, "0.000000"],
      ["7", 0, "7"],
      ["-1500000", 6, "-1.500000"],
      [(2n ** 256n - 1n).toString(), 18, `${(2n ** 256n - 1n) / 10n ** 18n}.${(2n ** 256n - 1n) % 10n ** 18n}`],
    ] as const)
      expect(decimalOf(base, decimals)).to.equal(decimal);
    const columns = { name: ({ name }: { name: string }) => name, amount: money(() => "-5") };
    const sheet = { columns, unitOf: () => ({ token: TOKEN, decimals: 1 }) };
    expect(csvHeader(sheet)).to.equal("name,amount,amountDecimal,token,decimals\r\n");
    expect(csvRows(sheet, [{ name: "-x" }])).to.equal(`'-x,-5,-0.5,${TOKEN},1\r\n`);
    expect(() => csvRows({ columns }, [{ name: "x" }])).to.throw(TypeError);
  });

  it("HF6 keeps a formula text, after any blank character", () => {
    const columns = { name: ({ name }: { name: string }) => name };
    for (const blank of ["", " ", "\n", "\r\n", "\t", " \n\t", "\u00a0", "\ufeff"])
      for (const sign of ["=", "+", "-", "@"])
        expect(
          csvRows({ columns }, [{ name: `${blank}${sign}1` }]).replace(/^"/, ""),
          JSON.stringify(blank + sign),
        ).to.match(/^'/);
    expect(csvRows({ columns }, [{ name: " a=1" }])).to.equal(" a=1\r\n");
  });

  it("HF6 keeps a formula text in spreadsheets that split at semicolons or tabs, read full-width signs or skip what is unseen", () => {
    const columns = { name: ({ name }: { name: string }) => name, next: () => "x" };
    const rowOf = (name: string) => csvRows({ columns }, [{ name }]);
    // The path of a resource that a payer has signed: some spreadsheets split a line at the semicolon.
    expect(rowOf("https://a.example/;=cmd|'/C'!A0;@x")).to.equal(`"https://a.example/;'=cmd|'/C'!A0;'@x",x\r\n`);
    expect(rowOf("a;b")).to.equal('"a;b",x\r\n');
    expect(rowOf('a;"=1+1'), "quoted where the line is split").to.equal(`"a;'""=1+1",x\r\n`);
    expect(rowOf('a; " "=1')).to.equal(`"a;' "" ""=1",x\r\n`);
    expect(rowOf("a\t=1\n-2\r\n+3")).to.equal(`"a\t'=1\n'-2\r\n'+3",x\r\n`);
    for (const unseen of ["\0", "\u200b", "\u202e", "\u2066", "\u00ad", " \u200d "])
      expect(rowOf(`${unseen}=1`), JSON.stringify(unseen)).to.equal(`'${unseen}=1,x\r\n`);
    for (const sign of ["\uff1d", "\uff0b", "\uff0d", "\uff20"]) expect(rowOf(`${sign}1`)).to.equal(`'${sign}1,x\r\n`);
    expect(rowOf("\tx")).to.equal(`"'\tx",x\r\n`);
  });

  it("HC25 breaks where a later page cannot be read, and says nothing that looks whole", async () => {
    let pages = 0;
    const { body } = await sheetOfPages("x", { columns: { n: (n: number) => n } }, async () => {
      if (pages++ === 1) throw new Error("the database is away");
      return { rows: [1], next: "more" };
    });
    expect(await body.next()).to.deep.equal({ done: false, value: "n\r\n1\r\n" });
    expect(await body.next().catch((error: Error) => error.message)).to.equal("the database is away");
  });

  it("HC33 reaches a client that reads it whole, or as a broken connection: never as a shorter file", async () => {
    const pages = { broken: 0, whole: 0 };
    const wide = "x".repeat(100_000);
    const logged: string[] = [];
    const sheet = (name: "whole" | "broken") => () =>
      sheetOfPages(name, { columns: { n: (n: string) => n } }, async () => {
        const page = ++pages[name];
        if (name === "broken" && page === 3) throw new Error("the database is away");
        return { rows: [wide], next: page < 5 ? String(page) : undefined };
      });
    const endpoints = routes(
      unusedServices(),
      { whole: csvAt("/whole.csv"), broken: csvAt("/broken.csv") },
      { whole: sheet("whole"), broken: sheet("broken") },
    );
    const log = { info: () => undefined, error: (_: unknown, line: string) => logged.push(line) } as never;
    const app = createApp({ ...unusedServices(), log }, endpoints);
    const server = await startServer({ fetch: app.fetch, host: "127.0.0.1", port: 0 });
    try {
      const whole = await fetch(`${server.url}/whole.csv`);
      expect((await whole.text()).length).to.equal("n\r\n".length + 5 * (wide.length + 2));
      // Wherever it breaks: in the head or on the way.
      const broken = await fetch(`${server.url}/broken.csv`)
        .then((response) => response.text())
        .catch((error: Error) => error.name);
      expect(broken).to.equal("TypeError");
      expect(logged).to.deep.equal(["answer broke off"]);
    } finally {
      await server.stop(100);
    }
  });

  it("HC33 is read by one request of a key at a time; other keys do not wait", async () => {
    const { promise: paused, end } = pause();
    let isFirst = true;
    const log = { info: () => undefined } as never;
    const services = { ...unusedServices({ admit: async (key: string) => ({ keyId: key }) }), log };
    const sheets = routes(
      services,
      { slow: { ...csvAt("/slow.csv"), scope: "read" } },
      {
        async slow() {
          const slow = isFirst ? paused : Promise.resolve();
          isFirst = false;
          return sheetOfPages("slow", { columns: { n: (n: number) => n } }, async (at) => {
            if (at !== undefined) await slow;
            return { rows: [1], next: at === undefined ? "more" : undefined };
          });
        },
      },
    );
    const app = createApp(services, sheets);
    const server = await startServer({ fetch: app.fetch, host: "127.0.0.1", port: 0 });
    const read = (authorization: string) => fetch(`${server.url}/slow.csv`, { headers: { authorization } });
    try {
      const first = await read("a");
      const second = await read("a");
      expect([second.status, second.headers.get("retry-after")]).to.deep.equal([429, "2"]);
      expect(await second.text()).to.contain("another CSV");
      expect((await (await read("b")).text()).length).to.be.greaterThan(0);
      end();
      expect(await first.text()).to.equal("n\r\n1\r\n1\r\n");
      expect(await (await read("a")).text()).to.equal("n\r\n1\r\n1\r\n");
      const left = new AbortController();
      isFirst = true;
      await fetch(`${server.url}/slow.csv`, { headers: { authorization: "a" }, signal: left.signal });
      left.abort();
      await until(async () => (await read("a")).status === 200, "a client that left holds nobody up");
    } finally {
      await server.stop(100);
    }
  });

  describe("of many rows", function () {
    this.timeout(120_000);
    let store: Store;
    const config = {
      chainId: CHAIN_ID,
      tokens: [{ address: TOKEN, name: "Test", version: "1", decimals: 6 }],
    } as never;
    const analytics = () => createAnalytics({ db: store.db, config, clock: { nowSec: () => NOW_SEC } });

    before(async () => {
      store = await openStore({ kind: "pglite", dir: "memory://", lockMs: 1_000 });
      const address = sql.raw("'0x' || lpad(to_hex(n), 40, '0')");
      await sql`insert into rollup_payers (chain_id, provider, token, payer, count, amount)
        select ${CHAIN_ID}, ${PROVIDER}, ${TOKEN}, ${address}, 1, n from generate_series(1, ${sql.raw(String(MANY))}) n`.execute(
        store.db,
      );
      await sql`insert into plans (chain_id, plan_id, plan_index, provider, token, amount, interval_sec, grace_sec, pay_to, salt,
          metadata, deprecated, block_number, created_at)
        select ${CHAIN_ID}, '0x' || lpad(to_hex(n), 64, '0'), n, ${PROVIDER}, ${TOKEN}, 5, 86400, 60, ${PROVIDER}, '0x', '', false, 1, 1
        from generate_series(0, ${sql.raw(String(MANY - 1))}) n`.execute(store.db);
      await sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount,
          nonce, valid_after, valid_before, signature, has_code, state, is_reversed, attempts, accepted_at_ms, accepted_block,
          block_time)
        select ${CHAIN_ID}, '0x' || lpad(to_hex(n), 64, '0'), 'authorize', '', '/', ${TOKEN}, ${OTHER}, ${PROVIDER}, n, '', 0, 1,
          '', false, 'settled', false, 1, ${NOW_SEC * 1_000}::bigint + n / 3, 1, ${NOW_SEC}
        from generate_series(1, ${sql.raw(String(MANY))}) n`.execute(store.db);
    });
    after(() => store.close());

    async function everyRow<T>(
      read: (cursor: string | undefined) => Promise<{ rows: readonly T[]; next?: string | undefined }>,
    ) {
      const rows: T[] = [];
      const { body } = await sheetOfPages("all", { columns: { row: (row: T) => rows.push(row) } }, read);
      let lines = 0;
      for await (const part of body) lines += part.split("\r\n").length - 1;
      expect(lines).to.equal(rows.length + 1);
      return rows;
    }

    it("HC26 holds each payer, plan and payment once, however many there are", async () => {
      const payers = await everyRow((cursor) => analytics().allPayers(PROVIDER, TOKEN).pageAfter(cursor, 1_000));
      expect(new Set(payers.map(({ payer }) => payer)).size).to.equal(MANY);
      const query = { fromSec: undefined, toSec: undefined, days: 7 };
      const plans = await everyRow((cursor) => analytics().allPlans(PROVIDER, query).pageAfter(cursor, 1_000));
      expect(new Set(plans.map(({ planId }) => planId)).size).to.equal(MANY);
      const payments = await everyRow(async (cursor) => {
        const page = await analytics().payments(PROVIDER, { cursor, limit: 1_000 });
        return { rows: page.payments, next: page.next };
      });
      expect(new Set(payments.map(({ id }) => id)).size).to.equal(MANY);
      expect(payments.length).to.equal(MANY);
    });
  });

  describe("of a service with many rows", function () {
    this.timeout(120_000);
    let world: ServiceWorld;
    let folder: string;

    before(async () => {
      world = await startServiceWorld();
      folder = mkdtempSync(path.join(tmpdir(), "turnpike-csv-"));
      cpSync(await emptyDatabase(), path.join(folder, "db"), { recursive: true });
    });
    after(async () => {
      await world.stop();
      rmSync(folder, { recursive: true, force: true });
    });

    it("HC32 sends all of them over HTTP in one file, not the first 10,000", async () => {
      const { provider, contracts, chain } = world;
      const dir = path.join(folder, "db");
      const store = await openStore({ kind: "pglite", dir, lockMs: 10_000 });
      await sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount,
          nonce, valid_after, valid_before, signature, has_code, state, is_reversed, attempts, accepted_at_ms, accepted_block,
          block_time)
        select ${chain.chainId}, '0x' || lpad(to_hex(n), 64, '0'), 'authorize', '', '/', ${contracts.token}, ${OTHER},
          ${provider.address}, n, '', 0, 1, '', false, 'settled', false, 1, n, 1, 1
        from generate_series(1, ${sql.raw(String(MANY))}) n`.execute(store.db);
      await store.close();
      const service = await world.service({ RENEWALS: "false", PGLITE_DIR: dir, DATABASE_URL: "" });
      const key = await service.apiKey({ scopes: ["read"] });
      const response = await fetch(`${service.url}/analytics/payments.csv`, {
        headers: { authorization: `Bearer ${key}` },
      });
      const lines = (await response.text()).trim().split("\r\n").slice(1);
      expect(lines).to.have.length(MANY);
      const sum = lines.reduce((total, line) => total + BigInt(line.split(",")[4] ?? 0), 0n);
      expect(sum).to.equal((BigInt(MANY) * BigInt(MANY + 1)) / 2n);
      await service.stop();
    });
  });

  describe("over HTTP", function () {
    this.timeout(120_000);
    let world: ServiceWorld;
    let service: Service;
    let key: string;

    before(async () => {
      world = await startServiceWorld();
      service = await world.service({ RENEWALS: "false", OPERATORS: world.provider.address });
      key = await service.apiKey({ scopes: ["read"] });
      const subscriber = await world.payer(10n * PRICE);
      const signup = await world.signup(subscriber, { maxOverage: PRICE, permit: 5n * PRICE });
      expect((await service.client.subscribe(signup.request)).kind).to.equal("done");
      const payTo = world.provider.address as Address;
      for (const amount of [250_000n, 500_000n]) {
        const signed = paymentToWire(await world.signPayment({ payTo, amount }));
        expect((await service.client.authorize(signed)).kind).to.equal("settled");
      }
    });
    after(() => world.stop());

    const get = (path: string) => fetch(service.url + path, { headers: { authorization: `Bearer ${key}` } });
    const paths = async (): Promise<string[]> => {
      const { paths: all } = (await (await get("/openapi.json")).json()) as { paths: object };
      return Object.keys(all).filter((name) => name.endsWith(".csv"));
    };

    it("HC27 says of every amount in every CSV of which token it is, and writes it as a decimal too", async () => {
      const WITHOUT_MONEY = [
        "/analytics/renewals.csv",
        "/analytics/latency.csv",
        "/operator/renewals.csv",
        "/operator/costs.csv",
      ];
      const all = await paths();
      expect(all.length).to.be.greaterThan(15);
      for (const path of all) {
        const response = await get(path);
        expect(response.status, path).to.equal(200);
        expect(response.headers.has("x-next"), path).to.equal(false);
        expect(response.headers.get("content-type"), path).to.equal("text/csv; charset=utf-8");
        const [header = "", ...lines] = (await response.text()).trim().split("\r\n");
        const names = header.split(",");
        if (WITHOUT_MONEY.includes(path)) continue;
        if (path === "/analytics/ledger.csv") {
          // An accountant's columns: decimals alone, and the token in the middle.
          expect(lines.map((line) => line.split(",").slice(2, 8))).to.have.deep.members([
            ["signup", "10.000000", "0.000000", "10.000000", world.contracts.token, "6"],
            ["one-time", "0.250000", "0.000000", "0.250000", world.contracts.token, "6"],
            ["one-time", "0.500000", "0.000000", "0.500000", world.contracts.token, "6"],
          ]);
          continue;
        }
        expect(names.slice(-2), path).to.deep.equal(["token", "decimals"]);
        const decimal = names.flatMap((name, index) => (name.endsWith("Decimal") ? [index] : []));
        expect(decimal.length, path).to.be.greaterThan(0);
        for (const cells of lines.map((line) => line.split(","))) {
          // A plan's metadata may hold commas: the columns before it keep their places.
          if (cells.length !== names.length) continue;
          expect(cells.slice(-2), path).to.deep.equal([world.contracts.token, "6"]);
          for (const at of decimal) expect(cells[at], path).to.equal(decimalOf(cells[at - 1] ?? "", 6));
        }
      }
    });

    it("HC28 holds the same rows as the list", async () => {
      const csv = (await (await get("/analytics/payments.csv")).text()).trim().split("\r\n").slice(1);
      expect(csv.map((line) => line.split(",")[4])).to.deep.equal(["500000", "250000"]);
      expect((await get("/analytics/payments.csv?cursor=1")).status).to.equal(400);
    });
  });
});
