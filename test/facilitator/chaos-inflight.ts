import { expect } from "chai";
import { sql } from "kysely";
import type { Hex } from "turnpike/protocol";
import type { Core } from "../../facilitator/src/core";
import { testKey } from "../support/chain";
import { type FacilitatorWorld, fund, startWorld, until, walletOf } from "../support/facilitator";
import { startPostgres, type TestPostgres } from "../support/postgres";

const PAYERS = 12;
const PRICE = 250_000n;

/** What one of them inserts, the other cannot see for a while: it surely looks in between. */
async function slowInserts({ store }: Core): Promise<void> {
  await sql`create function linger() returns trigger language plpgsql
    as 'begin perform pg_sleep(1); return null; end'`.execute(store.db);
  await sql`create trigger linger after insert on payments for each statement execute function linger()`.execute(
    store.db,
  );
}

/** On PostgreSQL: the embedded database has one connection, and hides what two of them do to each other. */
describe("payments of one payer at two instances at once", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let instances: [Core, Core];

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: 100, postgres });
    const key = testKey(`in flight ${Math.random()}`) as Hex;
    await fund(world.chain, walletOf(world.chain, key).address as Hex);
    instances = [await world.core({ RELAYER_KEYS: key }), await world.core({ RELAYER_KEYS: key })];
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
    await slowInserts(instances[0]);
    const first = await Promise.all(
      pairs.flatMap((pair) =>
        pair.map((signed, place) => instances[place as 0 | 1].payments.authorize(signed, { waitMs: 0 })),
      ),
    );
    const codes = first.map((outcome) => (outcome.kind === "refused" ? outcome.error.code : outcome.kind));
    for (let pair = 0; pair < PAYERS; pair++) {
      expect(codes.slice(pair * 2, pair * 2 + 2).sort(), `payer ${pair}`).to.deep.equal([
        "InsufficientFunds",
        "pending",
      ]);
    }
    await world.chain.provider.send("evm_setIntervalMining", [100]);
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
