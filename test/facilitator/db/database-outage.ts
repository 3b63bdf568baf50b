import { expect } from "chai";
import { Client } from "pg";
import { type Address, addressOfKey, type Hex, type SignedPayment } from "turnpike/protocol";
import { startAnswerThief } from "../../support/answer-thief";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, until } from "../../support/facilitator";
import { type BreakablePostgres, startBreakablePostgres } from "../../support/postgres";
import { isEveryVariant } from "../../support/variants";
import { paymentToWire } from "../support/payments";
import { buildProgram, type LaunchedProcess, type Program } from "../support/processes";

/** Two processes for every role with a standby, and the split of compose.yaml. */
const PROCESSES = ["api", "api", "relayer,indexer", "relayer,indexer", "renewals,webhooks,indexer"];
const OUTAGE_MS = 10_000;
/** Of cuts in each state. */
const ROUNDS = isEveryVariant ? 3 : 1;

/** A connection in each state in which it can be lost, by what the server shows of it. */
const STATES = {
  "idle in the pool": "state = 'idle' and query not ilike 'listen%'",
  "inside a transaction": "xact_start is not null and state <> 'idle'",
  listening: "query ilike 'listen%'",
  "holding a lane's lease": "query ilike '%lanes%lease%'",
  "holding a role's lease": "query ilike '%role_leases%'",
} as const;

