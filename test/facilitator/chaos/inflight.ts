import { expect } from "chai";
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const PAYERS = 12;
const PRICE = 250_000n;
/** A payment that is not refused waits as long: nothing is mined. */
const REFUSED_WITHIN_MS = 10_000;

/** Of an instance's connections; its last letter is its number. */
const nameOf = (instance: number): string => `instance ${instance}`;

/**
 * An instance that inserted waits until the other one has, too, or waits for a lock: they surely look in between, however
 * slow the machine is. Detected by locks, which are visible at once, unlike rows.
 */
async function insertTogether({ store }: Core): Promise<void> {
  await sql`create function meet() returns trigger language plpgsql as $$
    begin
      if not exists (select from made) then return null; end if;
      perform pg_advisory_xact_lock_shared(4242, right(current_setting('application_name'), 1)::int);
      for look in 1..1000 loop
        exit when (select count(distinct objid) from pg_locks where locktype = 'advisory' and classid = 4242 and granted) > 1
          or exists (select from pg_locks where locktype = 'advisory' and not granted);
        perform pg_sleep(0.01);
      end loop;
      return null;
    end $$`.execute(store.db);
  await sql`create trigger meet after insert on payments referencing new table as made
    for each statement execute function meet()`.execute(store.db);
}

/** On PostgreSQL: the embedded database has one connection, and hides what two of them do to each other. */
describe("payments of one payer at two instances at once", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let instances: [Core, Core];

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: BLOCK_MS, postgres });
    const key = testKey(`in flight ${Math.random()}`) as Hex;
    await fund(world.chain, walletOf(world.chain, key).address as Hex);
    const instance = (number: number): Promise<Core> => {
      const url = new URL(world.env().DATABASE_URL ?? "");
      url.searchParams.set("application_name", nameOf(number));
      return world.core({ RELAYER_KEYS: key, DATABASE_URL: url.href });
    };
    instances = [await instance(1), await instance(2)];
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });

  it("B13 what is under way counts, wherever it was accepted: funds for one payment send one, and cost gas for one", async () => {
    const payers = await Promise.all(Array.from({ length: PAYERS }, () => world.payer(PRICE)));
    const pairs = await Promise.all(
      payers.map(async (payer) => [
        await world.signPayment({ payer, amount: PRICE }),
        await world.signPayment({ payer, amount: PRICE }),
      ]),
    );
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    await insertTogether(instances[0]);
    const first = await Promise.all(
      pairs.flatMap((pair) =>
        pair.map((signed, place) =>
          instances[place as 0 | 1].payments.authorize(signed, { waitMs: REFUSED_WITHIN_MS }),
        ),
      ),
    );
    const codes = first.map((outcome) => (outcome.kind === "refused" ? outcome.error.code : outcome.kind));
    for (let pair = 0; pair < PAYERS; pair++) {
      expect(codes.slice(pair * 2, pair * 2 + 2).sort(), `payer ${pair}`).to.deep.equal([
        "InsufficientFunds",
        "pending",
      ]);
    }
    await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    const outcomes = await Promise.all(
      pairs.flat().map((signed, place) =>
        until(async () => {
          const outcome = await instances[(place % 2) as 0 | 1].payments.authorize(signed);
          return outcome.kind !== "pending" && outcome;
        }, "its outcome is known"),
      ),
    );
    expect(outcomes.filter(({ kind }) => kind === "settled")).to.have.length(PAYERS);
    const { db } = instances[0].store;
    const attempts = await db.selectFrom("payments").select("attempts").execute();
    expect(
      attempts.map((row) => row.attempts),
      "each was sent once",
    ).to.deep.equal(payers.map(() => 1));
  });
});
