import { expect } from "chai";
import type { SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { authorizeAndDrain } from "../support/payments";

/** What a node between this service and the chain does to a request; `forward` is the honest answer. */
type Fault = (method: string, forward: () => Promise<Response>) => Promise<Response> | undefined;

describe("payments over faulty nodes", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let fault: Fault = () => undefined;

  const faultyFetch: typeof fetch = async (input, init) => {
    const forward = () => fetch(input, init);
    const body = JSON.parse(String(init?.body)) as { method: string } | { method: string }[];
    const methods = (Array.isArray(body) ? body : [body]).map(({ method }) => method);
    for (const method of methods) {
      const answered = fault(method, forward);
      if (answered) return answered;
    }
    return forward();
  };

  before(async () => {
    world = await startWorld();
    core = await world.core({ LANE_IN_FLIGHT: "1", RPC_TIMEOUT_MS: "5000" }, { fetch: faultyFetch });
  });
  afterEach(() => {
    fault = () => undefined;
  });
  after(() => world.stop());

  const transfersOf = async (payer: string) => (await world.transfers()).filter(({ from }) => from === payer);
  /** On a slow machine the answer may come before the payment is stored. */
  const accepted = (signed: SignedPayment) =>
    until(async () => (await core.payments.status(world.idOf(signed))).status === "pending", "the payment is stored");

  it("B7 a broadcast whose answer is lost is one transfer, and is proved", async () => {
    let lost = 0;
    fault = (method, forward) => {
      if (method !== "eth_sendRawTransaction") return undefined;
      lost += 1;
      return forward().then(() => Promise.reject(new Error("connection reset")));
    };
    const signed = await world.signPayment();
    const outcome = await core.payments.authorize(signed);
    expect(outcome.kind).to.equal("settled");
    expect(lost).to.be.greaterThan(0);
    expect(await transfersOf(signed.authorization.from)).to.have.length(1);
  });

  it("B7 a payment whose outcome is unknown is pending, and never failed or refused", async () => {
    fault = (method) =>
      method === "eth_sendRawTransaction" ? Promise.reject(new Error("connection reset")) : undefined;
    const signed = await world.signPayment();
    const outcome = await core.payments.authorize(signed, { waitMs: 1_000 });
    expect(outcome).to.deep.equal({ kind: "pending", paymentId: world.idOf(signed), retryAfterSec: 1 });
    await accepted(signed);
    expect(await core.payments.status(world.idOf(signed))).to.deep.equal({ status: "pending" });
    fault = () => undefined;
    expect((await core.payments.authorize(signed)).kind).to.equal("settled");
    expect(await transfersOf(signed.authorization.from)).to.have.length(1);
  });

  it("B10 a transaction that the pool forgot is sent again, with the same bytes", async () => {
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    const signed = await world.signPayment({ payer: await fundedWhileStill() });
    const answer = core.payments.authorize(signed);
    const hash = await until(async () => {
      const pool = await world.chain.provider.send("eth_getBlockByNumber", ["pending", false]);
      return (pool as { transactions: string[] }).transactions[0];
    }, "the transaction is in the pool");
    await world.chain.provider.send("hardhat_dropTransaction", [hash]);
    await world.chain.provider.send("evm_setIntervalMining", [100]);
    const outcome = await answer;
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.proof.transaction).to.equal(hash);
  });

  it("B15 what expires in the queue is never sent, and is failed only then", async () => {
    fault = (method) =>
      method === "eth_sendRawTransaction" ? Promise.reject(new Error("connection reset")) : undefined;
    // The one slot of the lane is taken by a transaction that nobody mines.
    const blocking = await world.signPayment({ validForSec: 3_000 });
    await core.payments.authorize(blocking, { waitMs: 0 });
    await until(async () => core.relayer.health().lanes[0]?.inFlight === 1, "the lane is full");
    const queued = await world.signPayment({ validForSec: 60 });
    expect((await core.payments.authorize(queued, { waitMs: 300 })).kind).to.equal("pending");
    await accepted(queued);
    await world.chain.advance(120);
    await until(
      async () => (await core.payments.status(world.idOf(queued))).status === "failed",
      "the payment has failed",
    );
    fault = () => undefined;
    expect((await core.payments.authorize(blocking)).kind).to.equal("settled");
    const row = await core.store.db
      .selectFrom("payments")
      .selectAll()
      .where("payment_id", "=", world.idOf(queued))
      .executeTakeFirst();
    expect(row).to.include({ transaction_id: null, fail_code: "PaymentExpired" });
    const outcome = await core.payments.authorize(queued);
    if (outcome.kind !== "failed") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.error.code).to.equal("PaymentExpired");
    expect(await transfersOf(queued.authorization.from)).to.have.length(0);
  });

  it("a fresh authorization may take the place of one that has expired, with another amount", async () => {
    const payer = await world.payer();
    const ref = "AAAAAAAAAAAAAAAAAAAAAA";
    fault = (method) =>
      method === "eth_sendRawTransaction" ? Promise.reject(new Error("connection reset")) : undefined;
    const old = await world.signPayment({ payer, ref, validForSec: 30 });
    await core.payments.authorize(old, { waitMs: 200 });
    await accepted(old);
    await world.chain.advance(60);
    await until(
      async () => (await core.payments.status(world.idOf(old))).status === "failed",
      "the payment has failed",
    );
    fault = () => undefined;
    const fresh = await world.signPayment({ payer, ref, amount: 260_000n });
    const outcome = await core.payments.authorize(fresh);
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    expect((await transfersOf(payer.address)).map(({ value }) => value)).to.deep.equal([260_000n]);
  });

  it("B9 a node that answers 429, with nothing or with nonsense is an outage, never a refusal of the payer", async () => {
    const answers: (() => Response)[] = [
      () => new Response("slow down", { status: 429 }),
      () => new Response("<html>", { status: 200 }),
      () => Response.json({ jsonrpc: "2.0", id: 0, result: null }),
      () => Response.json({ jsonrpc: "2.0", id: 0, result: "0x" }),
      () => Response.json({ jsonrpc: "2.0", id: 0, error: { code: -32_000, message: "header not found" } }),
    ];
    for (const answer of answers) {
      const signed = await world.signPayment();
      fault = (method) => (method === "eth_call" ? Promise.resolve(answer()) : undefined);
      const outcome = await core.payments.authorize(signed);
      fault = () => undefined;
      if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
      expect(outcome.error).to.include({ code: "Unavailable", status: 503, retryable: true });
      expect((await core.payments.authorize(signed)).kind).to.equal("settled");
    }
  });

  it("B7 a payment that has a row is pending while no node answers, and not refused for the outage", async () => {
    const payer = await world.payer(250_000n);
    const signed = await world.signPayment({ payer });
    expect((await authorizeAndDrain(world, core, payer, signed)).kind).to.equal("refused");
    fault = (method) => (method === "eth_call" ? Promise.reject(new Error("connection reset")) : undefined);
    const outcome = await core.payments.authorize(signed, { waitMs: 1_000 });
    fault = () => undefined;
    expect(outcome).to.deep.equal({ kind: "pending", paymentId: world.idOf(signed), retryAfterSec: 1 });
    await world.contracts.mint(payer.address, 250_000n);
    expect((await core.payments.authorize(signed)).kind).to.equal("settled");
    expect(await transfersOf(payer.address)).to.have.length(1);
  });

  it("B13 a payer who empties the wallet in time is pending until the window ends, and refused after a few times", async () => {
    await core.stop();
    core = await world.core({ MAX_LOSSES_PER_PAYER: "2" });
    const payer = await world.payer(250_000n);
    const signed = await world.signPayment({ payer });
    const outcome = await authorizeAndDrain(world, core, payer, signed);
    if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.error.code).to.equal("InsufficientFunds");
    expect(outcome.liveUntilSec).to.equal(Number(signed.authorization.validBefore));
    expect(await core.payments.status(world.idOf(signed))).to.deep.equal({ status: "pending" });

    await world.contracts.mint(payer.address, 250_000n);
    expect((await core.payments.authorize(signed)).kind, "the same authorization, once there is money").to.equal(
      "settled",
    );

    await world.contracts.mint(payer.address, 250_000n);
    expect((await authorizeAndDrain(world, core, payer, await world.signPayment({ payer }))).kind).to.equal("refused");
    await world.contracts.mint(payer.address, 250_000n);
    const closed = await core.payments.authorize(await world.signPayment({ payer }));
    if (closed.kind !== "refused") expect.fail(`it is ${closed.kind}`);
    expect(closed.error).to.include({ code: "RateLimited", reason: "losses" });
  });

  async function fundedWhileStill() {
    const payer = world.payer();
    const mined = setInterval(() => void world.chain.provider.send("evm_mine", []), 50);
    try {
      return await payer;
    } finally {
      clearInterval(mined);
    }
  }
});