describe("Facilitator: outages of PostgreSQL", function () {
  this.timeout(600_000);
  let postgres: BreakablePostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let settings: Record<string, string>;
  const running = new Set<LaunchedProcess>();

  before(async () => {
    postgres = await startBreakablePostgres();
    world = await startWorld({ postgres, blockMs: 500 });
    program = buildProgram();
    const keys = ["outage lane 1", "outage lane 2"].map((name) => testKey(name) as Hex);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    settings = world.env({ RELAYER_KEYS: keys.join(","), MAX_LOSSES_PER_PAYEE: "100000", LOG_LEVEL: "info" });
  });
  afterEach(async () => {
    for (const one of running) await one.kill();
    running.clear();
  });
  after(async () => {
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  async function launch(roles: string, more: Record<string, string> = {}): Promise<LaunchedProcess> {
    const launched = await program.launch(["start", "--roles", roles], { ...settings, ...more });
    running.add(launched);
    return launched;
  }
  async function launchAll(): Promise<LaunchedProcess[]> {
    const all = await Promise.all(PROCESSES.map((roles) => launch(roles)));
    await Promise.all(all.map((one) => one.untilUp()));
    return all;
  }
  async function rows<T extends object>(statement: string, url = settings.DATABASE_URL): Promise<T[]> {
    const client = new Client({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    try {
      return (await client.query<T>(statement)).rows;
    } finally {
      await client.end();
    }
  }
  const terminate = (where: string) =>
    rows(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and ${where}`);

  /** A client as it should be: presents the same payment until its outcome is known. */
  async function settle(signed: SignedPayment, apis: readonly LaunchedProcess[]): Promise<void> {
    const wire = paymentToWire(signed);
    let turn = 0;
    await until(
      async (saw) => {
        const outcome = await apis[turn++ % apis.length]?.client.authorize(wire).catch(saw);
        if (outcome?.kind === "refused" && !outcome.error.retryable) throw outcome.error;
        return outcome?.kind === "settled" || saw(outcome);
      },
      "the payment is settled",
      120_000,
    );
  }
  /** Payments one after the other, several at a time, until stopped. */
  function load(apis: readonly LaunchedProcess[]) {
    let isOver = false;
    const paid: Address[] = [];
    const payOnAndOn = async (): Promise<void> => {
      while (!isOver) {
        const payer = await world.payer();
        paid.push(payer.address);
        await settle(await world.signPayment({ payer, validForSec: 3_600 }), apis);
      }
    };
    const all = Promise.all(Array.from({ length: isEveryVariant ? 6 : 2 }, payOnAndOn));
    return {
      async end(): Promise<readonly Address[]> {
        isOver = true;
        await all;
        return paid;
      },
    };
  }
  async function expectEachPaidOnce(paid: readonly Address[]): Promise<void> {
    const payers = new Set<string>(paid);
    const transfers = (await world.transfers()).filter(({ from }) => payers.has(from));
    expect(transfers.length, "no payment twice, none lost").to.equal(paid.length);
    expect(new Set(transfers.map(({ from }) => from)).size).to.equal(paid.length);
    const list = paid.map((payer) => `'${payer}'`).join(",");
    const [counted] = await rows<{ settled: string; open: string }>(
      `select count(*) filter (where state = 'settled') as settled, count(*) filter (where state <> 'settled') as open
       from payments where payer in (${list})`,
    );
    expect(counted).to.deep.equal({ settled: String(paid.length), open: "0" });
    const [nonces] = await rows<{ gaps: string }>(
      `select count(*) as gaps from lanes l where l.next_nonce <> (select count(*) from transactions t
         where t.key = l.key and t.nonce is not null)`,
    );
    expect(nonces?.gaps, "no nonce is skipped").to.equal("0");
  }
  async function expectAlive(all: readonly LaunchedProcess[]): Promise<void> {
    for (const one of all) {
      expect((await fetch(`${one.url}/healthz`)).status, one.output().slice(-2_000)).to.equal(200);
      await until(async () => (await fetch(`${one.url}/readyz`)).status === 200, "it is ready again");
      expect(one.output()).not.to.match(/uncaught|unhandled|driver has already been destroyed/i);
    }
  }
  async function stopAll(all: readonly LaunchedProcess[]): Promise<void> {
    for (const one of all) {
      running.delete(one);
      expect(await one.stop(), one.output().slice(-2_000)).to.equal(0);
    }
  }

  it("HD2 connections cut under load in every state: each process goes on, each payment is settled once", async () => {
    const all = await launchAll();
    const apis = all.slice(0, 2);
    const payments = load(apis);
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [state, where] of Object.entries(STATES)) {
        await until(async () => (await terminate(where)).length > 0, `a connection is ${state}`);
      }
    }
    await expectEachPaidOnce(await payments.end());
    await expectAlive(all);
    await stopAll(all);
  });

  it("HD2 HD4 a crash and ten seconds without PostgreSQL under load: 503 with Retry-After meanwhile, nothing lost", async () => {
    const all = await launchAll();
    const apis = all.slice(0, 2);
    const payments = load(apis);
    const first = await world.signPayment();
    await settle(first, apis);
    const stranger = paymentToWire(await world.signPayment());

    await postgres.crash();
    const endMs = performance.now() + OUTAGE_MS;
    while (performance.now() < endMs) {
      const answer = await fetch(`${apis[0]?.url}/authorize`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ signedPayment: stranger }),
      });
      const text = await answer.text();
      expect(answer.status, text).to.equal(503);
      expect(Number(answer.headers.get("retry-after")), text).to.be.greaterThan(0);
      for (const one of all) {
        const readiness = await fetch(`${one.url}/readyz`);
        const { checks } = (await readiness.json()) as { checks: { name: string; ok: boolean }[] };
        if (performance.now() < endMs - OUTAGE_MS / 2) continue;
        expect(readiness.status).to.equal(503);
        expect(checks.find(({ name }) => name === "database")?.ok).to.equal(false);
        expect((await fetch(`${one.url}/metrics`)).status, "metrics are exported all the same").to.equal(200);
      }
    }
    await postgres.resume();
    await expectAlive(all);
    await expectEachPaidOnce(await payments.end());
    for (const one of all) {
      const lines = one.output().split("\n");
      expect(
        lines.flatMap((line) => (/"level":"error"/.test(line) ? [line.slice(0, 300)] : [])),
        "an outage is no fault",
      ).to.deep.equal([]);
      expect(lines.filter((line) => /"level":"warn"/.test(line)).length, "and logged in a few lines").to.be.lessThan(
        60,
      );
    }
    await stopAll(all);
  });

  it("HD2 every role waits at its start for a PostgreSQL that is away, says so, and needs no restart", async () => {
    await postgres.crash();
    const all = await Promise.all(PROCESSES.map((roles) => launch(roles)));
    for (const one of all) {
      await until(async () => /"msg":"the database is unavailable/.test(one.output()), "it says what it waits for");
      expect((await fetch(`${one.url}/healthz`)).status, "alive").to.equal(200);
      const readiness = await fetch(`${one.url}/readyz`);
      expect(readiness.status).to.equal(503);
      expect(await readiness.text()).to.contain("the database is unavailable");
    }
    const [leaving] = all.splice(-1);
    running.delete(leaving as LaunchedProcess);
    expect(await leaving?.stop(), "and a signal ends the wait").to.equal(0);
    await postgres.resume();
    await Promise.all(all.map((one) => one.untilUp()));
    await settle(await world.signPayment(), all.slice(0, 2));
    await stopAll(all);
  });

  it("HD2 a database that does not exist is named as such, by every command", async () => {
    const url = new URL(await postgres.database());
    url.pathname = "/no_such_database";
    const env = { ...settings, DATABASE_URL: url.href, PORT: "0" };
    for (const command of ["start", "migrate", "reindex", "reconcile", "doctor"]) {
      const { status, stdout, stderr } = await program.run([command], env);
      expect(status, command).not.to.equal(0);
      expect(stdout + stderr, command).to.contain("the database does not exist (3D000)");
      if (command === "start") expect(stderr).to.contain("Create the database, or correct the URL.");
      expect(stdout + stderr, command).not.to.contain("does not answer (");
    }
  });

  it("HD2 a signal during an outage stops every role", async () => {
    const all = await launchAll();
    await postgres.crash();
    try {
      await stopAll(all);
    } finally {
      await postgres.resume();
    }
  });

  it("HD2 a connection cut inside a migration: migrate and start migrate again and succeed", async () => {
    for (const command of ["migrate", "start"]) {
      const url = await postgres.database();
      const blocker = new Client({ connectionString: url });
      await blocker.connect();
      // What migrations queue up on: the command waits inside its transaction.
      await blocker.query("select pg_advisory_lock(7402001)");
      const launched = await launch("relayer,indexer", { DATABASE_URL: url });
      if (command === "migrate") {
        running.delete(launched);
        await launched.kill();
      }
      const subject =
        command === "start" ? launched : await program.launch(["migrate"], { ...settings, DATABASE_URL: url });
      running.add(subject);
      const waiting = "wait_event_type = 'Lock' and query ilike '%pg_advisory_xact_lock%'";
      const cut = () =>
        rows(
          `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and ${waiting}`,
          url,
        );
      await until(async () => (await cut()).length > 0, "it waits inside its migration");
      await until(async () => (await cut()).length > 0, "it has begun again");
      await blocker.end();
      if (command === "migrate") expect(await subject.ended, subject.output()).to.equal(0);
      else await subject.untilUp();
      const applied = await rows<{ id: string }>("select id from migrations", url);
      expect(applied.length).to.be.greaterThan(10);
    }
  });

  it("HD2 S1 the answer to any one commit is lost: the row is read again, each payment is settled once", async () => {
    const thief = await startAnswerThief(await postgres.database());
    const core = await world.core({ DATABASE_URL: thief.url, AUTHORIZE_WAIT_MS: "25000" });
    try {
      for (let skip = 0; skip < 8; skip += 1) {
        const payer = await world.payer();
        const signed = await world.signPayment({ payer });
        const hasLost = thief.loseCommit(skip);
        // The answer is a 503 where the lost commit was a lane's, before the payment was bound: then it is posted again.
        const outcome = await until(async () => {
          const answer = await core.payments.authorize(signed);
          const isLater = answer.kind === "refused" && answer.error.code === "Unavailable";
          return !isLater && answer;
        }, `an answer, commit ${skip}`);
        expect(outcome.kind, `commit ${skip}: ${"error" in outcome ? outcome.error : ""}`).to.equal("settled");
        await until(async () => hasLost(), "the answer was lost");
        const transfers = (await world.transfers()).filter(({ from }) => from === payer.address);
        expect(transfers.length, `commit ${skip}`).to.equal(1);
      }
    } finally {
      await core.stop();
      await thief.stop();
    }
  });
});
