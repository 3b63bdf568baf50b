import { expect } from "chai";
import { Contract } from "ethers";
import { turnpikeInterface } from "turnpike/chain";
import { type Address, addressOfKey, type Hex, type RefundTarget, refundedIdOf } from "turnpike/protocol";
import { refundFromEnvironment } from "../../../examples/refund";
import { testKey } from "../../support/chain";
import type { Payer } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { refundToWire, signRefund } from "../support/refunds";
import { PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";

describe("refunds of charges and debits", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let payee: Payer;
  let provider: Payer;
  let subscriber: Payer;
  let idHash: Hex;
  let charge: RefundTarget;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service();
    payee = { key: testKey("payee") as Hex, address: addressOfKey(testKey("payee") as Hex) };
    provider = { key: world.provider.privateKey as Hex, address: world.provider.address as Address };
    subscriber = await world.payer(100_000_000n);
    const signup = await world.signup(subscriber, { permit: 50_000_000n, maxOverage: 2_000_000n });
    const made = await service.client.subscribe(signup.request);
    if (made.kind !== "done") expect.fail(made.kind);
    ({ idHash } = signup);
    const { version, paidThrough } = made.change;
    charge = { type: "charge", idHash, version, paidThrough };
  });
  after(() => world?.stop());

  const refund = async (
    account: Payer,
    fields: { readonly amount: bigint; readonly index: number; readonly target?: RefundTarget },
  ) => {
    const signed = await signRefund(world, { account, to: subscriber.address, target: charge, ...fields });
    const outcome = await service.client.refund(refundToWire(signed));
    if (outcome.kind === "refused") return outcome.error.code;
    return outcome.kind;
  };

  const ask = async (path: string, wallet?: Payer) => {
    const key = await service.apiKey(wallet && { wallet });
    const answer = await fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
    return answer.headers.get("content-type")?.startsWith("application/json") ? answer.json() : answer.text();
  };

  it("gives a part of a period's charge back, from the payee or from the provider, and cancels nothing", async () => {
    const before = await world.balanceOf(subscriber.address);
    await world.contracts.mint(provider.address, PRICE);
    expect(await refund(payee, { amount: 4_000_000n, index: 0 })).to.equal("settled");
    expect(await refund(provider, { amount: 5_000_000n, index: 1 })).to.equal("settled");
    expect(await refund(payee, { amount: 1_000_001n, index: 2 })).to.equal("RefundExceedsPayment");
    expect((await world.balanceOf(subscriber.address)) - before).to.equal(9_000_000n);
    const found = await service.client.subscription(idHash);
    expect(found.kind === "found" && found.value.status).to.equal("ACTIVE");
    const events = await service.client.events({ type: "refund.settled" });
    const shown = events.kind === "found" ? events.value.events.map(({ data }) => [data.kind, data.refunded]) : [];
    expect(shown).to.deep.equal([
      ["charge", "4000000"],
      ["charge", "9000000"],
    ]);
    const chargeId = refundedIdOf({ chainId: world.chain.chainId, turnpike: world.contracts.turnpike }, charge);
    const listed = await service.client.refunds(chargeId);
    const facts = listed.kind === "found" ? listed.value.refunds.map(({ account, amount }) => [account, amount]) : [];
    expect(facts).to.deep.equal([
      [payee.address, 4_000_000n],
      [provider.address, 5_000_000n],
    ]);
    const { charges } = await ask(`/analytics/charges?payer=${subscriber.address}`);
    expect(charges).to.have.length(1);
    expect(charges[0]).to.deep.include({ amount: "10000000", refunded: "9000000", target: charge });
  });

  it("T43 a stranger refunds no charge, and no charge of another version or end is known", async () => {
    const stranger = await world.payer();
    expect(await refund(stranger, { amount: 100_000n, index: 3 })).to.equal("PaymentNotAllowed");
    for (const other of [{ version: 1 }, { paidThrough: 1 }]) {
      const target = { ...charge, ...other } as RefundTarget;
      expect(await refund(payee, { amount: 100_000n, index: 3, target })).to.equal("UnknownObject");
    }
  });

  it("T46 a debit is refunded up to its amount by who was its provider and who is now, also under its own index", async () => {
    const turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.provider);
    await (await turnpike.getFunction("debit")(idHash, 700_000n, 0)).wait();
    const next = await world.chain.wallet("next provider");
    await (await turnpike.getFunction("offerPlan")(world.planId, next.address)).wait();
    await (await (turnpike.connect(next) as Contract).getFunction("acceptPlan")(world.planId)).wait();
    const nextPayer: Payer = { key: next.privateKey as Hex, address: next.address as Address };
    await world.contracts.mint(nextPayer.address, PRICE);
    const target: RefundTarget = { type: "debit", idHash, index: 0 };
    expect(await refund(nextPayer, { amount: 100_000n, index: 0, target })).to.equal("settled");
    expect(await refund(provider, { amount: 200_000n, index: 0, target }), "of another account").to.equal(
      "PayloadConflict",
    );
    expect(await refund(provider, { amount: 200_000n, index: 1, target })).to.equal("settled");
    expect(await refund(payee, { amount: 400_001n, index: 2, target })).to.equal("RefundExceedsPayment");
    expect(await refund(payee, { amount: 400_000n, index: 3, target })).to.equal("settled");
  });

  it("T41 a provider refunds a payment by the example's command, once however often it is run", async () => {
    const signed = await world.signPayment();
    expect((await service.client.authorize(paymentToWire(signed))).kind).to.equal("settled");
    const env = {
      FACILITATOR_URL: service.url,
      CHAIN_ID: String(world.chain.chainId),
      TURNPIKE: world.contracts.turnpike,
      TOKEN: world.contracts.token,
      PAYMENT_ID: world.idOf(signed),
      PAYER: signed.authorization.from,
      AMOUNT: "250000",
      PAYEE_KEY: payee.key,
    };
    const first = await refundFromEnvironment(env);
    expect(first).to.match(/^refunded in transaction 0x[0-9a-f]{64}$/);
    expect(await refundFromEnvironment(env)).to.equal(first);
    expect(await world.balanceOf(signed.authorization.from)).to.equal(1_000_000n);
    const status = await service.client.payment(world.idOf(signed));
    expect(status.kind === "found" && status.value.refunded).to.equal(250_000n);
    const more = { ...env, INDEX: "1", AMOUNT: "100000" };
    const tooMuch = await refundFromEnvironment(more).catch((error: unknown) => error);
    expect(tooMuch).to.have.property("code", "RefundExceedsPayment");
  });

  it("shows refunds beside what they refund, and volume net of them", async () => {
    const overview = await ask("/analytics/overview?days=7");
    expect([overview.volume.amount, overview.refunds, overview.net]).to.deep.equal([
      "10700000",
      { count: 2, amount: "9000000" },
      "1700000",
    ]);
    const { payments } = await ask("/analytics/payments", payee);
    expect(payments.map((payment: Record<string, unknown>) => [payment.amount, payment.refunded])).to.deep.equal([
      ["250000", "250000"],
    ]);
    const csv: string = await ask("/analytics/payments.csv", payee);
    expect(csv.split("\n")[0]).to.contain("refunded");
    expect(await ask("/analytics/payments", { ...subscriber }), "a refund is no payment to its payer").to.deep.equal({
      payments: [],
    });
  });
});
