import { expect } from "chai";
import pino from "pino";
import { Secret } from "../../../facilitator/src/config/setting";
import { openStore, type Store } from "../../../facilitator/src/db/open";
import { startUpkeep, type UpkeepWait } from "../../../facilitator/src/db/upkeep";
import { until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const log = pino({ level: "silent" });

describe("Facilitator: upkeep", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  const stores: Store[] = [];

  before(async () => {
    postgres = await startPostgres();
    const url = new Secret(await postgres.database());
    for (const poolSize of [2, 3]) stores.push(await openStore({ kind: "postgres", url, poolSize }));
  });
  after(async () => {
    for (const store of stores) await store.close();
    await postgres.stop();
  });

  const waits = new Map<string, UpkeepWait | undefined>();

  /** Work that ends after some batches, and records the process that did each. */
  function work(batches: number) {
    const by: number[] = [];
    let left = batches;
    const start = (place: number) =>
      startUpkeep({
        store: stores[place] as Store,
        chainId: 31_337,
        log,
        everyMs: 10,
        onRound: (task, wait) => void waits.set(task, wait),
        tasks: [
          {
            name: "failures",
            tables: [],
            run: async () => {
              throw Object.assign(new Error("this task always fails"), { code: "ENOSPC" });
            },
          },
          {
            name: "rows",
            tables: [],
            async run() {
              if (left === 0) return 0;
              left -= 1;
              by.push(place);
              return 1;
            },
          },
        ],
      });
    return { by, start, isDone: async () => left === 0 };
  }

  it("is done by one process at a time, past a task that fails; the next one takes over when it stops", async () => {
    const first = work(10);
    const one = first.start(0);
    await until(async () => first.by.length > 0, "the first process works");
    const other = first.start(1);
    await until(first.isDone, "everything is done");
    expect(waits.get("failures")).to.include({ reason: "ENOSPC" });
    expect(waits.get("rows"), "nothing waits").to.equal(undefined);
    expect(new Set(first.by)).to.deep.equal(new Set([0]));
    await one.stop();
    await other.stop();
    const second = work(3);
    const heir = second.start(1);
    await until(second.isDone, "the other process works");
    await heir.stop();
    expect(new Set(second.by)).to.deep.equal(new Set([1]));
  });

  it("stops between two batches", async () => {
    const endless = work(1_000_000);
    const worker = endless.start(0);
    await until(async () => endless.by.length > 2, "it works");
    await worker.stop();
    const done = endless.by.length;
    await stores[0]?.db.selectFrom("role_leases").selectAll().execute();
    expect(endless.by.length).to.equal(done);
  });
});
