import { expect } from "chai";
import { addressOfKey, type Hex, proofToWire } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { testKey } from "../../support/chain";
import {
  BLOCK_MS,
  type FacilitatorWorld,
  fund,
  type Payer,
  startWorld,
  until,
  walletOf,
} from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { authorizeAndDrain } from "../support/payments";
import { ORIGIN, refundAccountFor, refundAccountsOf, signStatement } from "../support/refunds";

/** Longer than any pause of a busy machine: leases are lost by the test's hand alone. */
const LANE_LEASE_MS = "20000";

/** Two instances on one PostgreSQL database; the embedded one has one process by design. */
describe("payments of two instances", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let instances: Core[];
  let refunds: Awaited<ReturnType<typeof refundAccountFor>>;
  const provider: Payer = { key: testKey("payee") as Hex, address: addressOfKey(testKey("payee") as Hex) };

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: BLOCK_MS, postgres });
    const keys = ["shared lane 1", "shared lane 2"].map((name) => testKey(name) as `0x${string}`);
    for (const key of keys) await fund(world.chain, walletOf(world.chain, key).address as `0x${string}`);
    refunds = await refundAccountFor(world, provider.address);
    const settings = { RELAYER_KEYS: keys.join(","), LANE_LEASE_MS, ...refunds.settings };
    instances = [await world.core(settings), await world.core(settings)];
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });

  it("B1 the same authorization 100 times at once, on both, is one transfer and one proof", async () => {
    const signed = await world.signPayment();
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, index) => instances[index % 2]?.payments.authorize(signed)),
    );
    const answers = new Set(
      outcomes.map((outcome) =>
        outcome?.kind === "settled" ? JSON.stringify(proofToWire(outcome.proof)) : outcome?.kind,
      ),
    );
    expect([...answers]).to.have.length(1);
    expect([...answers][0]).to.contain(world.payee);
    expect((await world.transfers()).filter(({ from }) => from === signed.authorization.from)).to.have.length(1);
  });

  it("S1 a hundred payments through both are a hundred transfers", async () => {
    const payers = await Promise.all(Array.from({ length: 100 }, () => world.payer()));
    const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
    const outcomes = await Promise.all(signed.map((one, index) => instances[index % 2]?.payments.authorize(one)));
    expect(outcomes.map((outcome) => outcome?.kind)).to.deep.equal(signed.map(() => "settled"));
    const ours = new Set(payers.map(({ address }) => address));
    expect((await world.transfers()).filter(({ from }) => ours.has(from as `0x${string}`))).to.have.length(100);
  });

  it("T49 automatic refunds through both never pass the daily cap, and each payment is refunded once", async () => {
    const [one, two] = instances as [Core, Core];
    const account = refunds.account.address;
    const statement = await signStatement(world, { provider, account, dailyCap: 3n * 250_000n });
    await refundAccountsOf(one).name(statement, ORIGIN);
    const signed = await Promise.all(Array.from({ length: 8 }, () => world.signPayment()));
    await Promise.all(signed.map((each) => one.payments.authorize(each)));
    const asked = signed.flatMap((each) => [one, two].map((core) => ({ core, paymentId: world.idOf(each) })));
    const outcomes = await Promise.all(
      asked.map(({ core, paymentId }) => core.payments.refundAutomatically({ paymentId, provider: provider.address })),
    );
    const codes = outcomes.map((outcome) => (outcome.kind === "refused" ? outcome.error.reason : outcome.kind));
    expect(codes.filter((code) => code === "settled")).to.have.length(6);
    expect(codes.filter((code) => code === "refund_cap")).to.have.length(10);
    const payers = signed.map(({ authorization: { from } }) => from);
    const received = await Promise.all(payers.map((payer) => world.transfers(payer)));
    expect(received.flat().filter(({ from }) => from === account)).to.have.length(3);
  });

  it("B13 a process that only accepts payments refuses a payer whose payments burnt the gas of another", async () => {
    const [sender] = instances as [Core];
    const front = await world.core({ ROLES: "api", MAX_LOSSES_PER_PAYER: "1" });
    const payer = await world.payer(250_000n);
    const before = await world.signPayment({ payer });
    const after = await world.signPayment({ payer });
    expect((await authorizeAndDrain(world, sender, payer, before)).kind).to.equal("refused");
    await until(async () => {
      const outcome = await front.payments.authorize(after);
      return outcome.kind === "refused" && outcome.error.reason === "losses";
    }, "refused for its losses, no longer for its funds");
    await front.stop();
  });

  it("S5 the other instance takes over the lanes of one that stopped, and of one that froze", async () => {
    const [first, second] = instances as [Core, Core];
    await first.stop();
    await until(
      async () => second.relayer.health().lanes.every(({ status }) => status === "running"),
      "the lanes have moved",
    );
    expect((await second.payments.authorize(await world.signPayment())).kind).to.equal("settled");
    const both = ["shared lane 1", "shared lane 2"].map(testKey).join(",");
    const third = await world.core({ RELAYER_KEYS: both, LANE_LEASE_MS });
    expect(third.relayer.health().lanes.map(({ status }) => status)).to.deep.equal(["standby", "standby"]);
    // A stale owner: its epoch is over, and it can reserve no nonce any more.
    const held = await second.store.db.selectFrom("lanes").select("lease_epoch").execute();
    const epoch = Math.max(...held.map(({ lease_epoch }) => lease_epoch));
    await until(async () => {
      // Again, since its owner may have renewed it in between.
      await second.store.db.updateTable("lanes").set({ lease_until_ms: 0 }).where("lease_epoch", "<=", epoch).execute();
      return third.relayer.health().lanes.some(({ status }) => status === "running");
    }, "a lane was taken over");
    const outcomes = await Promise.all(
      [second, third].map(async (core) => core.payments.authorize(await world.signPayment())),
    );
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(["settled", "settled"]);
  });
});
