import { expect } from "chai";
import { AbiCoder, concat, getBytes, hexlify, id, toUtf8Bytes } from "ethers";
import pino from "pino";
import { turnpikeInterface } from "turnpike/chain";
import { type Address, type Hex, paymentIdOf } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { AUTHORIZATION_USED_TOPIC, factsOf, TRANSFER_TOPIC } from "../../../facilitator/src/chain/facts";
import type { ChainLog } from "../../../facilitator/src/relayer";
import { createMetrics } from "../../../facilitator/src/telemetry/metrics";
import { ownArgs } from "../../support/acts";
import { type FacilitatorWorld, startWorld, until, walletOf } from "../../support/facilitator";

const hex = (digit: string, length = 64): Hex => `0x${digit.repeat(length)}`;
const TOKEN = hex("1", 40) as Address;
const PAYER = hex("2", 40);
const PAYEE = hex("3", 40);
const NONCE = hex("4");
const word = (value: string): Hex => `0x${value.slice(2).padStart(64, "0")}`;

describe("facts of a block", () => {
  const log = (overrides: Partial<ChainLog>): ChainLog => ({
    address: TOKEN,
    topics: [],
    data: "0x",
    blockNumber: 7,
    blockHash: hex("b"),
    transaction: hex("a"),
    logIndex: 0,
    ...overrides,
  });
  const used = (overrides: Partial<ChainLog> = {}) =>
    log({ topics: [AUTHORIZATION_USED_TOPIC, word(PAYER), NONCE], logIndex: 4, ...overrides });
  const moved = (overrides: Partial<ChainLog> = {}) =>
    log({ topics: [TRANSFER_TOPIC, word(PAYER), word(PAYEE)], data: word("0x64"), logIndex: 5, ...overrides });
  const transferIn = (logs: ChainLog[]) => {
    const facts = factsOf({ chainId: 1, turnpike: hex("9", 40), tokens: [TOKEN] }, logs);
    return facts.map((fact) =>
      fact.kind === "authorizationUsed" ? (fact.transfer?.amount ?? "no transfer") : fact.kind,
    );
  };

  it("pairs an authorization with the transfer right after it", () => {
    const [fact] = factsOf({ chainId: 1, turnpike: hex("9", 40), tokens: [TOKEN] }, [moved(), used()]);
    expect(fact).to.deep.include({
      kind: "authorizationUsed",
      paymentId: paymentIdOf({ chainId: 1, token: TOKEN, payer: PAYER, nonce: NONCE }),
      transfer: { to: PAYEE, amount: 100n, logIndex: 5 },
    });
  });

  it("B5 takes no other log for the transfer", () => {
    expect(transferIn([used()])).to.deep.equal(["no transfer"]);
    expect(transferIn([used(), moved({ logIndex: 6 })])).to.deep.equal(["no transfer"]);
    expect(transferIn([used(), moved({ transaction: hex("c") })])).to.deep.equal(["no transfer"]);
    expect(transferIn([used(), moved({ address: hex("5", 40) })])).to.deep.equal(["no transfer"]);
    expect(transferIn([used(), moved({ topics: [TRANSFER_TOPIC, word(PAYEE), word(PAYEE)] })])).to.deep.equal([
      "no transfer",
    ]);
    expect(transferIn([used(), moved({ data: "0x" })])).to.deep.equal(["no transfer"]);
    expect(transferIn([moved({ logIndex: 3 }), used()])).to.deep.equal(["no transfer"]);
  });

  it("B5 overlooks a decoy token that emits the same logs", () => {
    const decoy = hex("6", 40) as Address;
    expect(transferIn([used({ address: decoy }), moved({ address: decoy })])).to.deep.equal([]);
  });
});

/** Not so fast that a busy machine cannot read along. */
const BLOCK_MS = 250;

