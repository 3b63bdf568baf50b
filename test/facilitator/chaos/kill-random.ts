import { rmSync } from "node:fs";
import type { Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { embeddedDatabase, type FacilitatorWorld, fund, startWorld, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { isEveryVariant } from "../../support/variants";
import { randomOf } from "./support/faults";
import { audit } from "./support/kill-audit";
import { createClients } from "./support/kill-clients";
import { prepareVictims, type Victim, type Victims } from "./support/kill-victim";

/** KILL_SEED has a run again; KILLS says how often each service is killed. */
const SEED = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000);
const KILLS = Number(process.env.KILLS ?? 2);
const PAYMENTS_PER_LIFE = 8;
/** A process lives so long after it listens, at most. */
const LIFE_MS = 900;

describe(`a service that is killed at any time, under load (KILL_SEED=${SEED})`, function () {
  this.timeout(3_600_000);
  const random = randomOf(SEED);
  let postgres: TestPostgres;
  let victims: Victims;
  let world: FacilitatorWorld;

  before(async () => {
    [postgres, victims] = await Promise.all([startPostgres(), prepareVictims()]);
  });
  beforeEach(async () => {
    world = await startWorld();
  });
  afterEach(() => world.stop());
  after(async () => {
    await victims?.stop();
    await postgres?.stop();
  });

  async function killAndAudit(database: Record<string, string>): Promise<void> {
    const key = testKey(`killed relayer ${Math.random()}`) as Hex;
    await fund(world.chain, walletOf(world.chain, key).address as Hex);
    const settings = {
      ...database,
      RELAYER_KEYS: key,
      PGLITE_LOCK_MS: "2000",
      LANE_LEASE_MS: "1000",
      RENEWALS: "false",
    };
    let living: Victim | undefined;
    const clients = createClients(world, () => (living ? [living.url] : []), random);
    const paying: Promise<unknown>[] = [];
    for (let kills = 0; kills < KILLS; kills++) {
      living = await victims.startSurely(world.env(settings));
      await clients.fewAsking();
      const lifeMs = random(LIFE_MS);
      const untilMs = performance.now() + lifeMs;
      for (let payments = 0; payments < PAYMENTS_PER_LIFE; payments++) {
        paying.push(clients.pay(random(4) === 0 ? "settle" : "authorize"));
        await new Promise((resolve) => setTimeout(resolve, Math.min(50, random(1 + lifeMs / PAYMENTS_PER_LIFE))));
      }
      while (performance.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, 5));
      await living.kill();
      living = undefined;
    }
    living = await victims.startSurely(world.env(settings));
    await Promise.all(paying);
    await living.kill();
    const core = await world.core(settings);
    await audit(world, core, clients.answered);
    await core.stop();
  }

  if (isEveryVariant)
    it("S1 B6 on the embedded database: one outcome each, transfers = settled rows = proofs", async () => {
      const { home, dir } = await embeddedDatabase();
      await killAndAudit({ PGLITE_DIR: dir, DATABASE_URL: "" });
      rmSync(home, { recursive: true, force: true });
    });

  it("S1 B6 on PostgreSQL: one outcome each, transfers = settled rows = proofs", async () => {
    await killAndAudit({ DATABASE_URL: await postgres.database() });
  });
});
