import { expect } from "chai";
import { Contract } from "ethers";
import { Client } from "pg";
import { turnpikeInterface } from "turnpike/chain";
import { type Hex, type PaymentProof, proofToWire, type SignedPayment } from "turnpike/protocol";
import { type Payer, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { copyDatabase } from "../support/backup";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { INTERVAL_SEC, PRICE, type ServiceWorld, startServiceWorld } from "../support/service";

const FUNDS = 1_000_000_000n;
const SUBSCRIBERS = 3;
const PATIENCE_MS = 120_000;

describe("Facilitator: an old backup", function () {
  this.timeout(400_000);
  let postgres: TestPostgres;
  let world: ServiceWorld;
  let program: Program;
  let turnpike: Contract;
  let running: ServiceProcess | undefined;
  let url: string;

  before(async () => {
    postgres = await startPostgres();
    world = await startServiceWorld({ postgres });
    program = buildProgram();
    turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.chain.provider);
    url = world.env().DATABASE_URL ?? "";
  });
  after(async () => {
    await running?.kill();
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  async function start(more: Record<string, string> = {}): Promise<ServiceProcess> {
    running = await program.start(world.env({ DATABASE_URL: url, ...more }));
    return running;
  }
  async function end(how: "kill" | "stop"): Promise<void> {
    await running?.[how]();
    running = undefined;
  }
  async function sql(database: string, ...statements: readonly string[]): Promise<void> {
    const client = new Client({ connectionString: database });
    await client.connect();
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  }
  async function settled(signed: SignedPayment): Promise<PaymentProof> {
    return until(
      async (saw) => {
        const outcome = await running?.client.authorize(paymentToWire(signed)).catch(saw);
        return outcome?.kind === "settled" ? outcome.proof : saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );
  }
  const renewals = async (): Promise<number> => (await turnpike.queryFilter("Renewed", 0)).length;
  const mining = (blockMs: number): Promise<unknown> =>
    world.chain.provider.send("evm_setIntervalMining", [blockMs]).then(() => undefined);

  it("B16 S5 restored: sends nothing twice, renews nothing twice, loses nothing, and goes on", async () => {
    // Before the backup: a payment that is proved, subscriptions, and one payment that is under way.
    await start();
    const subscribers: Payer[] = [];
    for (let i = 0; i < SUBSCRIBERS; i++) {
      const payer = await world.payer(FUNDS);
      const { request } = await world.signup(payer, { permit: FUNDS });
      expect((await running?.client.subscribe(request))?.kind).to.equal("done");
      subscribers.push(payer);
    }
    const first = await world.signPayment({ validForSec: 3_600 });
    const proofs = new Map<SignedPayment, PaymentProof>([[first, await settled(first)]]);
    const underWay = await world.signPayment({ validForSec: 3_600 });
    await mining(0);
    const asked = running?.client.authorize(paymentToWire(underWay)).catch(() => undefined);
    const pool = async (): Promise<number> =>
      (await world.chain.provider.send("eth_getBlockByNumber", ["pending", false])).transactions.length;
    await until(async () => (await pool()) > 0, "it is sent", PATIENCE_MS);
    await end("kill");
    await asked;
    const backup = await copyDatabase(postgres, url);

    // After it: the database that will be lost accepts more, and collects a period.
    await mining(100);
    await start();
    proofs.set(underWay, await settled(underWay));
    const second = await world.signPayment({ validForSec: 3_600 });
    proofs.set(second, await settled(second));
    await world.chain.advance(INTERVAL_SEC);
    await until(async () => (await renewals()) === SUBSCRIBERS, "the period is collected", PATIENCE_MS);
    await end("kill");

    // The backup alone: the key has sent what it knows nothing of, so it stops by itself and says so.
    url = backup;
    const moved = (await world.transfers()).length;
    await start();
    await until(async () => running?.output().includes("somebody else uses its key"), "the alarm", PATIENCE_MS);
    expect((await fetch(`${running?.url}/readyz`)).status).to.equal(503);
    const refused = await running?.client.authorize(paymentToWire(await world.signPayment())).catch(({ code }) => code);
    expect(refused, "nothing new is accepted").to.equal("Unavailable");
    const doctor = await program.run(["doctor"], world.env({ DATABASE_URL: url }));
    expect(doctor.stdout).to.match(/^fail RELAYER_KEYS 1: .*Remedy: .*ADOPT_NONCE=true/m);
    await end("stop");

    // As the page says.
    await start({ ADOPT_NONCE: "true" });
    for (const [signed, proof] of proofs) {
      expect(proofToWire(await settled(signed)), "the same proof").to.deep.equal(proofToWire(proof));
    }
    expect((await world.transfers()).length, "and no transfer more").to.equal(moved);
    await end("stop");
    await start();
    const fresh = await world.signPayment({ validForSec: 3_600 });
    await settled(fresh);
    expect((await world.transfers()).length).to.equal(moved + 1);
    expect(await renewals(), "the period that was collected before").to.equal(SUBSCRIBERS);
    await world.chain.advance(INTERVAL_SEC);
    await until(async () => (await renewals()) === 2 * SUBSCRIBERS, "the next period is collected", PATIENCE_MS);
    for (const { address } of subscribers) expect(await world.balanceOf(address)).to.equal(FUNDS - 3n * PRICE);
    const renewedLogs = (await turnpike.queryFilter("Renewed", 0)).map((log) => `${log.topics[1]}/${log.data}` as Hex);
    expect(new Set(renewedLogs).size, "each period once").to.equal(renewedLogs.length);

    // While it runs: blocks come in all the time.
    const reconciled = await program.run(["reconcile"], world.env({ DATABASE_URL: url }));
    expect(reconciled.stdout).to.equal("database and chain agree\n");
    expect(reconciled.status).to.equal(0);
    await end("stop");
    await sql(url, "update subscriptions set version = 7");
    const differing = await program.run(["reconcile"], world.env({ DATABASE_URL: url }));
    expect(differing.stdout).to.match(/^difference: subscriptions 0x.*Remedy: .*`reindex --wipe`/ms);
    expect(differing.status).to.equal(1);
    const alone = await program.run(["reconcile"], world.env({ DATABASE_URL: url, RPC_URLS: "http://127.0.0.1:1" }));
    expect(alone.stdout).to.match(/^could not be checked: /m);
    expect(alone.status).to.equal(2);
  });
});