describe("indexer", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  const metrics = createMetrics();
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });

  before(async () => {
    world = await startWorld({ blockMs: BLOCK_MS });
    // Deeper than what is mined while a slow machine comes to its point.
    core = await world.core({ FINALITY_DEPTH: "800" }, { metrics, log });
  });
  after(async () => {
    metrics.close();
    await world.stop();
  });

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  const eventsOf = (objectId: string) =>
    core.store.db.selectFrom("events").selectAll().where("object_id", "=", objectId).orderBy("seq").execute();

  it("B8 a payment that is reorganised away is reversed, then settled again by the same bytes", async () => {
    const payer = await world.payer();
    const snapshot = await rpc("evm_snapshot");
    const signed = await world.signPayment({ payer });
    const paymentId = world.idOf(signed);
    const first = await core.payments.authorize(signed);
    if (first.kind !== "settled") expect.fail(`it is ${first.kind}`);
    expect((await core.payments.verifyProof(first.proof)).kind).to.equal("valid");

    await rpc("evm_setIntervalMining", [0]);
    const height = await world.chain.provider.getBlockNumber();
    await rpc("evm_revert", [snapshot]);
    // Another history, longer by one: without the payment, whose transaction the pool has forgotten too.
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    while ((await world.chain.provider.getBlockNumber()) <= height) await rpc("evm_mine");
    await until(async () => (await core.payments.status(paymentId)).status === "reversed", "the payment is reversed");
    expect(await core.payments.verifyProof(first.proof)).to.deep.equal({ kind: "invalid", reason: "reversed" });
    // It is counted once all its blocks are reverted.
    const isCounted = async () => /^turnpike_reorganisations_total [1-9]/m.test(await metrics.text());
    await until(isCounted, "the reorganisation is counted");
    expect(await metrics.text())
      .to.match(/^turnpike_reorganised_blocks_total [1-9]/m)
      .and.match(/^turnpike_payments_reversed_total 1$/m);
    const logged = lines.map((line) => JSON.parse(line) as { readonly msg: string; readonly paymentId?: string });
    expect(logged.filter(({ paymentId: of }) => of === paymentId).map(({ msg }) => msg)).to.include("payment reversed");

    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    const again = await core.payments.authorize(signed);
    if (again.kind !== "settled") expect.fail(`it is ${again.kind}`);
    expect(again.proof.transaction).to.equal(first.proof.transaction);
    expect(again.proof.blockNumber).to.be.greaterThan(first.proof.blockNumber);
    expect((await world.transfers()).filter(({ from }) => from === payer.address)).to.have.length(1);
    const events = await eventsOf(paymentId);
    expect(events.map(({ type, reverted }) => [type, reverted])).to.deep.equal([
      ["payment.settled", true],
      ["payment.reversed", false],
      ["payment.settled", false],
    ]);
    expect(new Set(events.map((event) => event.id)).size).to.equal(3);
  });

  it("B8 a cancelled authorization is pending until its cancellation is final, and lives again without it", async () => {
    const payer = await world.payer();
    const signed = await world.signPayment({ payer });
    const snapshot = await rpc("evm_snapshot");
    await cancel(payer.key, signed.authorization.nonce);
    await core.indexer.catchUp();
    const outcome = await core.payments.authorize(signed, { waitMs: 300 });
    expect(outcome.kind, "eight hundred blocks are final, not one").to.equal("pending");
    const height = await world.chain.provider.getBlockNumber();
    await rpc("evm_setIntervalMining", [0]);
    await rpc("evm_revert", [snapshot]);
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    while ((await world.chain.provider.getBlockNumber()) <= height) await rpc("evm_mine");
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    expect((await core.payments.authorize(signed)).kind).to.equal("settled");
  });

  it("B8 a subscription that is reorganised away is as if it had never been", async () => {
    const provider = await world.chain.wallet("provider");
    const terms = {
      token: world.contracts.token,
      amount: 1_000n,
      interval: 3_600,
      months: false,
      grace: 60,
      payTo: world.payee,
    };
    const planId = await act(provider, "createPlan", [terms, id("reorg salt"), "{}"]);
    const subscriber = await world.chain.wallet("subscriber");
    await world.contracts.mint(subscriber.address, 1_000_000n);
    await (
      await (world.token.connect(subscriber) as typeof world.token).getFunction("approve")(
        world.contracts.turnpike,
        1_000_000n,
      )
    ).wait();
    const snapshot = await rpc("evm_snapshot");
    const idHash = await act(subscriber, "subscribe", [planId, id("a secret's hash"), 500n]);
    await act(subscriber, "pause", [idHash]);
    await act(subscriber, "resume", [idHash, 0n]);
    await core.indexer.catchUp();
    const { db } = core.store;
    const rowsOf = async () => ({
      subscriptions: await db.selectFrom("subscriptions").selectAll().execute(),
      allowances: await db.selectFrom("allowances").selectAll().execute(),
      due: await db.selectFrom("renewal_due").selectAll().execute(),
    });
    const before = await rowsOf();
    expect(before.subscriptions[0]).to.include({ id_hash: idHash, version: 2, paused: false });
    expect(before.due[0]).to.include({ id_hash: idHash, due_at: before.subscriptions[0]?.paid_through, attempts: 0 });

    const height = await world.chain.provider.getBlockNumber();
    await rpc("evm_setIntervalMining", [0]);
    await rpc("evm_revert", [snapshot]);
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    while ((await world.chain.provider.getBlockNumber()) <= height) await rpc("evm_mine");
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    await until(async () => (await rowsOf()).subscriptions.length === 0, "the rows are taken back");
    expect(await rowsOf()).to.deep.equal({ subscriptions: [], allowances: [], due: [] });
    expect(await db.selectFrom("plans").select("plan_id").execute()).to.deep.equal([{ plan_id: planId }]);
  });

  it("takes chain time from the newest head", async () => {
    await world.chain.advance(86_400);
    const advancedSec = await world.nowSec();
    await core.indexer.catchUp();
    expect(core.indexer.clock.nowSec()).to.be.within(advancedSec, advancedSec + 3_600);
  });

  async function cancel(key: Hex, nonce: Hex): Promise<void> {
    const payer = walletOf(world.chain, key);
    const { tokenName: name, tokenVersion: version, token: verifyingContract } = world.contracts;
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
    const stranger = world.token.connect(await world.chain.wallet("stranger")) as typeof world.token;
    await (await stranger.getFunction("cancelAuthorization")(payer.address, nonce, signature)).wait();
  }

  /** One call to Turnpike, mined. @returns the first value it answers with */
  async function act(
    wallet: Awaited<ReturnType<typeof world.chain.wallet>>,
    method: string,
    args: unknown[],
  ): Promise<Hex> {
    const data = turnpikeInterface.encodeFunctionData(method, ownArgs(wallet.address, method, args));
    const call = { to: world.contracts.turnpike, data };
    const answer = await wallet.call(call);
    const receipt = await (await wallet.sendTransaction({ ...call, gasLimit: 1_000_000n })).wait();
    expect(receipt?.status).to.equal(1);
    return answer === "0x" ? "0x" : (AbiCoder.defaultAbiCoder().decode(["bytes32"], answer)[0] as Hex);
  }

  it("HD7 reads plans with any metadata that the contract takes, and goes on", async () => {
    const owner = await world.chain.wallet("owner of odd plans");
    const create = turnpikeInterface.getFunction("createPlan");
    const [terms] = create?.inputs ?? [];
    if (!create || !terms) expect.fail("the contract has no createPlan");
    const values = [await world.token.getAddress(), 1n, 86_400, false, 0, owner.address];
    const odd = [
      toUtf8Bytes("x\0y"),
      getBytes("0xfffe"),
      getBytes("0xeda080"),
      toUtf8Bytes(JSON.stringify({ name: "\u0000\ud800" })),
      toUtf8Bytes(`${"a".repeat(16_383)}\u{1f600}`),
      toUtf8Bytes("b".repeat(60_000)),
    ];
    for (const metadata of odd) {
      const args = AbiCoder.defaultAbiCoder().encode(
        [terms, "bytes32", "bytes"],
        [values, id(hexlify(metadata)), metadata],
      );
      const data = concat([create.selector, args]);
      await (await owner.sendTransaction({ to: world.contracts.turnpike, data })).wait();
    }
    expect((await core.payments.authorize(await world.signPayment())).kind).to.equal("settled");
    const plans = await core.store.db
      .selectFrom("plans")
      .select("metadata")
      .where("provider", "=", owner.address as Address)
      .orderBy("plan_index")
      .execute();
    const shown = (text: string) => (text.length > 99 ? `${text.length} of ${text.slice(-1)}` : JSON.stringify(text));
    expect(plans.map(({ metadata }) => shown(metadata))).to.deep.equal(
      [
        "x\ufffdy",
        "\ufffd\ufffd",
        "\ufffd\ufffd\ufffd",
        JSON.stringify({ name: "\u0000\ud800" }),
        "a".repeat(16_383),
        "b".repeat(16_384),
      ].map(shown),
    );
  });
});
