import { expect } from "chai";
import { Pool } from "pg";
import { postgresClaims } from "turnpike/gate/postgres";
import { cellsOn } from "../../../../sdk/src/gate/cells/cells";
import { postgresCells } from "../../../../sdk/src/gate/cells/postgres";
import { CLAIM_STORE, claimsOn } from "../../../../sdk/src/gate/purchases/store";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { attempt, idOf, NOW_SEC, testClaimStore, timedByActs } from "../support/claim-store";
import { testOneGrant } from "../support/one-grant";

describe("claims in PostgreSQL", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let url: string;
  let pool: Pool;
  let spaces = 0;
  let jumps = 0;

  before(async () => {
    postgres = await startPostgres();
    url = await postgres.database();
    pool = new Pool({ connectionString: url, max: 8 });
    pool.on("error", () => undefined);
  });
  after(async () => {
    await pool.end();
    await postgres.stop();
  });

  testClaimStore(() => timedByActs(postgresCells(pool, { space: `claims ${spaces++}` })));

  it("create their table, also when several gates start at once", async () => {
    const fresh = new Pool({ connectionString: await postgres.database(), max: 8 });
    const stores = Array.from({ length: 6 }, () => postgresClaims(fresh));
    const outcomes = await Promise.all(stores.map((store) => attempt(store, idOf("first"))));
    expect(outcomes.filter(({ kind }) => kind === "acquired")).to.have.length(1);
    await fresh.end();
  });

  it("are separated by space, and deleted after their retention", async () => {
    const [one, other] = ["one", "other"].map((space) => postgresClaims(pool, { space }));
    if (!one || !other) throw new TypeError("two stores");
    expect((await attempt(one, idOf("a"))).kind).to.equal("acquired");
    expect((await attempt(other, idOf("a"))).kind).to.equal("acquired");
    await pool.query("UPDATE turnpike_gate_cells SET keep_until = now() - interval '1 second' WHERE space = 'one'");
    expect((await attempt(postgresClaims(pool, { space: "one" }), idOf("a"))).kind).to.equal("acquired");
  });

  it("HA1 share one grant key among the gates of one space, also when they start at once", async () => {
    const stores = Array.from({ length: 6 }, () => postgresClaims(pool, { space: "keys" }));
    const keys = await Promise.all(stores.map((store) => store.grantKey()));
    expect(new Set(keys).size).to.equal(1);
  });

  it("HA6 delete an answer after its retention", async () => {
    const store = postgresClaims(pool, { space: "answers" });
    const use = async (name: string, text: string) => {
      const { owner } = await attempt(store, idOf(name));
      await store.apply(idOf(name), { act: "use", owner }, { text, nowMs: 1, keepSec: 600 });
    };
    await use("a", "1.k.sealed");
    const rows = () =>
      pool.query("SELECT key FROM turnpike_gate_cells WHERE space = 'answers' AND key LIKE 'answer@%'");
    expect((await rows()).rows).to.have.length(1);
    await pool.query(
      "UPDATE turnpike_gate_cells SET keep_until = now() - interval '1 second' WHERE space = 'answers' AND key LIKE 'answer@%'",
    );
    expect(await store.served?.(idOf("a"), 1)).to.deep.equal({ answer: undefined });
    // Large answers make the store clean up much earlier than many small ones.
    for (let i = 0; i < 18; i++) await use(`large ${i}`, "A".repeat(1_000_000));
    expect((await rows()).rows.map(({ key }) => key)).to.not.include(`answer@${idOf("a")}`);
  });

  it("HA29 make no change that reaches the database after its time", async () => {
    const cells = postgresCells(pool, { space: "late" });
    await cells.open();
    const change = { key: "a", expected: undefined, next: "1" };
    const nowMs = await cells.nowMs();
    expect(await cells.compareAndSwap([change], nowMs - 1)).to.equal("late");
    expect(await cells.read(["a"])).to.deep.equal([undefined]);
    expect(await cells.compareAndSwap([change], nowMs + 60_000)).to.equal("made");
    expect(await cells.compareAndSwap([change], nowMs + 60_000)).to.equal("differs");
    const jumping = { ...cells, nowMs: async () => (jumps++ === 0 ? 0 : cells.nowMs()) };
    const jumped = claimsOn(cellsOn(jumping, { what: CLAIM_STORE }));
    expect((await attempt(jumped, idOf("jumped"))).kind, "the store's clock has jumped").to.equal("acquired");
  });

  it("report an outage without the server's address while it is unreachable", async () => {
    const away = new Pool({ connectionString: "postgres://user:hidden@127.0.0.1:1/none" });
    const fault = await postgresClaims(away)
      .claim(idOf("a"), { act: "claim", owner: "o", nowMs: 1, leaseMs: 1, keepUntilSec: NOW_SEC }, NOW_SEC)
      .catch((error: Error & { code?: string }) => error);
    expect(fault).to.include({ code: "Unavailable" });
    expect(String((fault as Error).message)).to.not.match(/hidden|127/);
    await away.end();
  });

  testOneGrant("PostgreSQL", () => ({ kind: "postgres", url }));
});
