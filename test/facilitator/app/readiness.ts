import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "chai";
import { Client } from "pg";
import pino from "pino";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { startFacilitator } from "../../../facilitator/src/app/start";
import { createLag } from "../../../facilitator/src/indexer/lag";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, until } from "../../support/facilitator";
import { startBreakablePostgres, startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire } from "../support/payments";
import { startSilentNode } from "../support/silent-node";

interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

describe("Facilitator: what readiness judges", function () {
  this.timeout(180_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  const running = new Set<{ stop(): Promise<void> }>();

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres, blockMs: 500 });
  });
  afterEach(async () => {
    for (const one of running) await one.stop();
    running.clear();
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });

  async function start(more: Readonly<Record<string, string>>): Promise<{ url: string; lines: string[] }> {
    const lines: string[] = [];
    const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
    const config = world.config({ PORT: "0", ...more });
    const service = await startFacilitator(config, { logger });
    running.add(service);
    return { url: service.url, lines };
  }
  async function readiness(url: string): Promise<{ status: number; checks: Check[] }> {
    const answer = await fetch(`${url}/readyz`);
    return { status: answer.status, checks: ((await answer.json()) as { checks: Check[] }).checks };
  }
  const checkOf = async (url: string, name: string) =>
    (await readiness(url)).checks.find((check) => check.name.startsWith(name));
  async function authorize(url: string): Promise<{ status: number; retryAfter: number; text: string }> {
    const body = JSON.stringify({ signedPayment: paymentToWire(await world.signPayment()) });
    const answer = await fetch(`${url}/authorize`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    return { status: answer.status, retryAfter: Number(answer.headers.get("retry-after")), text: await answer.text() };
  }
  async function execute(url: string, statement: string): Promise<void> {
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(statement);
    await client.end();
  }

  /** As PostgreSQL answers where the disk has no space for another page. */
  const fill = (table: string): string => `
    create or replace function no_room() returns trigger language plpgsql as $$
      begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
    create trigger no_room before insert or update on ${table} for each row execute function no_room()`;

  it("HD4 a full disk is 503 with Retry-After on payments and in /readyz, and ends when there is space", async () => {
    const DATABASE_URL = await postgres.database();
    const { url, lines } = await start({ DATABASE_URL });
    expect((await readiness(url)).status).to.equal(200);
    expect(await checkOf(url, "database")).to.include({ ok: true });
    await execute(DATABASE_URL, fill("payments"));
    for (let ask = 0; ask < 20; ask += 1) {
      const refused = await authorize(url);
      expect(refused.status, refused.text).to.equal(503);
      expect(refused.retryAfter, refused.text).to.be.greaterThan(0);
      expect(refused.text).to.contain('"code":"Unavailable"');
    }
    const { status, checks } = await readiness(url);
    expect(status).to.equal(503);
    expect(checks.find(({ name }) => name === "database")).to.include({ ok: false });
    expect(JSON.stringify(checks)).to.contain("disk is full");
    // HD6: a refusal for now is no fault of the program: no stack, and not one line for each.
    expect(lines.filter((line) => line.includes('"level":50') || line.includes('"level":"error"'))).to.deep.equal([]);
    const refusals = lines.filter((line) => line.includes("requests are refused for now"));
    // One at once, then one in ten seconds: a busy machine takes longer than that for twenty requests.
    expect(refusals.length).to.be.within(1, 5);
    expect(lines.join("")).not.to.contain('"stack"');
    await execute(DATABASE_URL, "drop trigger no_room on payments");
    const settled = await authorize(url);
    expect(settled.status, settled.text).to.equal(200);
  });

  it("HD4 a database that takes no writes is seen without any request", async () => {
    const DATABASE_URL = await postgres.database();
    const { url } = await start({ DATABASE_URL });
    await execute(DATABASE_URL, fill("database_probes"));
    await until(async () => (await checkOf(url, "database"))?.ok === false, "the probe meets it");
    expect((await readiness(url)).status).to.equal(503);
  });

  it("HD4 a process with the role api alone reports what the relayers report: low gas money, no lane alive", async () => {
    const DATABASE_URL = await postgres.database();
    const key = testKey("readiness relayer") as Hex;
    await fund(world.chain, addressOfKey(key));
    const shared = { DATABASE_URL, RELAYER_KEYS: key };
    const relayer = await start({ ...shared, ROLES: "relayer,indexer" });
    const api = await start({ ...shared, ROLES: "api" });
    await until(async () => (await readiness(api.url)).status === 200, "the API is ready");
    const funded = await fetch(`${api.url}/metrics`).then((answer) => answer.text());
    expect(funded).to.match(/^turnpike_relayer_balance_eth\{key="0x[0-9a-fA-F]{40}"\} \d{3}/m);

    await world.chain.provider.send("hardhat_setBalance", [addressOfKey(key), "0x1"]);
    await until(async () => (await checkOf(api.url, "lane"))?.ok === false, "the API reports it", 60_000);
    expect((await checkOf(api.url, "lane"))?.detail).to.contain("low on gas money");
    expect((await readiness(api.url)).status).to.equal(503);
    expect((await authorize(api.url)).status).to.equal(503);

    await fund(world.chain, addressOfKey(key));
    await until(async () => (await readiness(api.url)).status === 200, "and of its end");
    const [first] = running;
    running.delete(first as { stop(): Promise<void> });
    await first?.stop();
    await until(async () => (await checkOf(api.url, "lane"))?.ok === false, "nobody holds the lane");
    expect((await checkOf(api.url, "lane"))?.detail).to.contain("no process holds this lane");
    expect(relayer.url).not.to.equal(api.url);
  });

  it("HD4 a reader that stops is late by the clock, however few blocks that is", async () => {
    const DATABASE_URL = await postgres.database();
    const reader = await start({ DATABASE_URL, ROLES: "relayer,indexer" });
    const api = await start({ DATABASE_URL, ROLES: "api", MAX_LAG_SEC: "2" });
    await until(async () => (await readiness(api.url)).status === 200, "the API is ready");
    const [first] = running;
    running.delete(first as { stop(): Promise<void> });
    await first?.stop();
    await until(async () => (await checkOf(api.url, "indexer"))?.ok === false, "the API sees that nobody reads");
    expect((await checkOf(api.url, "indexer"))?.detail).to.match(/blocks behind the head, \d+ s late/);
    expect(reader.url).not.to.equal(api.url);
  });

  it("HD5 while nodes are silent the API names them, for itself and for the relayer, and never says that nobody is there", async () => {
    const DATABASE_URL = await postgres.database();
    const key = testKey("silenced relayer") as Hex;
    await fund(world.chain, addressOfKey(key));
    const [ofRelayer, ofApi] = await Promise.all([
      startSilentNode(world.chain.rpcUrl),
      startSilentNode(world.chain.rpcUrl),
    ]);
    try {
      const shared = { DATABASE_URL, RELAYER_KEYS: key, RPC_TIMEOUT_MS: "4000", LANE_LEASE_MS: "9000" };
      await start({ ...shared, ROLES: "relayer,indexer", RPC_URLS: ofRelayer.url });
      const api = await start({ ...shared, ROLES: "api", RPC_URLS: ofApi.url, MAX_LAG_SEC: "10" });
      await until(async () => (await readiness(api.url)).status === 200, "the API is ready");

      // The relayer's node first: its lease lapses meanwhile, and the process lives.
      ofRelayer.silence();
      await until(async () => (await checkOf(api.url, "lane"))?.ok === false, "the API reports the lane");
      ofApi.silence();
      const details = new Set<string>();
      await until(async () => {
        const { checks } = await readiness(api.url);
        for (const { name, detail } of checks) if (name.startsWith("lane")) details.add(detail.replace(/;[^;]*$/, ""));
        return checks.find(({ name }) => name === "chain")?.ok === false;
      }, "the chain check fails");
      expect([...details].filter((detail) => !/no node of RPC_URLS answers: node 1/.test(detail))).to.deep.equal([]);
      expect([...details].join(""))
        .not.to.contain("has not reported")
        .and.not.to.contain("no process holds");
      const { status, checks } = await readiness(api.url);
      expect(status).to.equal(503);
      const chain = checks.find(({ name }) => name === "chain");
      expect(chain?.detail).to.match(/^head \d+, read \d+ s ago; no node of RPC_URLS answers: node 1/);
      expect(chain?.detail, "no address of a node").not.to.contain("127.0.0.1");
      const silentSec = Number(/read (\d+) s/.exec(chain?.detail ?? "")?.[1]);
      expect(silentSec, "after 15 s, not after 60").to.be.within(15, 45);
      const late = checks.find(({ name }) => name === "indexer");
      expect(late, JSON.stringify(late)).to.include({ ok: false });
      expect(late?.detail).to.match(/, [1-9]\d* s late$/);

      for (const node of [ofRelayer, ofApi]) node.speak();
      await until(async () => (await readiness(api.url)).status === 200, "all is well again");
    } finally {
      for (const node of [ofRelayer, ofApi]) await node.stop();
    }
  });

  it("HD4 a round that takes minutes is catching up: the node answers, and the lease stays", async () => {
    const DATABASE_URL = await postgres.database();
    const { url } = await start({ DATABASE_URL, ROLES: "relayer,indexer", MAX_LAG_SEC: "2" });
    const client = new Client({ connectionString: DATABASE_URL });
    await client.connect();
    const holder =
      "select owner from role_leases where role = 'indexer' and until_ms > extract(epoch from now()) * 1000";
    const { rows: before } = await client.query(holder);
    await client.query("begin");
    await client.query("lock table blocks in access exclusive mode");
    try {
      const late = await until(async () => {
        const check = await checkOf(url, "indexer");
        return Number(/(\d+) s late/.exec(check?.detail ?? "")?.[1]) > 20 && check;
      }, "the round has taken longer than a silence");
      expect(late.detail).to.match(/, (\d+) blocks behind the head, \d+ s late; catching up \1 blocks$/);
      const chain = await checkOf(url, "chain");
      expect(chain, chain?.detail).to.include({ ok: true });
      expect(chain?.detail).not.to.contain("no node");
    } finally {
      await client.query("rollback");
    }
    expect((await client.query(holder)).rows).to.deep.equal(before);
    await client.end();
    await until(async () => (await readiness(url)).status === 200, "it has caught up");
  });

  it("HD10 while it stops, /readyz is 503 and requests are answered", async () => {
    const config = world.config({ DATABASE_URL: await postgres.database(), PORT: "0" });
    const service = await startFacilitator(config, { logger: pino({ level: "silent" }), leaveMs: 60_000 });
    // As a balancer keeps one.
    const { port } = new URL(service.url);
    const kept = connect(Number(port), "127.0.0.1");
    await once(kept, "connect");
    const stopped = service.stop();
    const ready = await fetch(`${service.url}/readyz`);
    expect([ready.status, ready.headers.get("connection")]).to.deep.equal([503, "close"]);
    expect(await ready.text()).to.contain('"detail":"stopping"');
    expect((await fetch(`${service.url}/healthz`)).status).to.equal(200);
    kept.destroy();
    await stopped;
  });

  it("HD4 while the database is away, what is said of the chain stays true", async () => {
    const own = await startBreakablePostgres();
    try {
      const { url } = await start({ DATABASE_URL: await own.database(), ROLES: "relayer,indexer", MAX_LAG_SEC: "2" });
      await own.crash();
      const late = await until(async () => {
        const check = await checkOf(url, "indexer");
        return Number(/(\d+) s late/.exec(check?.detail ?? "")?.[1]) > 20 && check;
      }, "it has been away for longer than a silence");
      expect(late.detail).to.match(/ s late; the database is away$/);
      expect((await checkOf(url, "database"))?.ok).to.equal(false);
      expect((await checkOf(url, "chain"))?.detail).not.to.contain("no node");
      await own.resume();
      await until(async () => (await readiness(url)).status === 200, "it is back");
      for (const one of running) await one.stop();
      running.clear();
    } finally {
      await own.stop();
    }
  });

  it("HD4 lateness is that of the oldest block that could be applied, at every block time", () => {
    let nowMs = 0;
    const lag = createLag({ monotonicMs: () => nowMs, blockTimeMs: 2_000 });
    lag.see(100);
    expect(lag.sec(100, 1_000, 100, { timestamp: 1_000 }), "nothing is missing").to.equal(0);
    // 69 blocks of two seconds, as a process finds them at its start.
    expect(lag.sec(169, 1_138, 100, { timestamp: 1_000 })).to.equal(138);
    lag.see(101);
    nowMs = 31_000;
    lag.see(102);
    expect(lag.sec(102, 1_031, 100, { timestamp: 1_000 }), "one block, seen 31 s ago").to.equal(31);
    expect(lag.sec(102, 1_031, 101, { timestamp: 1_029 }), "the next one has just come").to.equal(2);
    // A test clock that moves by a month in one block is no lag of a month.
    expect(lag.sec(102, 2_600_000, 101, { timestamp: 1_029 })).to.equal(2);
    // The head moves back: what is gone is waited for no longer.
    lag.see(100);
    expect(lag.sec(100, 1_000, 100, { timestamp: 1_000 })).to.equal(0);
  });
});
