import { expect } from "chai";
import { Client } from "pg";
import pino from "pino";
import { type RunningFacilitator, startFacilitator } from "../../../facilitator/src/app/start";
import type { FacilitatorConfig } from "../../../facilitator/src/config";
import { MIGRATIONS } from "../../../facilitator/src/db/migrations";
import type { Migration } from "../../../facilitator/src/db/migrations/migration";
import { openStore, type StoreOptions } from "../../../facilitator/src/db/open";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program } from "../support/processes";

/** The release before reads and writes this column. */
const BREAKING: Migration = {
  id: "999-breaking",
  statements: ["alter table payments rename column resource_shown to resource_named"],
  isBreaking: true,
};

describe("Facilitator: a migration that breaks with the release before", function () {
  this.timeout(180_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let running: RunningFacilitator | undefined;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres });
    program = buildProgram();
  });
  afterEach(async () => {
    await running?.stop();
    running = undefined;
  });
  after(async () => {
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  async function start(roles: string): Promise<FacilitatorConfig> {
    const config = world.config({ DATABASE_URL: await postgres.migrated(), ROLES: roles, PORT: "0" });
    running = await startFacilitator(config, { logger: pino({ level: "silent" }) });
    return config;
  }
  /** As `migrate` and `start` of the next release do. */
  const migrateNext = (config: FacilitatorConfig, options: StoreOptions = {}): Promise<string> =>
    openStore(config.database, { migrations: [...MIGRATIONS, BREAKING], quietMs: 0, ...options }).then(
      async (store) => {
        await store.close();
        return store.migrated.join();
      },
      (error: Error) => `${error.name}: ${error.message}`,
    );

  for (const roles of ["api", "relayer,indexer", "renewals,webhooks"]) {
    it(`HD10 is refused while a process with the roles ${roles} runs, and applied soon after it has stopped`, async () => {
      const config = await start(roles);
      expect(await migrateNext(config)).to.match(
        /^ConfigError: 999-breaking breaks with the release that runs on this database .*: stop every process.*--force/,
      );
      expect((await fetch(`${running?.url}/healthz`)).status, "it goes on").to.equal(200);
      await running?.stop();
      expect(await migrateNext(config, { quietMs: 30_000 })).to.equal("999-breaking");
    });
  }

  it("HD10 is applied at once to a database without a process", async () => {
    const config = world.config({ DATABASE_URL: await postgres.migrated() });
    expect(await migrateNext(config)).to.equal("999-breaking");
  });

  it("HD10 a running process that does not know it answers 503, and stops by itself", async () => {
    const config = await start("api,relayer,indexer");
    const url = running?.url ?? "";
    expect(await migrateNext(config, { isForced: true })).to.equal("999-breaking");
    const statuses = new Set<number>();
    const body = JSON.stringify({ signedPayment: paymentToWire(await world.signPayment()) });
    let isOver = false;
    const ended = running?.ended.then((reason) => {
      isOver = true;
      return reason;
    });
    while (!isOver) {
      const answer = await fetch(`${url}/authorize`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      }).catch(() => undefined);
      if (answer) statuses.add(answer.status);
      const ready = await fetch(`${url}/readyz`).catch(() => undefined);
      if (ready?.status === 503) expect(await ready.text()).to.contain("newer version (it has 999-breaking)");
    }
    expect((await ended)?.message).to.match(/newer version \(it has 999-breaking\): start that version/);
    expect([...statuses]).not.to.include.oneOf([402, 409]);
    await running?.stop();
  });

  it("HD10 doctor fails where start is refused, and the program exits with 1", async () => {
    const env = world.env({ DATABASE_URL: await postgres.migrated(), LOG_LEVEL: "info" });
    const service = await program.launch(["start"], env);
    await service.untilUp();
    const db = new Client({ connectionString: env.DATABASE_URL });
    await db.connect();
    try {
      // As if the newest breaking one of this release were still to come.
      const pending = MIGRATIONS.filter(({ isBreaking }) => isBreaking).at(-1)?.id ?? "";
      await db.query("delete from migrations where id = $1", [pending]);
      const early = await program.run(["doctor"], env);
      expect(early.stdout).to.match(/^fail DATABASE_URL: .*are to be applied.*Remedy: stop every process .*migrate/m);
      const refused = await program.run(["migrate"], env);
      expect(refused.status).to.equal(1);
      expect(refused.stderr).to.contain(`ConfigError: ${pending} breaks with the release that runs`);
      expect(refused.stderr).to.match(/--force/);
      await db.query("insert into migrations (id, breaking) values ($1, true), ('999-breaking', true)", [pending]);
      expect(await service.ended, service.output()).to.equal(1);
      expect(service.output()).to.contain("the database is of a newer version (it has 999-breaking)");
      const late = await program.run(["doctor"], env);
      expect(late.status).to.equal(1);
      expect(late.stdout).to.match(/^fail DATABASE_URL: .*newer version \(it has 999-breaking\).*Remedy: /m);
      expect(late.stdout).not.to.contain("is migrated");
    } finally {
      await db.end();
      await service.kill();
    }
  });
});
