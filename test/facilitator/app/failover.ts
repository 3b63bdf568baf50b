import path from "node:path";
import { expect } from "chai";
import { Client } from "pg";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { LEASE_MS } from "../../../facilitator/src/db/leases";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";

/** For a look of the waiting process, on a machine with much else to do: less than a lease has left when it is lost. */
const LOOK_MS = 3_000;
const PATIENCE_MS = 120_000;
const LANES = 2;
/** The role indexer, and each lane. */
const LEASES = 1 + LANES;

/** Writes down each change of a lease by the database's clock. `until_ms` is 0 when it is released. */
const RECORD_LEASES = `
  create table lease_log (at_ms bigint, lease text, owner text, until_ms bigint);
  create function record_role() returns trigger language plpgsql as $$
    begin
      if tg_op = 'DELETE' then
        insert into lease_log values (extract(epoch from clock_timestamp()) * 1000, old.role, old.owner, 0);
      else
        insert into lease_log values (extract(epoch from clock_timestamp()) * 1000, new.role, new.owner, new.until_ms);
      end if;
      return null;
    end $$;
  create trigger record_role after insert or update or delete on role_leases for each row execute function record_role();
  create function record_lane() returns trigger language plpgsql as $$
    begin
      insert into lease_log values
        (extract(epoch from clock_timestamp()) * 1000, new.key, new.lease_owner, new.lease_until_ms);
      return null;
    end $$;
  create trigger record_lane after insert or update of lease_until_ms on lanes
    for each row execute function record_lane();`;

interface LeaseChange {
  readonly at_ms: number;
  readonly lease: string;
  readonly owner: string;
  readonly until_ms: number;
}

