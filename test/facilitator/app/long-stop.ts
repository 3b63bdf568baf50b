/** Every process stands still for 90 s under load, as when a host is paused or moved. */
import { expect } from "chai";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { record } from "../support/figures";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { SteadyPayments } from "../support/steady-payments";

const STOP_MS = 90_000;
const ROLES = ["api", "relayer,indexer", "relayer,indexer"];

describe("Facilitator: a stop of 90 s", function () {
  this.timeout(600_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  const running: ServiceProcess[] = [];

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres });
    program = buildProgram();
  });
  after(async () => {
    for (const one of running) await one.kill();
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  it("HD10 of every process delays payments, and sends none twice", async () => {
    const key = testKey("stopped lane") as Hex;
    await fund(world.chain, addressOfKey(key));
    const env = world.env({ RELAYER_KEYS: key, DATABASE_URL: await postgres.migrated() });
    for (const roles of ROLES) running.push(await program.start(env, roles));
    const payTo = addressOfKey(testKey("payee of the stop") as Hex);
    const payments = new SteadyPayments({
      world,
      payTo,
      payers: 4,
      clients: () => running.slice(0, 1).map((one) => one.client),
    });
    await payments.begin();
    await payments.more();
    for (const { pid } of running) process.kill(pid, "SIGSTOP");
    // The stop itself is what is tested.
    await new Promise((resolve) => setTimeout(resolve, STOP_MS));
    for (const { pid } of running) process.kill(pid, "SIGCONT");
    const resumedMs = performance.now();
    await payments.more();
    const backSec = Math.round((performance.now() - resumedMs) / 1_000);
    await payments.end();
    await payments.requireOnce();
    const reconciled = await program.run(["reconcile"], env);
    expect(reconciled.status, reconciled.stdout).to.equal(0);
    record("stop", { payments: payments.settled.length, stoppedSec: STOP_MS / 1_000, backSec });
  });
});
