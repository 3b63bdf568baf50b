import { expect } from "chai";
import { Interface } from "ethers";
import { type Hex, proofToWire, randomRef, type SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { bytes } from "../../../facilitator/src/db/sql";
import { type FacilitatorWorld, type Payer, startWorld, until, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const DEAR = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n };

/** Not so fast that a busy machine cannot read along. */
const BLOCK_MS = 250;

/** On PostgreSQL, whose locks are real. */
describe("authorizations that somebody else interferes with", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: BLOCK_MS, postgres });
    core = await world.core({ FINALITY_DEPTH: "4" });
  });
  afterEach(() => mining(true));
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });

  const mining = (isOn: boolean) => world.chain.provider.send("evm_setIntervalMining", [isOn ? BLOCK_MS : 0]);
  const transfersOf = async (payer: string) => (await world.transfers()).filter(({ from }) => from === payer);
  const settled = async (signed: SignedPayment) => {
    const outcome = await until(async () => {
      const outcome = await core.payments.authorize(signed);
      return outcome.kind !== "pending" && outcome;
    }, "the outcome is known");
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    return outcome.proof;
  };
  /** All accepted and on their way, while nothing is mined. */
  async function underWay(signed: readonly SignedPayment[]): Promise<void> {
    await mining(false);
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    const ids = signed.map((one) => world.idOf(one));
    await until(async () => {
      const { db } = core.store;
      const rows = await db
        .selectFrom("payments as p")
        .innerJoin("transactions as t", "t.id", "p.transaction_id")
        .select("p.payment_id")
        .where("p.payment_id", "in", ids)
        .where("t.status", "=", "stored")
        .execute();
      return rows.length === ids.length;
    }, "all are on their way");
  }
  async function transactionsOf(signed: readonly SignedPayment[]): Promise<Set<string | null>> {
    const ids = signed.map((one) => world.idOf(one));
    const payments = core.store.db.selectFrom("payments").select("transaction_id");
    const rows = await payments.where("payment_id", "in", ids).execute();
    return new Set(rows.map(({ transaction_id }) => transaction_id));
  }
  async function failure(signed: SignedPayment): Promise<string | undefined> {
    const outcome = await until(async () => {
      const outcome = await core.payments.authorize(signed, { waitMs: 200 });
      return outcome.kind !== "pending" && outcome;
    }, "the outcome is final");
    return outcome.kind === "failed" ? outcome.error.reason : outcome.kind;
  }

  it("A31 B4 two equal payments in one batch, of which one is cancelled: the other's transfer proves only the other", async () => {
    const { payer, first, second } = await until(async () => {
      await mining(true);
      const payer = await world.payer();
      const [first, second] = [await world.signPayment({ payer }), await world.signPayment({ payer })];
      await underWay([first, second]);
      // On a slow machine they may have gone one after the other.
      return (await transactionsOf([first, second])).size === 1 && { payer, first, second };
    }, "both are in one batch");
    await cancelDearly(payer, first.authorization.nonce);
    await mining(true);
    const proof = await settled(second);
    expect(await failure(first)).to.equal("cancelled");
    expect((await transfersOf(payer.address)).map(({ transaction }) => transaction)).to.deep.equal([proof.transaction]);
    const used = await core.store.db
      .selectFrom("payments")
      .select("log_index")
      .where("tx_hash", "=", bytes(proof.transaction))
      .execute();
    expect(used).to.have.length(1);
  });

  it("B4 a cancellation that is faster than ours: no proof, pending until it is final, then failed; the batch settles", async () => {
    const payers = await Promise.all([world.payer(), world.payer(), world.payer()]);
    const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
    const [cancelled, ...rest] = signed as [SignedPayment, ...SignedPayment[]];
    await underWay(signed);
    await cancelDearly(payers[0] as Payer, cancelled.authorization.nonce);
    await mining(true);
    for (const one of rest) await settled(one);
    expect(await failure(cancelled)).to.equal("cancelled");
    expect(await core.payments.status(world.idOf(cancelled))).to.include({ status: "failed", reason: "cancelled" });
    expect(await transfersOf((payers[0] as Payer).address)).to.deep.equal([]);
  });

  it("B2 S3 the same nonce to two payees: the one that lands is proved, the other failed; never both", async () => {
    const payer = await world.payer();
    const ref = randomRef();
    const [ours, theirs] = [
      await world.signPayment({ payer, ref }),
      await world.signPayment({ payer, ref, payTo: world.contracts.turnpike as Hex }),
    ];
    expect(world.idOf(ours)).to.equal(world.idOf(theirs));
    await underWay([ours]);
    const conflict = await core.payments.authorize(theirs, { waitMs: 0 });
    expect(conflict.kind === "refused" && conflict.error.code).to.equal("PayloadConflict");
    const transaction = await submitDearly([theirs]);
    await mining(true);
    expect(await failure(ours)).to.equal("nonce_spent_elsewhere");
    expect((await settled(theirs)).transaction).to.equal(transaction);
    expect(await failure(ours), "still").to.equal("refused");
    expect(await transfersOf(payer.address)).to.deep.equal([]);
    expect(await world.contracts.balanceOf(payer.address)).to.equal(750_000n);
  });

  it("B4 a stranger sends our whole batch before us: one transfer each, all proved by the stranger's transaction", async () => {
    const payers = await Promise.all(Array.from({ length: 12 }, () => world.payer()));
    const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
    await underWay(signed);
    const transaction = await submitDearly(signed);
    await mining(true);
    const proofs = await Promise.all(signed.map(settled));
    expect(new Set(proofs.map((proof) => proof.transaction))).to.deep.equal(new Set([transaction]));
    for (const { address } of payers) expect(await transfersOf(address)).to.have.length(1);
    const states = await core.store.db
      .selectFrom("payments")
      .select("state")
      .where("tx_hash", "=", bytes(transaction))
      .execute();
    expect(states).to.have.length(12);
  });

  it("B4 transfers that were on chain before, asked for all at once while blocks are written: each is adopted once", async () => {
    const payers = await Promise.all(Array.from({ length: 20 }, () => world.payer()));
    const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
    const transaction = await submitDearly(signed);
    await until(
      async () => world.chain.provider.getTransactionReceipt(transaction).then((found) => found !== null),
      "mined",
    );
    // Others settle meanwhile: the writer of blocks and the adopting requests meet in the same rows.
    const busy = Array.from({ length: 10 }, async () => settled(await world.signPayment()));
    const proofs = await Promise.all(signed.map(settled));
    await Promise.all(busy);
    expect(new Set(proofs.map((proof) => proof.transaction))).to.deep.equal(new Set([transaction]));
    const ids = signed.map((one) => world.idOf(one));
    const events = await core.store.db.selectFrom("events").select("type").where("object_id", "in", ids).execute();
    expect(events.filter(({ type }) => type === "payment.settled")).to.have.length(20);
  });

  it("S3 the database lost and the window over: the same request still gets the same proof", async () => {
    const signed = await world.signPayment({ validForSec: 120 });
    const proof = await settled(signed);
    await core.stop();
    await world.loseDatabase();
    await world.chain.advance(600);
    core = await world.core({ FINALITY_DEPTH: "4", ADOPT_NONCE: "true" });
    expect(proofToWire(await settled(signed))).to.deep.equal(proofToWire(proof));
    const never = await world.signPayment({ validForSec: -60 });
    const refused = await core.payments.authorize(never);
    expect(refused.kind === "refused" && refused.error.code, "what moved nothing").to.equal("PaymentExpired");
  });

  const settler = new Interface([
    "function settle((address token, address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)[] transfers, uint256 gasPerItem)",
  ]);

  async function submitDearly(signed: readonly SignedPayment[]): Promise<string> {
    const items = signed.map(({ token, authorization, signature }) => ({ token, ...authorization, signature }));
    const stranger = await world.chain.wallet("stranger");
    const sent = await stranger.sendTransaction({
      to: world.contracts.batchSettler,
      data: settler.encodeFunctionData("settle", [items, 120_000n]),
      gasLimit: 200_000n + 150_000n * BigInt(items.length),
      ...DEAR,
    });
    return sent.hash;
  }

  /** Mined before whatever of ours is in the pool. */
  async function cancelDearly(payer: Payer, nonce: string): Promise<void> {
    const { tokenName: name, tokenVersion: version, token: verifyingContract } = world.contracts;
    const wallet = walletOf(world.chain, payer.key);
    const signature = await wallet.signTypedData(
      { name, version, chainId: world.chain.chainId, verifyingContract },
      {
        CancelAuthorization: [
          { name: "authorizer", type: "address" },
          { name: "nonce", type: "bytes32" },
        ],
      },
      { authorizer: payer.address, nonce },
    );
    const stranger = world.token.connect(await world.chain.wallet("stranger")) as typeof world.token;
    await stranger.getFunction("cancelAuthorization")(payer.address, nonce, signature, { gasLimit: 150_000n, ...DEAR });
  }
});