describe("Facilitator: failover of roles", function () {
  this.timeout(400_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let settings: Record<string, string>;
  let db: Client;
  let holder: ServiceProcess;
  let standby: ServiceProcess;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres, blockMs: BLOCK_MS });
    program = buildProgram();
  });
  beforeEach(async () => {
    const keys = Array.from({ length: LANES }, () => testKey(`failover ${Math.random()}`) as Hex);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    settings = world.env({
      DATABASE_URL: await postgres.database(),
      RELAYER_KEYS: keys.join(","),
      LANE_LEASE_MS: String(LEASE_MS),
      POLL_MS: "250",
      NODE_OPTIONS: `-r ${path.join(__dirname, "../support/hogged.cjs")}`,
    });
    db = new Client({ connectionString: settings.DATABASE_URL });
    await db.connect();
    holder = await program.start(settings, "api,relayer,indexer");
    await db.query(RECORD_LEASES);
    // On a fast machine the other one is up before the first one has renewed them.
    const recorded = async (): Promise<number> => new Set((await changes()).map(({ lease }) => lease)).size;
    await until(async () => (await recorded()) === LEASES, "the first one has renewed all leases", PATIENCE_MS);
    standby = await program.start(settings, "api,relayer,indexer");
  });
  afterEach(async () => {
    await Promise.all([holder, standby].map((one) => one?.kill()));
    await db?.end();
  });
  after(async () => {
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  const now = async (): Promise<number> =>
    Number((await db.query("select extract(epoch from clock_timestamp()) * 1000 as now")).rows[0].now);
  const isOf = ({ pid }: ServiceProcess, owner: string): boolean => owner.split(":").includes(String(pid));

  /** Returns how many leases a process has. */
  async function held(one: ServiceProcess): Promise<number> {
    const { rows } = await db.query<{ owner: string }>(
      `select owner from role_leases where role = 'indexer' union all select lease_owner from lanes where lease_until_ms > 0`,
    );
    return rows.filter(({ owner }) => isOf(one, owner)).length;
  }
  /** Upkeep is left out: it begins once a minute, and nothing waits for it. */
  async function changes(): Promise<LeaseChange[]> {
    const { rows } = await db.query<Record<keyof LeaseChange, string>>(
      "select * from lease_log where lease <> 'upkeep' order by at_ms",
    );
    return rows.map(({ at_ms, lease, owner, until_ms }) => ({
      lease,
      owner,
      at_ms: Number(at_ms),
      until_ms: Number(until_ms),
    }));
  }
  /** Waits until the other process has every lease. @returns for each the last change by the first, and the takeover */
  async function takeovers(): Promise<{ last: LeaseChange; taken: LeaseChange }[]> {
    await until(async () => (await held(standby)) === LEASES, "the other one has all leases", PATIENCE_MS);
    const all = await changes();
    return [...new Set(all.map(({ lease }) => lease))].map((lease) => {
      const taken = all.find((change) => change.lease === lease && isOf(standby, change.owner));
      const last = all.findLast((change) => change.lease === lease && isOf(holder, change.owner));
      if (!taken || !last) throw new Error(`${lease} was not taken over`);
      return { last, taken };
    });
  }
  /** Prints what the page docs/operators/failover.md reports. */
  function report(what: string, gapsMs: readonly number[]): void {
    if (process.env.FIGURES) process.stdout.write(`${what}: ${gapsMs.map(Math.round).join(", ")} ms\n`);
  }
  async function expectOnePaymentBy(api: ServiceProcess): Promise<void> {
    const before = (await world.transfers()).length;
    const wire = paymentToWire(await world.signPayment());
    await until(
      async (saw) => {
        const outcome = await api.client.authorize(wire).catch(saw);
        return outcome?.kind === "settled" || saw(outcome);
      },
      "a payment is settled",
      PATIENCE_MS,
    );
    expect((await world.transfers()).length).to.equal(before + 1);
  }

  it("HD9 a process that gets SIGTERM releases its leases, and the other one has them at its next look", async () => {
    const askedMs = await now();
    await holder.stop();
    const all = await takeovers();
    for (const { last, taken } of all) {
      expect(last.until_ms, `${last.lease} is released, not lapsed`).to.equal(0);
      expect(taken.at_ms - last.at_ms, `${last.lease} is taken over`).to.be.within(0, LOOK_MS);
    }
    const gaps = all.map(({ last, taken }) => taken.at_ms - last.at_ms);
    report("SIGTERM, from the release", gaps);
    report(
      "SIGTERM, from the signal",
      all.map(({ taken }) => taken.at_ms - askedMs),
    );
    await expectOnePaymentBy(standby);
  });

  it("HD9 S7 a process that is killed loses its leases in half of 15 seconds", async () => {
    const killedMs = await now();
    await holder.kill();
    const all = await takeovers();
    for (const { last, taken } of all) {
      expect(last.until_ms - last.at_ms, `${last.lease} ends by itself`).to.be.at.most(LEASE_MS);
      expect(taken.at_ms - last.until_ms, `${last.lease} is not taken before, and soon after`).to.be.within(0, LOOK_MS);
    }
    const gaps = all.map(({ taken }) => taken.at_ms - killedMs);
    expect(Math.max(...gaps)).to.be.lessThan(LEASE_MS + LOOK_MS);
    report("SIGKILL", gaps);
    await expectOnePaymentBy(standby);
  });

  it("HD9 S7 a process that freezes loses its leases, and does nothing with them when it wakes up", async () => {
    const frozenMs = await now();
    process.kill(holder.pid, "SIGSTOP");
    const all = await takeovers();
    for (const { last, taken } of all) {
      expect(taken.at_ms - last.until_ms, `${last.lease} is not taken before, and soon after`).to.be.within(0, LOOK_MS);
    }
    report(
      "SIGSTOP",
      all.map(({ taken }) => taken.at_ms - frozenMs),
    );
    const wokenMs = await now();
    process.kill(holder.pid, "SIGCONT");
    // Both serve the API, and each asks for the work of lanes and indexer.
    await expectOnePaymentBy(holder);
    await expectOnePaymentBy(standby);
    const since = (await changes()).filter(({ at_ms, owner }) => at_ms > wokenMs && isOf(holder, owner));
    expect(since, "it renews nothing and takes nothing back").to.deep.equal([]);
    const { rows } = await db.query(`select count(*)::int as gaps from lanes l where l.next_nonce <>
      (select count(*) from transactions t where t.key = l.key and t.nonce is not null)`);
    expect(rows[0].gaps).to.equal(0);
  });

  it("HD9 a live process that hardly gets to run keeps its leases", async () => {
    process.kill(holder.pid, "SIGUSR2");
    const fromMs = await now();
    await until(async () => (await now()) > fromMs + 3 * LEASE_MS, "three lives have passed", PATIENCE_MS);
    const all = await changes();
    const ofOther = all.filter(({ owner }) => isOf(standby, owner));
    expect(ofOther, "nothing is taken from it").to.deep.equal([]);
    for (const lease of new Set(all.map((change) => change.lease))) {
      const renewed = all.filter((change) => change.lease === lease && change.at_ms > fromMs);
      expect(renewed.length, `${lease} is renewed meanwhile`).to.be.greaterThan(1);
    }
  });
});
