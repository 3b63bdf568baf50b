import type { Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { randomOf } from "./support/faults";
import { audit } from "./support/kill-audit";
import { createClients } from "./support/kill-clients";
import { prepareVictims, type Victim, type Victims } from "./support/kill-victim";

const SEED = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000);
const ROUNDS = Number(process.env.KILLS ?? 3);
const LEASE_MS = 1_000;
const FROZEN_MS = LEASE_MS * 1.6;
const PAYMENTS_PER_ROUND = 10;

describe(`two processes on one database, one of which dies or freezes (KILL_SEED=${SEED})`, function () {
  this.timeout(3_600_000);
  const random = randomOf(SEED);
  let postgres: TestPostgres;
  let victims: Victims;
  let world: FacilitatorWorld;

  before(async () => {
    [postgres, victims, world] = await Promise.all([startPostgres(), prepareVictims(), startWorld()]);
  });
  after(async () => {
    await victims?.stop();
    await world?.stop();
    await postgres?.stop();
  });

  it("S1 S5 S7 a lost lease: the other goes on, the frozen one comes back to nothing, and nothing is doubled", async () => {
    const keys = ["one", "two"].map((name) => testKey(`contested ${name} ${Math.random()}`) as Hex);
    for (const key of keys) await fund(world.chain, walletOf(world.chain, key).address as Hex);
    const settings = {
      DATABASE_URL: await postgres.database(),
      RELAYER_KEYS: keys.join(","),
      LANE_LEASE_MS: String(LEASE_MS),
      RENEWALS: "false",
    };
    const living: Victim[] = [];
    const start = async (): Promise<void> => {
      living.push(await victims.startSurely(world.env(settings)));
    };
    await Promise.all([start(), start()]);
    const clients = createClients(world, () => living.map(({ url }) => url), random);
    const paying: Promise<unknown>[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const pay = (): void => {
        for (let count = 0; count < PAYMENTS_PER_ROUND / 2; count++) paying.push(clients.pay("authorize"));
      };
      await clients.fewAsking();
      pay();
      await new Promise((resolve) => setTimeout(resolve, random(90)));
      const [struck] = living.splice(random(living.length), 1) as [Victim];
      if (random(2) === 0) {
        await Promise.all([struck.kill(), start()]);
        pay();
        continue;
      }
      // Its connections stay open, its lease runs out, and then it goes on as if nothing had been.
      struck.process.kill("SIGSTOP");
      pay();
      const untilMs = performance.now() + FROZEN_MS;
      while (performance.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, 20));
      struck.process.kill("SIGCONT");
      living.push(struck);
    }
    await Promise.all(paying);
    await Promise.all(living.splice(0).map((victim) => victim.kill()));
    const core = await world.core(settings);
    await audit(world, core, clients.answered);
    await core.stop();
  });
});
