import { expect } from "chai";
import { Client } from "pg";
import {
  type Address,
  addressOfKey,
  type Hex,
  type PaymentProof,
  proofToWire,
  type SignedPayment,
} from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, type Payer, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";

/** More in the deep run. */
const KILLS = Number(process.env.ROLES_KILLS ?? 2);
const PAYMENTS_PER_LIFE = 20;
/** Whichever of them dies, every role is left. */
const ROLES = ["api,relayer,indexer", "api,renewals,webhooks,indexer", "api,relayer,renewals,indexer,webhooks"];

describe("Facilitator: several processes on one PostgreSQL", function () {
  this.timeout(120_000 + KILLS * 30_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let settings: Record<string, string>;
  const running = new Set<ServiceProcess>();

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres, blockMs: BLOCK_MS });
    program = buildProgram();
    const keys = ["role lane 1", "role lane 2"].map((name) => testKey(name) as Hex);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    settings = world.env({ RELAYER_KEYS: keys.join(","), MAX_LOSSES_PER_PAYEE: "100000" });
  });
  after(async () => {
    for (const each of running) await each.kill();
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  async function start(roles: string, more: Record<string, string> = {}): Promise<ServiceProcess> {
    const started = await program.start({ ...settings, ...more }, roles);
    running.add(started);
    return started;
  }
  async function end(one: ServiceProcess, how: "kill" | "stop"): Promise<void> {
    running.delete(one);
    await one[how]();
  }
  async function rows<T extends object>(statement: string): Promise<T[]> {
    const client = new Client({ connectionString: settings.DATABASE_URL });
    await client.connect();
    const found = await client.query<T>(statement);
    await client.end();
    return found.rows;
  }
  /** A client as it should be: asks the next process when one does not answer, until it knows. */
  async function settled(signed: SignedPayment): Promise<PaymentProof> {
    const wire = paymentToWire(signed);
    let turn = Math.floor(Math.random() * 3);
    return until(
      async (saw) => {
        const all = [...running];
        const outcome = await all[turn++ % all.length]?.client.authorize(wire).catch(saw);
        return outcome?.kind === "settled" ? outcome.proof : saw(outcome);
      },
      "the payment is settled",
      60_000,
    );
  }

  it("one of two that start at once migrates, and both run; each serves what its roles are", async () => {
    const [front, back] = await Promise.all([start("api"), start("relayer,indexer")]);
    const applied = await rows<{ id: string }>("select id from migrations");
    expect(new Set(applied.map(({ id }) => id)).size).to.equal(applied.length);
    const signed = await world.signPayment();
    const outcome = await front.client.authorize(paymentToWire(signed));
    expect(outcome.kind, "the one composes, sends and reads, the other answers").to.equal("settled");
    const supported = await front.client.supported();
    expect(supported.relayers).to.have.length(2);
    expect((await fetch(`${back.url}/readyz`)).status).to.equal(200);
    expect((await fetch(`${back.url}/supported`)).status, "no API without the role").to.equal(404);
    expect(await (await fetch(`${back.url}/metrics`)).text()).to.contain("turnpike_relayer_balance_eth");
    expect(back.output(), "no keys beyond the process that needs them").not.to.contain(settings.PROOF_KEY?.slice(2));
    for (const one of [front, back]) {
      running.delete(one);
      expect(await one.stop(), "stops gracefully").to.equal(0);
    }
  });

  it("S1 S5 S7 three of them under load, one killed at random again and again: nothing is lost or doubled", async () => {
    const lives = await Promise.all(ROLES.map((roles) => start(roles)));
    const proofs = new Map<Address, { signed: SignedPayment; proof: PaymentProof }>();
    const before = (await world.transfers()).length;
    const [standing] = await rows<{ settled: string }>("select count(*) as settled from payments");
    const pay = async (payer: Payer): Promise<void> => {
      const signed = await world.signPayment({ payer, validForSec: 3_600 });
      proofs.set(payer.address, { signed, proof: await settled(signed) });
    };
    for (let kill = 0; kill <= KILLS; kill++) {
      const payers = await Promise.all(Array.from({ length: PAYMENTS_PER_LIFE }, () => world.payer()));
      const load = Promise.all(payers.map(pay));
      if (kill < KILLS) {
        const place = Math.floor(Math.random() * lives.length);
        await until(
          async () => (await world.transfers()).length > before + kill * PAYMENTS_PER_LIFE,
          "some have moved",
        );
        await end(lives[place] as ServiceProcess, "kill");
        lives[place] = await start(ROLES[place] as string);
      }
      await load;
    }
    const transfers = (await world.transfers()).slice(before);
    expect(transfers.length).to.equal(proofs.size);
    expect(new Set(transfers.map(({ from }) => from)).size, "one for each payer").to.equal(proofs.size);
    const [counted] = await rows<{ settled: string; open: string }>(
      `select count(*) filter (where state = 'settled') as settled, count(*) filter (where state <> 'settled') as open from payments`,
    );
    expect(counted).to.deep.equal({ settled: String(proofs.size + Number(standing?.settled)), open: "0" });
    const [nonces] = await rows<{ gaps: string; queued: string }>(
      `select (select count(*) from lanes l where l.next_nonce <> (select count(*) from transactions t
         where t.key = l.key and t.nonce is not null)) as gaps,
       (select count(*) from transactions where status in ('queued', 'stored')) as queued`,
    );
    expect(nonces, "no nonce is skipped, nothing waits").to.deep.equal({ gaps: "0", queued: "0" });
    // Asked again, whichever process answers gives the same proof.
    for (const { signed, proof } of [...proofs.values()].slice(0, 5)) {
      expect(proofToWire(await settled(signed))).to.deep.equal(proofToWire(proof));
    }
    for (const one of lives) await end(one, "stop");
  });
});
