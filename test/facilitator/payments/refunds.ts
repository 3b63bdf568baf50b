import { expect } from "chai";
import { type Address, addressOfKey, type Hex, type SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { dumpText } from "../../../facilitator/src/cli/maintenance/dump";
import { newestBlock } from "../../../facilitator/src/indexer/applied-blocks";
import type { ExactRequest, RefundOutcome, RefundRequest } from "../../../facilitator/src/payments";
import { purchaseOfServer } from "../../../facilitator/src/payments";
import { testKey } from "../../support/chain";
import {
  BLOCK_MS,
  type FacilitatorWorld,
  fund,
  type Payer,
  RESOURCE,
  startWorld,
  until,
  walletOf,
} from "../../support/facilitator";
import { blockWriterOf } from "../support/block-writer";
import { type RefundFields, signRefund } from "../support/refunds";

const PAID = 250_000n;

describe("refunds of payments", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let payee: Payer;

  before(async () => {
    world = await startWorld();
    core = await world.core();
    const key = testKey("payee") as Hex;
    payee = { key, address: addressOfKey(key) };
  });
  after(() => world.stop());

  async function paid(): Promise<{ signed: SignedPayment; payer: Address; paymentId: Hex }> {
    const signed = await world.signPayment();
    const outcome = await core.payments.authorize(signed);
    expect(outcome.kind).to.equal("settled");
    return { signed, payer: signed.authorization.from, paymentId: world.idOf(signed) };
  }
  const refundOf = (
    { paymentId, payer }: { readonly paymentId: Hex; readonly payer: Address },
    fields: Partial<RefundFields> = {},
  ): Promise<RefundRequest> =>
    signRefund(world, { account: payee, to: payer, amount: PAID, target: { type: "payment", paymentId }, ...fields });
  const received = async (payer: Address): Promise<bigint[]> =>
    (await world.transfers(payer)).filter(({ from }) => from === payee.address).map(({ value }) => value);
  const codeOf = (outcome: RefundOutcome): string =>
    outcome.kind === "refused" || outcome.kind === "failed" ? outcome.error.code : outcome.kind;
  const eventsOf = (subject: Hex) =>
    core.store.db.selectFrom("events").selectAll().where("object_id", "=", subject).orderBy("sequence").execute();

  it("gives parts of a payment back, and lists them", async () => {
    const payment = await paid();
    const first = await core.payments.refund(await refundOf(payment, { amount: 100_000n }));
    const second = await core.payments.refund(await refundOf(payment, { amount: 150_000n, index: 1 }));
    if (first.kind !== "settled" || second.kind !== "settled") expect.fail(`${codeOf(first)} ${codeOf(second)}`);
    expect(await received(payment.payer)).to.deep.equal([100_000n, 150_000n]);
    expect((await core.payments.status(payment.paymentId)).refunds).to.deep.equal([
      { index: 0, account: payee.address, amount: 100_000n, transaction: first.transaction },
      { index: 1, account: payee.address, amount: 150_000n, transaction: second.transaction },
    ]);
    const [event] = await eventsOf(second.refundId);
    expect(event).to.include({ type: "refund.settled", provider: payee.address, payer: payment.payer });
    expect(event?.payload).to.include({
      refundedId: payment.paymentId,
      index: 1,
      amount: "150000",
      refunded: "250000",
      paid: "250000",
      status: "settled",
    });
  });

  it("T41 the same refund 20 times at once, and again later, is one transfer", async () => {
    const payment = await paid();
    const refund = await refundOf(payment, { amount: 100_000n });
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => core.payments.refund(refund)));
    outcomes.push(
      await core.payments.refund(refund),
      await core.payments.refund(await refundOf(payment, { amount: 100_000n })),
    );
    expect([...new Set(outcomes.map(codeOf))]).to.deep.equal(["settled"]);
    expect(await received(payment.payer)).to.deep.equal([100_000n]);
    const other = await core.payments.refund(await refundOf(payment, { amount: 99_999n }));
    expect(codeOf(other), "another amount under its index").to.equal("PayloadConflict");
  });

  it("T42 refunds at once never exceed what was paid", async () => {
    const payment = await paid();
    const refunds = await Promise.all(
      Array.from({ length: 6 }, (_, index) => refundOf(payment, { amount: 60_000n, index })),
    );
    const outcomes = await Promise.all(refunds.map((refund) => core.payments.refund(refund)));
    expect(outcomes.map(codeOf).sort()).to.deep.equal([
      ...Array.from({ length: 2 }, () => "RefundExceedsPayment"),
      ...Array.from({ length: 4 }, () => "settled"),
    ]);
    expect(await received(payment.payer)).to.deep.equal([60_000n, 60_000n, 60_000n, 60_000n]);
    const rest = await core.payments.refund(await refundOf(payment, { amount: 10_001n, index: 9 }));
    if (rest.kind !== "refused") expect.fail(rest.kind);
    expect(rest.error.details).to.deep.equal({ paid: "250000", refundable: "10000" });
  });

  it("T43 nobody but the payee refunds, nobody but the payer is refunded, and nothing unknown", async () => {
    const payment = await paid();
    const stranger = await world.payer();
    const unknown: Hex = `0x${"9".repeat(64)}`;
    const byOther = {
      ...(await refundOf(payment)),
      signature: (await refundOf(payment, { account: stranger })).signature,
    };
    for (const [refund, code] of [
      [await refundOf(payment, { account: stranger }), "PaymentNotAllowed"],
      [await refundOf(payment, { to: stranger.address }), "PaymentNotAllowed"],
      [await refundOf(payment, { target: { type: "payment", paymentId: unknown } }), "UnknownObject"],
      [await refundOf(payment, { target: { type: "debit", idHash: unknown, index: 0 } }), "UnknownObject"],
      [{ ...(await refundOf(payment)), index: 1 }, "InvalidRequest"],
      [byOther, "InvalidSignature"],
    ] as const) {
      expect(codeOf(await core.payments.refund(refund))).to.equal(code);
    }
    expect(await received(payment.payer)).to.deep.equal([]);
    const refund = await refundOf(payment);
    const done = await core.payments.refund(refund);
    if (done.kind !== "settled") expect.fail(codeOf(done));
    const backFields = { target: { type: "payment", paymentId: done.refundId } as const, to: payee.address };
    const payer = { ...stranger, address: payment.payer };
    expect(codeOf(await core.payments.refund(await refundOf(payment, { ...backFields, account: payer })))).to.equal(
      "UnknownObject",
    );
  });

  it("T43 a refund that has expired is signed again for the payer alone", async () => {
    const payment = await paid();
    const stranger = await world.payer();
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    const late = await core.payments.refund(await refundOf(payment, { validForSec: 30 }), { waitMs: 0 });
    expect(codeOf(late)).to.equal("pending");
    const stored = core.store.db.selectFrom("payments").select("payment_id").where("pay_to", "=", payment.payer);
    await until(async () => (await stored.execute()).length > 0, "the refund is stored");
    await world.chain.advance(60);
    await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    const isOver = async (): Promise<boolean> => {
      const failed = core.store.db.selectFrom("payments").select("payment_id").where("fail_reason", "=", "expired");
      return (await failed.where("pay_to", "=", payment.payer).executeTakeFirst()) !== undefined;
    };
    await until(isOver, "the refund has failed");

    const elsewhere = await core.payments.refund(await refundOf(payment, { to: stranger.address }));
    expect(codeOf(elsewhere)).to.equal("PaymentNotAllowed");
    expect(await received(stranger.address)).to.deep.equal([]);
    expect((await core.payments.status(payment.paymentId)).refunds).to.equal(undefined);

    expect(codeOf(await core.payments.refund(await refundOf(payment)))).to.equal("settled");
    expect(await received(payment.payer)).to.deep.equal([PAID]);
  });

  it("T44 a refund buys nothing, and a payment refunds nothing", async () => {
    const payment = await paid();
    const refund = await refundOf(payment, { amount: 100_000n });
    const asExact: ExactRequest = {
      network: refund.network,
      token: refund.token,
      payTo: payment.payer,
      amount: 100_000n,
      resource: RESOURCE,
      maxTimeoutSec: 20,
      purchase: purchaseOfServer(),
      authorization: refund.authorization,
      signature: refund.signature,
    };
    const done = core.payments.refund(refund);
    await until(async () => (await eventsOf(world.idOf(asExact))).length > 0, "it is settled");
    for (const outcome of [await core.payments.verifyExact(asExact), await core.payments.settleExact(asExact)]) {
      expect(outcome.kind).to.be.oneOf(["invalid", "refused"]);
      expect(outcome).to.have.nested.property("error.code", "PayloadConflict");
    }
    expect((await done).kind).to.equal("settled");
    const asNative = await core.payments.authorize({ ...payment.signed, ...refund, memo: payment.signed.memo });
    if (asNative.kind !== "refused") expect.fail(asNative.kind);
    expect(asNative.error).to.include({ code: "InvalidRequest", reason: "nonce" });
    expect(await core.payments.status(world.idOf(asExact))).to.deep.equal({ status: "unknown" });

    const exact = await world.signExact({ payer: payee, payTo: payment.payer, amount: 100_000n });
    const { authorization, signature } = exact;
    expect(codeOf(await core.payments.refund({ ...refund, index: 1, authorization, signature }))).to.equal(
      "InvalidRequest",
    );
    const settled = await core.payments.settleExact({
      ...asExact,
      ...(await refundOf(payment, { index: 2, amount: 50_000n })),
      amount: 50_000n,
    });
    expect(settled.kind, "an authorization that was a purchase first").to.equal("settled");
  });

  const asExactOf = (refund: RefundRequest): ExactRequest => ({
    ...{ network: refund.network, token: refund.token, resource: RESOURCE, maxTimeoutSec: 20 },
    ...{ payTo: refund.authorization.to, amount: refund.authorization.value, purchase: purchaseOfServer() },
    ...{ authorization: refund.authorization, signature: refund.signature },
  });

  it("T44 adopts a refund that was settled as a payment, once and within what was paid", async () => {
    const payment = await paid();
    const refund = await refundOf(payment, { amount: 200_000n });
    expect((await core.payments.settleExact(asExactOf(refund))).kind).to.equal("settled");
    const outcomes = [await core.payments.refund(refund), await core.payments.refund(refund)];
    expect(outcomes.map(codeOf)).to.deep.equal(["settled", "settled"]);
    const other = await refundOf(payment, { amount: 199_999n });
    expect(codeOf(await core.payments.refund(other)), "another amount under its index").to.equal("PayloadConflict");
    const [listed] = (await core.payments.status(payment.paymentId)).refunds ?? [];
    expect(listed).to.include({ index: 0, account: payee.address, amount: 200_000n });
    const more = await refundOf(payment, { amount: 50_001n, index: 1 });
    expect(codeOf(await core.payments.refund(more))).to.equal("RefundExceedsPayment");
    expect(await received(payment.payer)).to.deep.equal([200_000n]);
  });

  it("T44 a refund whose authorization expired as a payment is signed again", async () => {
    const payment = await paid();
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    const asPayment = core.payments.settleExact(asExactOf(await refundOf(payment, { validForSec: 30 })), { waitMs: 0 });
    expect((await asPayment).kind).to.equal("pending");
    const stored = core.store.db.selectFrom("payments").select("payment_id").where("pay_to", "=", payment.payer);
    await until(async () => (await stored.execute()).length > 0, "it is stored");
    await world.chain.advance(60);
    await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    const failed = stored.where("fail_reason", "=", "expired");
    await until(async () => (await failed.executeTakeFirst()) !== undefined, "it has failed");
    expect(codeOf(await core.payments.refund(await refundOf(payment)))).to.equal("settled");
    expect(await received(payment.payer)).to.deep.equal([PAID]);
  });

  it("B4 T45 a refund that its account submitted itself is found on the chain, also when the database is lost", async () => {
    const payment = await paid();
    const refund = await refundOf(payment);
    await fund(world.chain, payee.address);
    const { from, to, value, validAfter, validBefore, nonce } = refund.authorization;
    const token = world.token.connect(walletOf(world.chain, payee.key)) as typeof world.token;
    const sent = await token.getFunction("transferWithAuthorization")(
      ...[from, to, value, validAfter, validBefore, nonce, refund.signature],
    );
    await sent.wait();
    const found = await core.payments.refund(refund);
    expect(found).to.include({ kind: "settled", transaction: sent.hash });
    expect(await received(payment.payer)).to.have.length(1);

    await core.stop();
    await world.loseDatabase();
    core = await world.core();
    expect(codeOf(await core.payments.refund(refund)), "the payment is not known yet").to.equal("UnknownObject");
    await core.payments.authorize(payment.signed);
    expect(await core.payments.refund(refund)).to.include({ kind: "settled", transaction: sent.hash });
    expect(codeOf(await core.payments.refund(await refundOf(payment, { index: 1 })))).to.equal("RefundExceedsPayment");
  });

  it("B8 T45 a refund is reversed with its block, and settled again with it", async () => {
    const { chainId } = world.chain;
    const payment = await paid();
    const refund = await refundOf(payment, { amount: 100_000n });
    const done = await core.payments.refund(refund);
    if (done.kind !== "settled") expect.fail(codeOf(done));
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    await core.indexer.catchUp();
    const before = await dumpText(core.store.db, chainId);
    await core.indexer.stop();
    const writer = blockWriterOf(core.store, chainId);
    for (;;) {
      const newest = await newestBlock(core.store.db, chainId);
      if (!newest || newest.number < done.blockNumber) break;
      expect((await writer.revertNewest(newest.hash)).kind).to.equal("reverted");
    }
    expect((await core.payments.status(payment.paymentId)).refunds).to.equal(undefined);
    expect(codeOf(await core.payments.refund(refund, { waitMs: 0 }))).to.equal("pending");
    await core.stop();
    core = await world.core();
    await core.indexer.catchUp();
    expect((await core.payments.status(payment.paymentId)).refunds).to.have.length(1);
    const types = (await eventsOf(done.refundId)).map(({ type }) => type);
    expect(types).to.deep.equal(["refund.settled", "refund.reversed", "refund.restored"]);
    expect(await dumpText(core.store.db, chainId)).to.equal(before);

    await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
  });
});
