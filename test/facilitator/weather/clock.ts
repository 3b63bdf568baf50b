/** A host whose clock is a day off, and is set back: the chain's time decides, and no lease outlasts the mistake. */
import path from "node:path";
import { expect } from "chai";
import { Contract } from "ethers";
import { lensInterface } from "turnpike/chain";
import { type Hex, lensAddressOf } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { DAY_SEC, INTERVAL_SEC, type ServiceWorld, startServiceWorld } from "../support/service";

const DAY_MS = DAY_SEC * 1_000;
const FUNDS = 1_000_000_000n;
const PATIENCE_MS = 90_000;

describe("chain weather: the host's clock", function () {
  this.timeout(300_000);
  let world: ServiceWorld;
  let program: Program;
  let running: ServiceProcess | undefined;

  before(async () => {
    world = await startServiceWorld();
    program = buildProgram();
  });
  after(async () => {
    await running?.kill();
    program?.remove();
    await world?.stop();
  });

  /** One process with the embedded database, whose clock is the host's. */
  async function start(shiftMs: number): Promise<ServiceProcess> {
    running = await program.start({
      ...world.env({ PGLITE_LOCK_MS: "5000" }),
      CLOCK_SHIFT_MS: String(shiftMs),
      NODE_OPTIONS: `-r ${path.join(__dirname, "../support/shifted-clock.cjs")}`,
    });
    return running;
  }

  async function pays({ client }: ServiceProcess): Promise<void> {
    const signed = await world.signPayment();
    const wire = paymentToWire(signed);
    const isSettled = async () => (await client.authorize(wire).catch(() => undefined))?.kind === "settled";
    await until(isSettled, "it is settled", PATIENCE_MS);
    expect((await world.transfers()).filter(({ from }) => from === signed.authorization.from)).to.have.length(1);
  }

  async function renewed(idHash: Hex, paidThrough: number): Promise<void> {
    const lens = new Contract(lensAddressOf(world.contracts.turnpike), lensInterface, world.chain.provider);
    await until(
      async () => Number((await lens.getFunction("getSubscription")(idHash)).paidThrough) === paidThrough,
      "it is renewed once",
      PATIENCE_MS,
    );
  }

  it("HG10 a day ahead, killed, and set back by two days: pays, renews once a period, and waits for no lease of tomorrow", async () => {
    const ahead = await start(DAY_MS);
    const payer = await world.payer(FUNDS);
    const { idHash, request } = await world.signup(payer, { permit: FUNDS });
    const outcome = await ahead.client.subscribe(request);
    if (outcome.kind !== "done") throw new Error(JSON.stringify(outcome));
    await pays(ahead);
    await world.chain.advance(INTERVAL_SEC);
    await renewed(idHash, outcome.change.paidThrough + INTERVAL_SEC);
    await ahead.kill();

    const behind = await start(-DAY_MS);
    await pays(behind);
    await world.chain.advance(INTERVAL_SEC);
    await renewed(idHash, outcome.change.paidThrough + 2 * INTERVAL_SEC);
  });
});
