import path from "node:path";
import { expect } from "chai";
import { Contract } from "ethers";
import { Client } from "pg";
import { turnpikeInterface } from "turnpike/chain";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { fund, type Payer, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { DAY_SEC, INTERVAL_SEC, PRICE, type ServiceWorld, startServiceWorld } from "../support/service";
import { type Receiver, startReceiver } from "../webhooks/support/receiver";

const FUNDS = 1_000_000_000n;
const DAY_MS = DAY_SEC * 1_000;
/** Far less than the clocks are apart, and far more than a busy machine takes. */
const HOUR_MS = 3_600_000;
const PATIENCE_MS = 120_000;
const SECRET = `whsec_${Buffer.alloc(24, 5).toString("base64")}`;

describe("Facilitator: processes whose clocks are days apart", function () {
  this.timeout(180_000);
  let postgres: TestPostgres;
  let world: ServiceWorld;
  let program: Program;
  let receiver: Receiver;
  let turnpike: Contract;
  let db: Client;
  const running: Partial<Record<"fast" | "slow", ServiceProcess>> = {};

  before(async () => {
    postgres = await startPostgres();
    world = await startServiceWorld({ postgres });
    program = buildProgram();
    receiver = await startReceiver();
    turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.chain.provider);
    const keys = ["clock lane 1", "clock lane 2"].map((name) => testKey(name) as Hex);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    const env = world.env({ RELAYER_KEYS: keys.join(","), ALLOW_PRIVATE_WEBHOOKS: "true" });
    const shifted = (shiftMs: number): Record<string, string> => ({
      ...env,
      CLOCK_SHIFT_MS: String(shiftMs),
      NODE_OPTIONS: `-r ${path.join(__dirname, "../support/shifted-clock.cjs")}`,
    });
    running.fast = await program.start(shifted(DAY_MS));
    running.slow = await program.start(shifted(-DAY_MS));
    db = new Client({ connectionString: env.DATABASE_URL });
    await db.connect();
    await db.query(
      `insert into webhook_endpoints (id, chain_id, provider, url, types, description, status, created_at_ms)
       values ('clocks', $1, $2, $3, null, '', 'enabled', 0)`,
      [world.chain.chainId, world.provider.address, receiver.url],
    );
    await db.query("insert into webhook_secrets (endpoint_id, secret, created_at_ms) values ('clocks', $1, 0)", [
      SECRET,
    ]);
  });
  after(async () => {
    for (const one of Object.values(running)) await one.kill();
    await db?.end();
    await receiver?.stop();
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  const both = (): ServiceProcess[] => Object.values(running);
  async function subscribe(place: number): Promise<Payer> {
    const payer = await world.payer(FUNDS);
    const { request } = await world.signup(payer, { permit: FUNDS });
    const outcome = await both()[place % 2]?.client.subscribe(request);
    expect(outcome?.kind).to.equal("done");
    return payer;
  }
  const delivered = (type: string) => receiver.received.filter(({ body }) => JSON.parse(body).type === type);

  it("B1 B17 pay once what both are asked for, renew each period once, and sign webhooks with the true time", async () => {
    const signed = await world.signPayment();
    const wire = paymentToWire(signed);
    const outcomes = await Promise.all([...both(), ...both()].map((one) => one.client.authorize(wire)));
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(["settled", "settled", "settled", "settled"]);
    expect(await world.transfers()).to.have.length(1);

    const payers: Payer[] = [];
    for (let place = 0; place < 4; place++) payers.push(await subscribe(place));
    await world.chain.advance(INTERVAL_SEC);
    const renewals = async (): Promise<number> => (await turnpike.queryFilter("Renewed", 0)).length;
    await until(async () => (await renewals()) === payers.length, "all are renewed", PATIENCE_MS);
    await until(
      async () => delivered("subscription.renewed").length === payers.length,
      "and it is delivered",
      PATIENCE_MS,
    );
    for (const { address } of payers) expect(await world.balanceOf(address)).to.equal(FUNDS - 2n * PRICE);

    const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids).size, "each event once: a lease of one is a lease to the other").to.equal(ids.length);
    for (const { headers } of receiver.received) {
      expect(Number(headers["webhook-timestamp"]) * 1_000).to.be.closeTo(Date.now(), HOUR_MS);
    }
  });

  it("S6 a failed delivery is due again in seconds for both, whichever failed", async () => {
    receiver.answer(500);
    await subscribe(0);
    const { rows } = await until(
      async () => {
        const found = await db.query<{ due_at_ms: string }>(
          "select due_at_ms from webhook_deliveries where attempts = 1 and state = 'pending'",
        );
        return found.rows.length > 0 && found;
      },
      "the attempt is recorded",
      PATIENCE_MS,
    );
    expect(Number(rows[0]?.due_at_ms)).to.be.closeTo(Date.now(), HOUR_MS);
    receiver.answer(204);
    const open = async (): Promise<boolean> =>
      (await db.query("select 1 from webhook_deliveries where state = 'pending'")).rows.length === 0;
    await until(open, "it is delivered", PATIENCE_MS);
  });

  it("B17 S7 what dies with a clock a day ahead holds nothing for a day: the other takes over", async () => {
    await running.fast?.kill();
    delete running.fast;
    const paid = await until(
      async (saw) => {
        const signed = await world.signPayment();
        const outcome = await running.slow?.client.authorize(paymentToWire(signed)).catch(saw);
        return outcome?.kind === "settled" ? signed : saw(outcome);
      },
      "the other settles",
      PATIENCE_MS,
    );
    expect((await world.transfers()).filter(({ from }) => from === paid.authorization.from)).to.have.length(1);
    const { rows } = await db.query<{ until: string }>(
      `select max(until) as until from (select lease_until_ms as until from lanes union all select until_ms from role_leases
       union all select lease_until_ms from webhook_deliveries) as leases`,
    );
    expect(Number(rows[0]?.until)).to.be.lessThan(Date.now() + HOUR_MS);
  });
});
