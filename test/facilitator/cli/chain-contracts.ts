/** A database holds the records of one pair of contracts on each chain: another TURNPIKE must never be read into it. */
import { expect } from "chai";
import pino from "pino";
import type { Address } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { dumpText } from "../../../facilitator/src/cli/maintenance/dump";
import { reindex } from "../../../facilitator/src/cli/maintenance/reindex";
import { openStore, type Store } from "../../../facilitator/src/db/open";
import { noProgress } from "../../../facilitator/src/lib/progress";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { addressOf } from "../../support/gate";
import { buildProgram, type Program } from "../support/processes";

const log = pino({ level: "silent" });

describe("Facilitator: the contracts of a database", function () {
  this.timeout(180_000);
  let world: FacilitatorWorld;
  let program: Program;
  let other: { readonly TURNPIKE: Address; readonly BATCH_SETTLER: Address };

  before(async () => {
    world = await startWorld();
    program = buildProgram();
    other = {
      TURNPIKE: await copyOf(world.contracts.turnpike, addressOf("another Turnpike")),
      BATCH_SETTLER: await copyOf(world.contracts.batchSettler, addressOf("another settler")),
    };
    const core = await world.core();
    await core.indexer.catchUp();
    await core.stop();
  });
  after(async () => {
    program?.remove();
    await world?.stop();
  });

  /** A second deployment: the same code at another address. */
  async function copyOf(from: Address, to: Address): Promise<Address> {
    const code = await world.chain.provider.send("eth_getCode", [from, "latest"]);
    await world.chain.provider.send("hardhat_setCode", [to, code]);
    return to;
  }
  async function withStore<T>(act: (store: Store) => Promise<T>): Promise<T> {
    const store = await openStore(world.config().database);
    try {
      return await act(store);
    } finally {
      await store.close();
    }
  }
  const dumped = () => withStore(({ db }) => dumpText(db, world.chain.chainId));
  const failure = (starting: Promise<Core>) =>
    starting.then(
      () => "started",
      (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
    );

  for (const name of ["TURNPIKE", "BATCH_SETTLER"] as const) {
    it(`J5 a start with another ${name} is refused with the remedy, and changes nothing`, async () => {
      const before = await dumped();
      const refused = await failure(world.core({ [name]: other[name] }));
      const ours = name === "TURNPIKE" ? world.contracts.turnpike : world.contracts.batchSettler;
      expect(refused).to.match(/^ConfigError: the database belongs to/);
      expect(refused).to.include(`${name} ${ours}, and ${name} is ${other[name]}`).and.include("reindex --wipe");
      expect(await dumped()).to.equal(before);
      const { status, stdout } = await program.run(["doctor"], world.env({ [name]: other[name] }));
      expect(stdout).to.match(new RegExp(`^fail .*the database belongs to ${name} ${ours}.*Remedy: `, "m"));
      expect(status).to.equal(1);
      const reconciled = await program.run(["reconcile"], world.env({ [name]: other[name] }));
      expect(reconciled.stderr).to.match(/^ConfigError: the database belongs to/m);
      expect(reconciled.stdout).to.not.include("difference");
    });
  }

  it("J5 starts again with its own contracts, and in every letter case", async () => {
    const { status, stdout } = await program.run(["doctor"], world.env());
    expect(status, stdout).to.equal(0);
    const core = await world.core({ TURNPIKE: world.contracts.turnpike.toLowerCase() });
    await core.stop();
  });

  it("J5 exchanged addresses, and a contract that is not Turnpike, stop the start and fail the doctor", async () => {
    const { turnpike: TURNPIKE, batchSettler: BATCH_SETTLER, token } = world.contracts;
    const exchanged = { TURNPIKE: BATCH_SETTLER, BATCH_SETTLER: TURNPIKE };
    const { status, stdout } = await program.run(["doctor"], world.env(exchanged));
    expect(stdout).to.match(/^fail TURNPIKE: .*is the contract that BATCH_SETTLER must name.*Remedy: exchange/m);
    expect(stdout).to.match(/^fail BATCH_SETTLER: .*is the contract that TURNPIKE must name.*Remedy: exchange/m);
    expect(status).to.equal(1);
    await world.loseDatabase();
    expect(await failure(world.core(exchanged))).to.match(/must name: exchange the addresses/);
    expect(await failure(world.core({ TURNPIKE: token }))).to.match(
      /not Turnpike of this release: its lens does not answer getPlans/,
    );
    const core = await world.core();
    await core.stop();
  });

  it("J5 a wiping reindex binds the database to the contract that it reads", async () => {
    const config = world.config({ TURNPIKE: other.TURNPIKE });
    const core = await world.core();
    const { chain } = core.relayer;
    await core.stop();
    await withStore(async (store) => {
      const job = { config, store, chain, log, progress: noProgress };
      expect(await reindex({ ...job, isWiped: false }).catch((error: Error) => error.message)).to.match(/already/);
      await reindex({ ...job, isWiped: true });
    });
    expect(await failure(world.core())).to.match(/the database belongs to TURNPIKE/);
    const moved = await world.core({ TURNPIKE: other.TURNPIKE });
    await moved.stop();
  });

  it("doctor and start name a chain that was restarted, with the remedy", async () => {
    await world.loseDatabase();
    const core = await world.core();
    await core.indexer.catchUp();
    await core.stop();
    const { chainId } = world.chain;
    const lines: string[] = [];
    const heard = { write: (line: string) => void lines.push(line) };
    const start = async () => {
      lines.length = 0;
      const config = world.config({ LOG_LEVEL: "warn" });
      const started = await world.core({}, { log: pino({ level: config.logLevel }, heard) });
      await started.stop();
      return lines.join("");
    };
    // Another chain: its oldest block is not the one that was read.
    await withStore(async ({ db }) => {
      const { number } = await db.selectFrom("blocks").select("number").orderBy("number").executeTakeFirstOrThrow();
      const change = db.updateTable("blocks").set({ hash: `0x${"00".repeat(32)}` });
      await change.where("number", "=", number).execute();
    });
    const restarted = await program.run(["doctor"], world.env());
    expect(restarted.stdout).to.match(/^fail .*it has read another chain.*Remedy: .*reindex --wipe/m);
    expect(restarted.status).to.equal(1);
    expect(await start())
      .to.include("it has read another chain")
      .and.include("reindex --wipe");
    await world.loseDatabase();
    await (await world.core()).stop();
    await withStore(({ db }) =>
      db
        .insertInto("blocks")
        .values({ chain_id: chainId, number: 1_000_000, hash: "0x01", parent_hash: "0x00", timestamp: 1 })
        .execute(),
    );
    const short = await program.run(["doctor"], world.env());
    expect(short.stdout).to.match(
      /^fail .*read the chain to block 1000000, but its newest block is \d+.*reindex --wipe/m,
    );
    expect(short.status).to.equal(1);
  });
});
