import { expect } from "chai";
import pino from "pino";
import { proofToWire, randomRef, signDigest, transferTypedData, typedDataDigest } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { type FacilitatorWorld, startWorld, until, walletOf } from "../../support/facilitator";

describe("payments", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    world = await startWorld();
    core = await world.core();
  });
  after(() => world.stop());

  const transfersOf = async (payer: string) => (await world.transfers()).filter((transfer) => transfer.from === payer);
  const transactionCount = async (): Promise<number> =>
    (await core.store.db.selectFrom("transactions").select("id").execute()).length;

  it("settles a signed payment and proves it by the chain's facts", async () => {
    const signed = await world.signPayment();
    const outcome = await core.payments.authorize(signed);
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    const [transfer] = await transfersOf(signed.authorization.from);
    expect(outcome.proof).to.include({
      transaction: transfer?.transaction,
      payer: signed.authorization.from,
      payTo: world.payee,
      amount: signed.authorization.value,
      resource: signed.resource,
      facilitator: core.relayer.proofSigner.address,
    });
    expect(await core.payments.verifyProof(outcome.proof)).to.deep.equal({
      kind: "valid",
      paymentId: world.idOf(signed),
    });
    expect(await core.payments.status(world.idOf(signed))).to.deep.equal({
      status: "settled",
      transaction: transfer?.transaction,
    });
  });

  it("B1 S13 the same authorization 100 times at once is one transfer and one proof", async () => {
    const signed = await world.signPayment();
    const sentBefore = await transactionCount();
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => core.payments.authorize(signed)));
    const proofs = new Set(
      outcomes.map((outcome) =>
        outcome.kind === "settled" ? JSON.stringify(proofToWire(outcome.proof)) : outcome.kind,
      ),
    );
    expect([...proofs]).to.have.length(1);
    expect([...proofs][0]).to.contain(world.payee);
    expect(await transfersOf(signed.authorization.from)).to.have.length(1);
    expect((await transactionCount()) - sentBefore, "and one transaction").to.equal(1);
  });

  it("B2 the same id with another payee, amount or resource is a conflict", async () => {
    const payer = await world.payer();
    const ref = randomRef();
    const signed = await world.signPayment({ payer, ref });
    await core.payments.authorize(signed);
    for (const other of [{ amount: 250_001n }, { payTo: payer.address }]) {
      const outcome = await core.payments.authorize(await world.signPayment({ payer, ref, ...other }));
      if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
      expect(outcome.error).to.include({ code: "PayloadConflict", status: 409 });
    }
    expect(await transfersOf(payer.address)).to.have.length(1);
  });

  it("B2 a nonce that was not made of this memo and resource is refused", async () => {
    const signed = await world.signPayment();
    const outcome = await core.payments.authorize({ ...signed, resource: "https://api.example/dear" });
    if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.error).to.include({ code: "InvalidRequest", reason: "nonce" });
  });

  it("B3 S13 two payers of one memo are two payments", async () => {
    const ref = randomRef();
    const both = await Promise.all([world.signPayment({ ref }), world.signPayment({ ref })]);
    expect(both[0]?.authorization.nonce).to.equal(both[1]?.authorization.nonce);
    const outcomes = await Promise.all(both.map((signed) => core.payments.authorize(signed)));
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(["settled", "settled"]);
    for (const signed of both) expect(await transfersOf(signed.authorization.from)).to.have.length(1);
  });

  it("S13 another window for the same purchase gets the proof of the existing payment", async () => {
    const payer = await world.payer();
    const ref = randomRef();
    const first = await core.payments.authorize(await world.signPayment({ payer, ref, validForSec: 200 }));
    const second = await core.payments.authorize(await world.signPayment({ payer, ref, validForSec: 250 }));
    if (first.kind !== "settled" || second.kind !== "settled") expect.fail(`they are ${first.kind}, ${second.kind}`);
    expect(second.proof.transaction).to.equal(first.proof.transaction);
    expect(await transfersOf(payer.address)).to.have.length(1);
  });

  it("B4 a payment that a stranger submitted first is found on chain and proved", async () => {
    const signed = await world.signPayment();
    const transaction = await submitAsStranger(signed);
    const outcome = await core.payments.authorize(signed);
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.proof.transaction).to.equal(transaction);
    expect(await transfersOf(signed.authorization.from)).to.have.length(1);
  });

  it("C1b a transfer that was on chain before is no settlement through the standard channel", async () => {
    const request = await world.signExact();
    await submitAsStranger(request);
    const outcome = await core.payments.settleExact(request);
    expect(outcome.kind).to.be.oneOf(["refused", "failed"]);
    expect(outcome).to.include({ reason: "invalid_exact_evm_nonce_already_used" });
  });

  it("C1b a native payment is refused by the standard channel, and the other way round", async () => {
    const signed = await world.signPayment();
    await core.payments.authorize(signed);
    const asExact = { ...(await world.signExact()), authorization: signed.authorization, signature: signed.signature };
    const outcome = await core.payments.settleExact(asExact);
    expect(outcome).to.include({ kind: "refused", reason: "payment_already_granted" });
    expect(await core.payments.verifyExact(asExact)).to.include({
      kind: "invalid",
      reason: "invalid_transaction_state",
    });
  });

  it("settles a standard payment once, however often it is asked", async () => {
    const request = await world.signExact();
    expect(await core.payments.verifyExact(request)).to.deep.equal({
      kind: "valid",
      payer: request.authorization.from,
      isReserved: false,
    });
    const [first, second] = await Promise.all([core.payments.settleExact(request), core.payments.settleExact(request)]);
    expect(first).to.deep.equal(second);
    expect(first.kind).to.equal("settled");
    expect(await transfersOf(request.authorization.from)).to.have.length(1);
    const elsewhere = await core.payments.settleExact({ ...request, resource: "https://api.example/other" });
    expect(elsewhere).to.include({ kind: "refused", reason: "invalid_transaction_state" });
  });

  it("B5 a cancelled authorization is used on chain, and proves nothing", async () => {
    const payer = await world.payer();
    const signed = await world.signPayment({ payer });
    await cancelAuthorization(payer.key, signed.authorization.nonce);
    const outcome = await until(async () => {
      const outcome = await core.payments.authorize(signed, { waitMs: 100 });
      return outcome.kind !== "pending" && outcome;
    }, "the cancellation is final");
    expect(outcome.kind).to.equal("failed");
    expect(await transfersOf(payer.address)).to.have.length(0);
  });

  it("B13 unlisted tokens, dust and bad signatures are refused before anything is stored or sent", async () => {
    const before = await transactionCount();
    const signed = await world.signPayment();
    const refused = [
      { ...signed, token: world.contracts.turnpike },
      await world.signPayment({ amount: 99n }),
      await world.signPayment({ amount: 0n }),
      await world.signPayment({ network: "base-mainnet" }),
      { ...signed, signature: (await world.signPayment()).signature },
    ];
    for (const request of refused) {
      const outcome = await core.payments.authorize(request);
      expect(outcome.kind, JSON.stringify(request.authorization.value.toString())).to.equal("refused");
      expect(await core.payments.status(world.idOf(request))).to.deep.equal({ status: "unknown" });
    }
    expect(await transactionCount()).to.equal(before);
  });

  it("D9 windows that are over, not begun, too long or beyond the memo are refused", async () => {
    const nowSec = await world.nowSec();
    const cases = [
      { fields: { validForSec: 3 }, reason: "expired" },
      { fields: { validForSec: -10 }, reason: "expired" },
      { fields: { validAfter: BigInt(nowSec + 100) }, reason: "not_yet_valid" },
      { fields: { validForSec: 100_000 }, reason: "window_too_long" },
    ];
    for (const { fields, reason } of cases) {
      const outcome = await core.payments.authorize(await world.signPayment(fields));
      if (outcome.kind !== "refused") expect.fail(`${reason} is ${outcome.kind}`);
      expect(outcome.error.reason).to.equal(reason);
    }
  });

  it("refuses a payer without funds, and counts what is already under way", async () => {
    const poor = await world.payer(100_000n);
    const outcome = await core.payments.authorize(await world.signPayment({ payer: poor }));
    if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.error).to.include({ code: "InsufficientFunds", status: 422 });

    const payer = await world.payer(300_000n);
    const two = await Promise.all([world.signPayment({ payer }), world.signPayment({ payer })]);
    const outcomes = await Promise.all(two.map((signed) => core.payments.authorize(signed)));
    expect(outcomes.map(({ kind }) => kind).sort()).to.deep.equal(["refused", "settled"]);
    expect(await transfersOf(payer.address)).to.have.length(1);
  });

  it("opens a proof to nobody but the payer", async () => {
    const signed = await world.signPayment();
    await core.payments.authorize(signed);
    const stranger = await world.payer(0n);
    const domain = {
      chainId: world.chain.chainId,
      token: signed.token,
      name: world.contracts.tokenName,
      version: world.contracts.tokenVersion,
    };
    const forged = signDigest(typedDataDigest(transferTypedData(domain, signed.authorization)), stranger.key);
    const { validAfter, validBefore } = signed.authorization;
    const unsigned = [{ validAfter: validAfter + 1n }, { validBefore: validBefore - 1n }].map((change) => ({
      ...signed,
      authorization: { ...signed.authorization, ...change },
    }));
    for (const request of [{ ...signed, signature: forged }, ...unsigned]) {
      const outcome = await core.payments.authorize(request);
      if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
      expect(outcome.error.code).to.equal("InvalidSignature");
    }
  });

  it("B21 calls only its own untouched proofs valid", async () => {
    const outcome = await core.payments.authorize(await world.signPayment());
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    const { proof } = outcome;
    const reasonOf = async (changed: object) => {
      const verdict = await core.payments.verifyProof({ ...proof, ...changed });
      return verdict.kind === "invalid" ? verdict.reason : verdict.kind;
    };
    expect(await reasonOf({ amount: proof.amount + 1n })).to.equal("signature");
    expect(await reasonOf({ resource: "https://api.example/dear" })).to.equal("signature");
    expect(await reasonOf({ facilitator: world.payee })).to.equal("signature");
    expect(await reasonOf({ network: "base-mainnet" })).to.equal("network");
  });

  it("S3 issues the same proof again when the database is lost", async () => {
    const signed = await world.signPayment();
    const first = await core.payments.authorize(signed);
    await core.stop();
    await world.loseDatabase();
    core = await world.core({ ADOPT_NONCE: "true" });
    if (first.kind !== "settled") expect.fail(`it is ${first.kind}`);
    expect(await core.payments.verifyProof(first.proof)).to.deep.equal({ kind: "valid", paymentId: first.paymentId });
    expect(await core.payments.authorize(signed)).to.deep.equal(first);
    expect(await transfersOf(signed.authorization.from)).to.have.length(1);
  });

  it("accepts nothing more while the relayer is low on gas money", async () => {
    const [relayer] = core.relayer.addresses;
    await world.chain.provider.send("hardhat_setBalance", [relayer, "0x1"]);
    await core.stop();
    const lines: string[] = [];
    const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
    core = await world.core({}, { log });
    expect(lines.join("")).to.include(`"key":"${relayer}"`).and.include("send it native coins");
    const outcome = await core.payments.authorize(await world.signPayment());
    if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.error).to.include({ code: "Unavailable", retryable: true });
    expect(outcome.error.message).to.include(`${relayer} holds 0.000000, below MIN_BALANCE_WEI. Send native coins`);
    expect(core.relayer.health()).to.include({ ok: false });
    await world.chain.provider.send("hardhat_setBalance", [relayer, "0x3635c9adc5dea00000"]);
    await core.stop();
    core = await world.core();
  });

  async function submitAsStranger({
    authorization,
    signature,
  }: Pick<Awaited<ReturnType<FacilitatorWorld["signPayment"]>>, "authorization" | "signature">): Promise<string> {
    const stranger = await world.chain.wallet("stranger");
    const { from, to, value, validAfter, validBefore, nonce } = authorization;
    const call = world.token.connect(stranger) as typeof world.token;
    const sent = await call.getFunction("transferWithAuthorization")(
      from,
      to,
      value,
      validAfter,
      validBefore,
      nonce,
      signature,
    );
    return (await sent.wait()).hash;
  }

  async function cancelAuthorization(key: `0x${string}`, nonce: string): Promise<void> {
    const { tokenName: name, tokenVersion: version, token: verifyingContract } = world.contracts;
    const payer = walletOf(world.chain, key);
    const signature = await payer.signTypedData(
      { name, version, chainId: world.chain.chainId, verifyingContract },
      {
        CancelAuthorization: [
          { name: "authorizer", type: "address" },
          { name: "nonce", type: "bytes32" },
        ],
      },
      { authorizer: payer.address, nonce },
    );
    const stranger = await world.chain.wallet("stranger");
    const sent = await (world.token.connect(stranger) as typeof world.token).getFunction("cancelAuthorization")(
      payer.address,
      nonce,
      signature,
    );
    await sent.wait();
    await until(
      async () => core.indexer.applied() >= ((await sent.wait())?.blockNumber ?? 0),
      "the cancellation is read",
    );
  }
});
