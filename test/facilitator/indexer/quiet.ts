/** Far from the head, blocks without facts are written in one transaction, so that a slow process can catch up. */
import { expect } from "chai";
import { sql } from "kysely";
import pino from "pino";
import type { Core } from "../../../facilitator/src/app/core";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";

const QUIET = 40;

describe("blocks without facts", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  before(async () => {
    world = await startWorld({});
  });
  after(() => world?.stop());

  // One by one: blocks that the node mines at once are not linked to each other.
  const mine = async (count: number) => {
    for (let mined = 0; mined < count; mined++) await world.chain.provider.send("evm_mine", []);
  };
  const headOf = async () => (await world.chain.provider.getBlock("latest")) as { number: number; hash: string };
  const applied = async (core: Core) => {
    const { number } = await headOf();
    await until(async () => core.indexer.applied() === number, "it has read to the head");
  };
  async function blocksOf(core: Core): Promise<{ number: number; hash: string; parent_hash: string }[]> {
    return core.store.db.selectFrom("blocks").select(["number", "hash", "parent_hash"]).orderBy("number").execute();
  }

  it("S4 are stored one by one in one transaction; a payment between them is found, and a reorganisation reverts them", async () => {
    const first = await world.core();
    const signed = await world.signPayment();
    const paid = await first.payments.authorize(signed);
    if (paid.kind !== "settled") expect.fail(`it is ${paid.kind}`);
    const snapshot = await world.chain.provider.send("evm_snapshot", []);
    await first.stop();

    await mine(QUIET);
    const payer = await world.payer();
    await mine(QUIET);
    const second = await world.core();
    await applied(second);
    const blocks = await blocksOf(second);
    const { hash, number } = await headOf();
    expect(blocks.at(-1)).to.include({ hash, number });
    for (const [place, block] of blocks.entries())
      if (place > 0) expect(block.parent_hash, "each on the one before it").to.equal(blocks[place - 1]?.hash);
    const written = await sql<{ together: number }>`select count(distinct xmin::text)::int as together from blocks
      where number > ${paid.proof.blockNumber}`.execute(second.store.db);
    expect(written.rows[0]?.together, "transactions of the database").to.be.lessThan(QUIET);
    expect((await second.payments.authorize(await world.signPayment({ payer }))).kind).to.equal("settled");

    await world.chain.provider.send("evm_revert", [snapshot]);
    await world.chain.provider.send("hardhat_setNextBlockBaseFeePerGas", ["0x77359401"]);
    await mine(QUIET * 2 + 10);
    const other = await headOf();
    // The payment that the reorganisation undid is sent again, in blocks after this one.
    const storedAt = async (height: number) => (await blocksOf(second)).find((block) => block.number === height)?.hash;
    await until(async () => (await storedAt(other.number)) === other.hash, "it has read to the new head");
    expect((await second.payments.verifyProof(paid.proof)).kind, "what was paid before").to.equal("valid");
    await second.stop();
  });

  it("warns once when the node's next block is not linked to the applied one, and continues when one is", async () => {
    const lines: { level: number; msg: string; reason?: string; repeated?: number }[] = [];
    const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const core = await world.core({}, { log });
    await applied(core);
    const snapshot = await world.chain.provider.send("evm_snapshot", []);
    await world.chain.provider.send("hardhat_mine", ["0x100"]);
    // On a slow machine the same fault is logged again later, with the number of repetitions.
    const isWarning = ({ msg, repeated }: (typeof lines)[number]) =>
      msg.includes("indexing does not continue") && repeated === undefined;
    const warnings = () => lines.filter(isWarning);
    await until(async () => warnings().length > 0, "it warns");
    const stuckAt = core.indexer.applied();
    const { level, reason } = warnings()[0] ?? {};
    expect(level).to.equal(log.levels.values.warn);
    expect(reason)
      .to.contain(`block ${stuckAt + 1} `)
      .and.contain(`block ${stuckAt};`);
    await core.indexer.catchUp();
    await core.indexer.catchUp();
    expect(core.indexer.applied(), "what it does is as before").to.equal(stuckAt);
    expect(warnings(), "one warning a fault").to.have.length(1);

    await world.chain.provider.send("evm_revert", [snapshot]);
    await mine(2);
    await applied(core);
    expect(warnings()).to.have.length(1);
  });
});
