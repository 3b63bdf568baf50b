import { expect } from "chai";
import { createFacilitatorClient, type X402RequestWire, x402RequestSchema } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import { exactRequestOf } from "../../../facilitator/src/http/routes/x402-request";
import { STEPS } from "../../../facilitator/src/telemetry/failpoints";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";
import { approvedPayer, signPermit2 } from "../../support/permit2";
import { deployFactory, wrapSignature } from "../../support/undeployed-wallets";
import { variants } from "../../support/variants";
import { prepareVictims, type Victims } from "../chaos/support/kill-victim";
import { paymentToWire } from "../support/payments";
import {
  ORIGIN,
  refundAccountFor,
  refundAccountsOf,
  refundKeyOf,
  refundToWire,
  signRefund,
  signStatement,
} from "../support/refunds";

/** The client holds its answer; nothing of the service is left to do. */
const ANSWERED = "answered";

describe("payments of a process that is killed", function () {
  this.timeout(600_000);
  let world: FacilitatorWorld;
  let victims: Victims;

  before(async () => {
    [world, victims] = await Promise.all([startWorld(), prepareVictims()]);
    await placePermit2(world.chain);
  });
  after(async () => {
    await victims?.stop();
    await world?.stop();
  });

  /** A database and a key of its own. */
  async function settingsOf(name: string) {
    const key = testKey(`crash relayer ${name}`) as Hex;
    await fund(world.chain, walletOf(world.chain, key).address as Hex);
    const quiet = { PGLITE_LOCK_MS: "2000", RENEWALS: "false" };
    return { ...(await world.database()), RELAYER_KEYS: key, ...quiet };
  }

  for (const step of [...STEPS, ANSWERED]) {
    it(`B6 S1 killed after "${step}": one transfer, one event, and the service goes on`, async () => {
      const settings = await settingsOf(step);
      const signed = await world.signPayment();
      const victim = await victims.start({ ...world.env(settings), KILL_AFTER: step });
      if (!victim) expect.fail("it did not start");
      const answer = createFacilitatorClient({ url: victim.url })
        .authorize(paymentToWire(signed))
        .catch(() => undefined);
      if (step === ANSWERED) {
        expect((await answer)?.kind).to.equal("settled");
        await victim.kill();
      }
      expect(await victim.gone).to.equal("SIGKILL");

      const core = await world.core(settings);
      const id = world.idOf(signed);
      if (step !== "received") {
        // Accepted is accepted: it completes without anybody asking again.
        await until(async () => (await core.payments.status(id)).status === "settled", "the payment has completed");
      }
      const outcome = await core.payments.authorize(signed);
      if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
      const mine = (await world.transfers()).filter(({ from }) => from === signed.authorization.from);
      expect(mine.map(({ transaction }) => transaction)).to.deep.equal([outcome.proof.transaction]);
      expect(core.relayer.health(), "what was sent is known, and the lane goes on").to.include({ ok: true });
      // What webhooks are made of is written with the settlement, or not at all.
      const events = await core.store.db
        .selectFrom("events")
        .select("id")
        .where("object_id", "=", id)
        .where("type", "=", "payment.settled")
        .execute();
      expect(events).to.have.length(1);
      await core.stop();
    });
  }

  it('B6 S1 HE9 killed after "stored": an upto payment is charged once, by its own key, and the service goes on', async () => {
    const settings = await settingsOf("upto");
    const sender = walletOf(world.chain, settings.RELAYER_KEYS).address as Address;
    const upto = { ...settings, PERMIT2: "true", UPTO_SIGNER: sender };
    const payer = await approvedPayer(world);
    const body = await signPermit2(world, { payer, facilitator: sender });
    const charged = {
      ...body,
      paymentRequirements: { ...body.paymentRequirements, amount: "1000" },
    } as X402RequestWire;
    const victim = await victims.start({ ...world.env(upto), KILL_AFTER: "stored" });
    if (!victim) expect.fail("it did not start");
    void createFacilitatorClient({ url: victim.url })
      .x402Settle(charged)
      .catch(() => undefined);
    expect(await victim.gone).to.equal("SIGKILL");

    const core = await world.core(upto);
    const request = exactRequestOf(x402RequestSchema.parse(charged), "settle");
    if (typeof request === "string") expect.fail(request);
    const outcome = await core.payments.settleExact(request);
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    const mine = (await world.transfers()).filter(({ from }) => from === payer.address);
    expect(mine.map(({ value, transaction }) => [value, transaction])).to.deep.equal([[1_000n, outcome.transaction]]);
    expect((await world.chain.provider.getTransaction(outcome.transaction))?.from).to.equal(sender);
    expect(core.relayer.health(), "the lane goes on").to.include({ ok: true });
    await core.stop();
  });

  it('B6 T41 killed after "bound" of a refund: one transfer and one event, however often it is asked for', async () => {
    const settings = await settingsOf("refund");
    const signed = await world.signPayment();
    const before = await world.core(settings);
    expect((await before.payments.authorize(signed)).kind).to.equal("settled");
    await before.stop();
    const key = testKey("payee") as Hex;
    const refund = await signRefund(world, {
      account: { key, address: world.payee },
      to: signed.authorization.from,
      amount: 100_000n,
      target: { type: "payment", paymentId: world.idOf(signed) },
    });
    const victim = await victims.start({ ...world.env(settings), KILL_AFTER: "bound" });
    if (!victim) expect.fail("it did not start");
    const client = createFacilitatorClient({ url: victim.url });
    await client.refund(refundToWire(refund)).catch(() => undefined);
    expect(await victim.gone).to.equal("SIGKILL");

    const core = await world.core(settings);
    const outcomes = await Promise.all([core.payments.refund(refund), core.payments.refund(refund)]);
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(["settled", "settled"]);
    expect(await world.transfers(signed.authorization.from)).to.have.length(2);
    const events = await core.store.db.selectFrom("events").select("id").where("type", "=", "refund.settled").execute();
    expect(events).to.have.length(1);
    await core.stop();
  });

  it('B6 A8 killed after "mined" of a deployment: one deployment, and one transfer when asked again', async () => {
    const factory = await deployFactory(await world.chain.wallet("deployer of factories"), "WalletFactory");
    const settings = { ...(await settingsOf("deployment")), WALLET_FACTORIES: factory.address };
    const owner = await world.payer(0n);
    const { address, deployment } = await factory.wallet(owner.address);
    await world.contracts.mint(address, 1_000_000n);
    const plain = await world.signPayment({ payer: { ...owner, address } });
    const signed = { ...plain, signature: wrapSignature(plain.signature, deployment) };
    const victim = await victims.start({ ...world.env(settings), KILL_AFTER: "mined" });
    if (!victim) expect.fail("it did not start");
    const client = createFacilitatorClient({ url: victim.url });
    await client.authorize(paymentToWire(signed)).catch(() => undefined);
    expect(await victim.gone).to.equal("SIGKILL");

    const core = await world.core(settings);
    expect((await core.payments.authorize(signed)).kind).to.equal("settled");
    expect((await world.transfers()).filter(({ from }) => from === address)).to.have.length(1);
    const sent = await core.store.db.selectFrom("transactions").select(["purpose", "status"]).execute();
    expect(sent.map(({ purpose }) => purpose).sort()).to.deep.equal(["deploy", "settle"]);
    await core.stop();
  });

  it('B6 T47 killed after "bound" of an automatic refund: one transfer, and it took from the cap once', async () => {
    const key = testKey("payee") as Hex;
    const provider = { key, address: world.payee };
    const refunds = await refundAccountFor(world, provider.address);
    const settings = { ...(await settingsOf("automatic refund")), ...refunds.settings };
    const signed = await world.signPayment();
    const asked = { paymentId: world.idOf(signed), provider: provider.address };
    const before = await world.core(settings);
    const account = refunds.account.address;
    const statement = await signStatement(world, { provider, account, dailyCap: signed.authorization.value });
    await refundAccountsOf(before).name(statement, ORIGIN);
    expect((await before.payments.authorize(signed)).kind).to.equal("settled");
    const apiKey = await refundKeyOf(before, provider);
    await before.stop();
    const victim = await victims.start({ ...world.env(settings), KILL_AFTER: "bound" });
    if (!victim) expect.fail("it did not start");
    await createFacilitatorClient({ url: victim.url, apiKey })
      .refundPayment(asked.paymentId)
      .catch(() => undefined);
    expect(await victim.gone).to.equal("SIGKILL");

    const core = await world.core(settings);
    const outcomes = await Promise.all([1, 2].map(() => core.payments.refundAutomatically(asked)));
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(["settled", "settled"]);
    const received = (await world.transfers(signed.authorization.from)).filter(({ from }) => from === account);
    expect(received.map(({ value }) => value)).to.deep.equal([signed.authorization.value]);
    const { accounts } = await refundAccountsOf(core).list(provider.address);
    expect(accounts.map(({ used }) => used)).to.deep.equal([signed.authorization.value]);
    await core.stop();
  });

  // With one under way, the lane signs the next together with the rows of its payments.
  for (const step of variants(["stored", "signed", "composed", "broadcast"] as const)) {
    it(`B6 S1 killed after "${step}" of several that are signed as they are bound: one transfer each`, async () => {
      const settings = await settingsOf(`${step} together`);
      const mining = (ms: number) => world.chain.provider.send("evm_setIntervalMining", [ms]);
      const payers = await Promise.all(Array.from({ length: 4 }, () => world.payer()));
      const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer })));
      const [first, ...rest] = signed as [(typeof signed)[0], ...typeof signed];
      const victim = await victims.start({ ...world.env(settings), KILL_AFTER: `${step} 2` });
      if (!victim) expect.fail("it did not start");
      const client = createFacilitatorClient({ url: victim.url });
      const ask = (one: (typeof signed)[0]) => client.authorize(paymentToWire(one)).catch(() => undefined);
      await mining(0);
      try {
        void ask(first);
        await until(async () => (await pending()) > 0, "the first is under way");
        for (const one of rest) void ask(one);
        expect(await victim.gone).to.equal("SIGKILL");
      } finally {
        await mining(BLOCK_MS);
      }

      const core = await world.core(settings);
      // What was bound completes by itself; what was not is asked for again, as its client does.
      const outcomes = await Promise.all(signed.map((one) => core.payments.authorize(one)));
      expect(outcomes.map(({ kind }) => kind)).to.deep.equal(signed.map(() => "settled"));
      const transfers = await world.transfers();
      for (const { address } of payers) {
        expect(transfers.filter(({ from }) => from === address)).to.have.length(1);
      }
      const sent = await core.store.db.selectFrom("transactions").select("nonce").orderBy("nonce").execute();
      expect(sent.map(({ nonce }) => nonce)).to.deep.equal(sent.map((_, index) => index));
      expect(core.relayer.health(), "the lane goes on").to.include({ ok: true });
      await core.stop();
    });
  }

  /** transactions that the node holds and no block does */
  async function pending(): Promise<number> {
    const block = (await world.chain.provider.send("eth_getBlockByNumber", ["pending", false])) as { transactions: [] };
    return block.transactions.length;
  }
});
