import { expect } from "chai";
import { Contract } from "ethers";
import { turnpikeInterface } from "turnpike/chain";
import { type Address, addressOfKey, type Hex, type RefundTarget, refundedIdOf } from "turnpike/protocol";
import { refundFromEnvironment } from "../../../examples/refund";
import { testKey } from "../../support/chain";
import { type Payer, until } from "../../support/facilitator";
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
  let nextProvider: Payer;

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
    for (const by of [world.provider, await world.chain.wallet("payee")]) {
      await (
        await (turnpike.connect(by) as Contract).getFunction("proposePayTo")(world.planId, provider.address)
      ).wait();
    }
    await (await turnpike.getFunction("offerPlan")(world.planId, next.address)).wait();
    await (await (turnpike.connect(next) as Contract).getFunction("acceptPlan")(world.planId)).wait();
    await until(async () => {
      const plan = await service.client.plan(world.planId);
      return plan.kind === "found" && plan.value.provider === next.address;
    }, "the plan's provider is read");
    nextProvider = { key: next.privateKey as Hex, address: next.address as Address };
    await world.contracts.mint(nextProvider.address, PRICE);
    const target: RefundTarget = { type: "debit", idHash, index: 0 };
    expect(await refund(nextProvider, { amount: 100_000n, index: 0, target })).to.equal("settled");
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

  it("T52 nets each plan and payer of what the chain moved back, for each provider of a plan that was passed on", async () => {
    type Row = Record<string, string> & { readonly refunds: { readonly amount: string } };
    const net = ({ amount, refunds, net: left }: Row) => [amount, refunds.amount, left];
    const figures = async (wallet?: Payer) => {
      const { plans }: { plans: Row[] } = await ask("/analytics/plans?days=7", wallet);
      const { payers }: { payers: Row[] } = await ask("/analytics/payers", wallet);
      expect(plans.map(({ planId }) => planId)).to.deep.equal(plans.length > 0 ? [world.planId] : []);
      return { plans: plans.map((row) => [row.transferredTo, row.active, ...net(row)]), payers: payers.map(net) };
    };
    const former = await figures();
    expect(former.plans).to.deep.equal([[nextProvider.address, 0, "10700000", "9000000", "1700000"]]);
    expect(former.payers).to.deep.equal([["10700000", "9000000", "1700000"]]);
    const present = await figures(nextProvider);
    expect(present.plans).to.deep.equal([[undefined, 1, "0", "700000", "-700000"]]);
    expect(present.payers).to.deep.equal([["0", "700000", "-700000"]]);
    expect(await figures(payee), "a payment has no plan").to.deep.equal({
      plans: [],
      payers: [["250000", "250000", "0"]],
    });
    const moved = await world.transfers(subscriber.address);
    const back = moved.filter(({ from }) => [payee, provider, nextProvider].some(({ address }) => address === from));
    expect(back.reduce((sum, { value }) => sum + value, 0n)).to.equal(9_700_000n);
    const csv: string = await ask("/analytics/plans.csv?days=7");
    expect(csv).to.contain(",2,9000000,9.000000,1700000,1.700000,").and.to.contain(nextProvider.address);
  });

  it("names the plan and the subscription in the events of refunds of charges and debits", async () => {
    const rows = await Promise.all([undefined, nextProvider, payee].map((wallet) => ask("/events", wallet)));
    const events = rows.flatMap((answer) => answer.events as { type: string; data: Record<string, unknown> }[]);
    const refunds = events.filter(({ type }) => type === "refund.settled").map(({ data }) => data);
    expect(refunds.map(({ kind }) => kind)).to.deep.equal(["charge", "charge", "debit", "debit", "debit", "payment"]);
    for (const { kind, planId, idHash: named } of refunds)
      expect([planId, named]).to.deep.equal(kind === "payment" ? [undefined, undefined] : [world.planId, idHash]);
  });
});
