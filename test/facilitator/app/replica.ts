import { expect } from "chai";
import { Client } from "pg";
import { addressOfKey, type Hex, type PaymentProof, proofToWire, type SignedPayment } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld, until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { type ReplicatedDatabase, startReplicatedDatabase } from "../support/replicated";

const PROCESSES = ["api", "relayer,indexer", "renewals,webhooks,indexer"];
const PAYERS_AT_ONCE = 6;
const PATIENCE_MS = 120_000;

/** The drill of docs/operators/failover.md#promote-the-replica. */
describe("Facilitator: the replica of PostgreSQL is promoted", function () {
  this.timeout(400_000);
  let database: ReplicatedDatabase;
  let world: FacilitatorWorld;
  let program: Program;
  let settings: Record<string, string>;
  const running: ServiceProcess[] = [];

  before(async () => {
    database = await startReplicatedDatabase();
    world = await startWorld({ blockMs: BLOCK_MS });
    program = buildProgram();
    const key = testKey(`replica lane ${Math.random()}`) as Hex;
    await fund(world.chain, addressOfKey(key));
    settings = world.env({ DATABASE_URL: database.url, RELAYER_KEYS: key, LANE_LEASE_MS: "7000" });
    for (const roles of PROCESSES) running.push(await program.start(settings, roles));
  });
  after(async () => {
    for (const one of running) await one.kill();
    program?.remove();
    await world?.stop();
    await database?.stop();
  });

  async function rows<T extends object>(statement: string, url: string): Promise<T[]> {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query<T>(statement)).rows;
    } finally {
      await client.end();
    }
  }
  /** Presents the payment until its outcome is known, as clients do. */
  async function settled(signed: SignedPayment): Promise<PaymentProof> {
    return until(
      async (saw) => {
        const outcome = await running[0]?.client.authorize(paymentToWire(signed)).catch(saw);
        return outcome?.kind === "settled" ? outcome.proof : saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );
  }

  it("HD11 S1 the primary is lost under load and its replica promoted: no restart, and nothing is lost or paid twice", async () => {
    const [state] = await rows<{ sync_state: string }>("select sync_state from pg_stat_replication", database.url);
    expect(state?.sync_state, "a commit waits for the replica").to.equal("sync");
    const proofs = new Map<SignedPayment, PaymentProof>();
    let isOver = false;
    const payOnAndOn = async (): Promise<void> => {
      while (!isOver) {
        const signed = await world.signPayment({ validForSec: 3_600 });
        proofs.set(signed, await settled(signed));
      }
    };
    const load = Promise.all(Array.from({ length: PAYERS_AT_ONCE }, payOnAndOn));
    await until(async () => proofs.size > PAYERS_AT_ONCE, "payments settle");

    await database.crashPrimary();
    const before = new Map(proofs);
    await database.promote();
    await until(async () => proofs.size > before.size + PAYERS_AT_ONCE, "payments settle again", PATIENCE_MS);
    isOver = true;
    await load;

    for (const [signed, proof] of before) {
      expect(proofToWire(await settled(signed)), "what was proved before is known").to.deep.equal(proofToWire(proof));
    }
    const transfers = await world.transfers();
    expect(transfers.length, "one transfer for each payment").to.equal(proofs.size);
    expect(new Set(transfers.map(({ from }) => from)).size).to.equal(proofs.size);
    for (const one of running) {
      await until(async () => (await fetch(`${one.url}/readyz`)).status === 200, "it is ready again", PATIENCE_MS);
    }
    const reconciled = await program.run(["reconcile"], settings);
    expect(reconciled.stdout).to.equal("database and chain agree\n");
  });
});
