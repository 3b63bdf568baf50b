import { expect } from "chai";
import { AbiCoder, id } from "ethers";
import pino from "pino";
import { turnpikeInterface } from "turnpike/chain";
import type { Hex, PaymentProof, SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import { dumpText } from "../../../facilitator/src/cli/maintenance/dump";
import { reconcile } from "../../../facilitator/src/cli/maintenance/reconcile";
import { reindex } from "../../../facilitator/src/cli/maintenance/reindex";
import type { Store } from "../../../facilitator/src/db/open";
import { bytes } from "../../../facilitator/src/db/sql";
import { noProgress } from "../../../facilitator/src/lib/progress";
import type { RefundRequest } from "../../../facilitator/src/payments";
import type { FundedWallet } from "../../../scripts/sandbox/chain";
import { ownArgs } from "../../support/acts";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, type Payer, startWorld, until } from "../../support/facilitator";
import { signRefund } from "../support/refunds";

const log = pino({ level: "silent" });

describe("Facilitator: rebuilt from the chain", function () {
  this.timeout(240_000);
  let world: FacilitatorWorld;
  let live: Core;
  let lived: string;
  const refunds: RefundRequest[] = [];
  const paid: { signed: SignedPayment; proof: PaymentProof }[] = [];
  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);

  before(async () => {
    world = await startWorld();
    live = await world.core({ BUMP_AFTER_MS: "500" });
    await live.indexer.catchUp();
    await liveThroughMuch();
    await live.indexer.catchUp();
    lived = await dumpText(live.store.db, world.chain.chainId);
  });
  after(() => world.stop());

  async function pay(payer?: Payer): Promise<SignedPayment> {
    const signed = await world.signPayment({ validForSec: 3_600, ...(payer && { payer }) });
    paid.push({ signed, proof: await settled(signed) });
    return signed;
  }

  async function refund(signed: SignedPayment): Promise<void> {
    const account = { key: testKey("payee") as Hex, address: world.payee };
    const target = { type: "payment", paymentId: world.idOf(signed) } as const;
    const { from: to } = signed.authorization;
    refunds.push(await signRefund(world, { account, to, amount: 100_000n, target, validForSec: 3_600 }));
    expect((await live.payments.refund(refunds[0] as RefundRequest)).kind).to.equal("settled");
  }

  /** Asked again as long as it cannot be known: while the chain is being rewritten. */
  async function settled(signed: SignedPayment): Promise<PaymentProof> {
    return until(async () => {
      const outcome = await live.payments.authorize(signed);
      return outcome.kind === "settled" && outcome.proof;
    }, "it is settled");
  }

  /** One call to Turnpike, mined. @returns the first word it answers with */
  async function act(wallet: FundedWallet, method: string, args: unknown[]): Promise<Hex> {
    const call = {
      to: world.contracts.turnpike,
      data: turnpikeInterface.encodeFunctionData(method, ownArgs(wallet.address, method, args)),
    };
    const answer = await wallet.call(call);
    expect((await (await wallet.sendTransaction({ ...call, gasLimit: 1_000_000n })).wait())?.status).to.equal(1);
    return answer === "0x" ? "0x" : (AbiCoder.defaultAbiCoder().decode(["bytes32"], answer)[0] as Hex);
  }

  /** Subscriptions, a reorganisation of all kinds of rows, a fee bump and a settlement by a stranger. */
  async function liveThroughMuch(): Promise<void> {
    const provider = await world.chain.wallet("provider");
    const subscriber = await world.chain.wallet("subscriber");
    await world.contracts.mint(subscriber.address, 10n ** 9n);
    const token = world.token.connect(subscriber) as typeof world.token;
    await (await token.getFunction("approve")(world.contracts.turnpike, 10n ** 9n)).wait();
    const terms = {
      token: world.contracts.token,
      amount: 1_000n,
      interval: 3_600,
      months: false,
      grace: 60,
      payTo: world.payee,
    };
    const planId = await act(provider, "createPlan", [terms, id("salt"), "{}"]);
    const kept = await act(subscriber, "subscribe", [planId, id("kept"), 500n]);
    await act(provider, "debit", [kept, 450n, 0]);
    await act(subscriber, "pause", [kept]);
    await refund(await pay());

    // Funded before: the funds are not what is reorganised away.
    const payer = await world.payer();
    const snapshot = await rpc("evm_snapshot");
    await act(subscriber, "subscribe", [planId, id("lost"), 0n]);
    await act(subscriber, "resume", [kept, 0n]);
    const reorganised = await pay(payer);
    await live.indexer.catchUp();
    await rpc("evm_setIntervalMining", [0]);
    const height = await world.chain.provider.getBlockNumber();
    await rpc("evm_revert", [snapshot]);
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    while ((await world.chain.provider.getBlockNumber()) <= height) await rpc("evm_mine");
    const reversed = live.store.db.selectFrom("events").select("id").where("type", "=", "payment.reversed");
    await until(async () => (await reversed.execute()).length === 1, "the payment is reversed");
    await rpc("evm_setIntervalMining", [100]);
    paid.pop();
    paid.push({ signed: reorganised, proof: await settled(reorganised) });

    const stuck = await world.signPayment({ validForSec: 3_600 });
    await rpc("evm_setIntervalMining", [0]);
    const bumped = settled(stuck);
    await until(async () => live.relayer.health().lanes[0]?.inFlight === 1, "it is sent");
    // Blocks that are too dear for it, and for its replacement.
    await until(async () => {
      await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x2e90edd000"]);
      await rpc("evm_mine");
      return (await forms()) > 1;
    }, "the fee is raised");
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    await rpc("evm_setIntervalMining", [100]);
    paid.push({ signed: stuck, proof: await bumped });

    const foreign = await world.signPayment();
    const { from, to, value, validAfter, validBefore, nonce } = foreign.authorization;
    const stranger = world.token.connect(await world.chain.wallet("stranger")) as typeof world.token;
    const submit = stranger.getFunction(
      "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
    );
    await (await submit(from, to, value, validAfter, validBefore, nonce, foreign.signature)).wait();
    paid.push({ signed: foreign, proof: await settled(foreign) });
    await act(subscriber, "resume", [kept, 0n]);
  }

  /** signed forms of the newest transaction */
  async function forms(): Promise<number> {
    const { db } = live.store;
    const newest = await db.selectFrom("transactions").select("id").orderBy("seq", "desc").limit(1).executeTakeFirst();
    const rows = await db
      .selectFrom("transaction_hashes")
      .select("hash")
      .where("transaction_id", "=", newest?.id ?? "")
      .execute();
    return rows.length;
  }

  const differencesOf = async (core: Pick<Core, "store">, chain = live.relayer.chain): Promise<string[]> => {
    const found: string[] = [];
    const job = { config: world.config(), store: core.store, chain, log, progress: noProgress };
    for await (const wrong of reconcile(job)) found.push(wrong);
    return found;
  };

  /** The clock reported a failure, of which there is no log. @returns what is kept of it */
  async function fails(store: Store) {
    const { chainId } = world.chain;
    const row = await store.db.selectFrom("subscriptions").selectAll().executeTakeFirstOrThrow();
    const payload = { token: world.contracts.token, price: "1000", paidThrough: row.paid_through, attempt: 1 };
    await store.transaction((tx) =>
      createEventFeed(chainId).append(tx, [
        {
          id: "failure",
          chainId,
          type: "subscription.renewal_failed",
          objectId: row.id_hash,
          provider: world.payee,
          payer: row.subscriber,
          payload,
          blockTime: row.paid_through,
        },
      ]),
    );
    const kept = await store.db.selectFrom("failed_periods").selectAll().execute();
    expect(kept.map(({ outcome }) => outcome)).to.deep.equal(["open"]);
    return kept;
  }

  it("what it lived through is in it: payments, reversals, a subscription, its debit", () => {
    expect(lived).to.match(/^plans .*\n(.*\n)*subscriptions /);
    expect(lived.split("\n").filter((line) => line.startsWith("payments "))).to.have.length(5);
    expect(lived).to.contain("refund.settled").and.to.contain("payment.settled").and.to.contain("subscription.resumed");
    expect(lived).not.to.contain("payment.reversed");
  });

  it("reconcile finds no difference, and names each one that there is", async () => {
    expect(await differencesOf(live)).to.deep.equal([]);
    const { db } = live.store;
    const [subscription] = await db.selectFrom("subscriptions").selectAll().execute();
    const [payment] = await db.selectFrom("payments").selectAll().where("state", "=", "settled").execute();
    await db.updateTable("subscriptions").set({ paid_through: 1 }).execute();
    await db
      .updateTable("payments")
      .set({ tx_hash: bytes(`0x${"00".repeat(32)}`) })
      .where("payment_id", "=", payment?.payment_id ?? "")
      .execute();
    await db.updateTable("rollup_totals").set({ count: 77 }).execute();
    await db
      .updateTable("plans")
      .set({ first_pay_to: live.relayer.addresses[0] ?? "", stopped_at: 1 })
      .execute();
    const found = (await differencesOf(live)).join("\n");
    expect(found).to.contain(`subscriptions ${subscription?.id_hash}`).and.to.contain("in the contract");
    expect(found).to.contain(`payments ${payment?.payment_id}: settled here by 0x0000`);
    expect(found).to.contain("rollup_totals");
    expect(found).to.match(/plans 0x[0-9a-f]{64}: 0x.* false true 0x0+ here, 0x.* false false 0x0+ in the contract/);
    await db.updateTable("plans").set({ first_pay_to: null, stopped_at: null }).execute();
    await db
      .updateTable("subscriptions")
      .set({ paid_through: subscription?.paid_through ?? 0 })
      .execute();
    await db
      .updateTable("payments")
      .set({ tx_hash: bytes(payment?.tx_hash ?? "") })
      .where("payment_id", "=", payment?.payment_id ?? "")
      .execute();
  });

  it("S8 T45 an empty database reads the same bytes, with the same event ids, and gives the same proofs", async () => {
    await live.stop();
    await world.loseDatabase();
    const fresh = await world.core({ ADOPT_NONCE: "true" });
    for (const { signed, proof } of paid) {
      const outcome = await fresh.payments.authorize(signed);
      expect(outcome).to.deep.include({ kind: "settled", proof });
    }
    for (const one of refunds) expect((await fresh.payments.refund(one)).kind).to.equal("settled");
    expect(await dumpText(fresh.store.db, world.chain.chainId)).to.equal(lived);
    expect(await differencesOf(fresh, fresh.relayer.chain)).to.deep.equal([]);
    const failures = await fails(fresh.store);
    const before = await fresh.store.db.selectFrom("events").select(["id", "seq", "sequence"]).orderBy("seq").execute();

    // What only this database knows stays: the numbers that readers of the feed have seen.
    const job = { config: world.config(), store: fresh.store, chain: fresh.relayer.chain, log, progress: noProgress };
    await fresh.indexer.stop();
    const refused = await reindex({ ...job, isWiped: false }).catch((error: Error) => error.message);
    expect(refused).to.match(/read the chain already/);
    await fresh.store.db.updateTable("rollup_totals").set({ count: 77 }).execute();
    await fresh.store.db.updateTable("failed_periods").set({ outcome: "gone" }).execute();
    await reindex({ ...job, isWiped: true });
    expect(await dumpText(fresh.store.db, world.chain.chainId)).to.equal(lived);
    const after = await fresh.store.db.selectFrom("events").select(["id", "seq", "sequence"]).orderBy("seq").execute();
    expect(after).to.deep.equal(before);
    expect(await fresh.store.db.selectFrom("failed_periods").selectAll().execute()).to.deep.equal(failures);
    expect(await differencesOf(fresh, fresh.relayer.chain)).to.deep.equal([]);
  });
});
