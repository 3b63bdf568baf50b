import { expect } from "chai";
import { Client } from "pg";
import { createFacilitatorClient } from "turnpike/facilitator";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { type Balancer, startBalancer } from "../support/balancer";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";

/** Two of each: while one is replaced, the other serves. */
const PROCESSES = ["api", "api", "relayer,indexer", "relayer,indexer", "renewals,webhooks", "renewals,webhooks"];
const PAYERS_AT_ONCE = 6;

describe("Facilitator: a rolling restart", function () {
  this.timeout(600_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let balancer: Balancer;
  let settings: Record<string, string>;
  const running: ServiceProcess[] = [];

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres, blockMs: BLOCK_MS });
    program = buildProgram();
    const keys = ["rolling lane 1", "rolling lane 2"].map((name) => testKey(name) as Hex);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    settings = world.env({ RELAYER_KEYS: keys.join(","), LANE_LEASE_MS: "7000", POLL_MS: "250" });
    for (const roles of PROCESSES) running.push(await program.start(settings, roles));
    balancer = await startBalancer(() => running.slice(0, 2).map(({ url }) => url));
  });
  after(async () => {
    await balancer?.stop();
    for (const one of running) await one.kill();
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  /** Payments one after the other, several at a time. A pending one is presented again, as every client does. */
  function load() {
    const client = createFacilitatorClient({ url: balancer.url, timeoutMs: 60_000 });
    const paid: string[] = [];
    const failures: string[] = [];
    let isOver = false;
    const pay = async (): Promise<void> => {
      const payer = await world.payer();
      const wire = paymentToWire(await world.signPayment({ payer, validForSec: 3_600 }));
      paid.push(payer.address);
      await until(async (saw) => {
        const outcome = await client.authorize(wire);
        if (outcome.kind === "settled") return true;
        if (outcome.kind !== "pending") throw new Error(`${outcome.kind}: ${outcome.error.message}`);
        return saw(outcome);
      }, "the payment is settled");
    };
    const payOnAndOn = async (): Promise<void> => {
      while (!isOver) await pay().catch((error: Error) => void failures.push(error.message));
    };
    const all = Promise.all(Array.from({ length: PAYERS_AT_ONCE }, payOnAndOn));
    return {
      paid,
      async end() {
        isOver = true;
        await all;
        return { paid, failures };
      },
    };
  }

  it("HD10 each process is replaced under load: no client sees an error, and each payment is paid once", async () => {
    const payments = load();
    for (const [place, roles] of PROCESSES.entries()) {
      const before = payments.paid.length;
      await until(async () => payments.paid.length > before + PAYERS_AT_ONCE, "payments go on");
      expect(await running[place]?.stop(), roles).to.equal(0);
      running[place] = await program.start(settings, roles);
    }
    const { paid, failures } = await payments.end();
    expect(failures).to.deep.equal([]);
    expect(paid.length).to.be.greaterThan(PROCESSES.length * PAYERS_AT_ONCE);
    const payers = new Set(paid);
    const transfers = (await world.transfers()).filter(({ from }) => payers.has(from));
    expect(transfers.length).to.equal(paid.length);
    expect(new Set(transfers.map(({ from }) => from)).size).to.equal(paid.length);
    const db = new Client({ connectionString: settings.DATABASE_URL });
    await db.connect();
    const { rows } = await db.query("select state, count(*)::int as count from payments group by state");
    await db.end();
    expect(rows).to.deep.equal([{ state: "settled", count: paid.length }]);
    if (process.env.FIGURES) process.stdout.write(`rolling restart: ${paid.length} payments, 0 errors\n`);
  });
});
