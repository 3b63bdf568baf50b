import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { Contract, Transaction, type TransactionLike, type Wallet } from "ethers";
import { connectRpc, createOperator } from "turnpike/chain";
import type { Hex } from "turnpike/protocol";
import { DEBIT_ITEM_GAS, MAX_TRANSACTION_GAS } from "../../../../sdk/src/chain/debit-simulation";
import { createMeter, type Meter, type MeterOptions } from "../../../../sdk/src/gate/metering/meter";
import { createMemoryMeterStore } from "../../../../sdk/src/gate/metering/shared-store";
import type { MeterEvent } from "../../../../sdk/src/gate/metering/store";
import { NO_AUTH } from "../../../support/acts";
import { type Chain, startChain } from "../../../support/chain";
import { INTERVAL_SEC, type MeteredWorld, startMeteredWorld } from "../../../support/metered-world";
import { until } from "../../../support/subscriptions";

const sumOf = (items: readonly { amount: bigint }[]) => items.reduce((sum, { amount }) => sum + amount, 0n);

describe("Metering on a chain", function () {
  this.timeout(120_000);
  let chain: Chain;
  let world: MeteredWorld;
  let meter: Meter;
  let events: MeterEvent[];
  let subscriber: Wallet;

  before(async () => {
    chain = await startChain();
    world = await startMeteredWorld(chain);
    subscriber = await chain.wallet("subscriber");
  });
  after(async () => {
    world?.close();
    await chain?.stop();
  });
  afterEach(async () => {
    await chain.provider.send("evm_setAutomine", [true]);
    await meter?.stop();
  });

  async function start(limits: MeterOptions["limits"] = {}, operator = world.createOperator()): Promise<Meter> {
    events = [];
    meter = createMeter({
      store: createMemoryMeterStore(),
      sender: operator.sender,
      states: operator.states,
      clock: { nowSec: () => 0 },
      report: (event) => events.push(event),
      limits: { settleAgeMs: 3_600_000, pollMs: 10, ...limits },
    });
    await meter.start();
    return meter;
  }

  async function facts(idHash: Hex) {
    const [state] = await world.createOperator().states.read([idHash]);
    if (state === undefined) throw new TypeError("no state");
    return state;
  }
  const charge = async (idHash: Hex, amount: bigint) => meter.reserve(idHash, amount, await facts(idHash));
  const debitsOf = async (idHash: Hex) => (await world.debited()).filter((one) => one.idHash === idHash);
  /** Mines what is pending, and whatever is sent later. In the other order a debit sent in between is never mined. */
  async function mineFromNowOn(): Promise<void> {
    await chain.provider.send("evm_setAutomine", [true]);
    await chain.provider.send("evm_mine", []);
  }
  /** The transactions of the blocks after this one, signed, in their order. */
  async function rawTransactionsAfter(block: number): Promise<string[]> {
    const raw: string[] = [];
    const head = await chain.provider.getBlockNumber();
    for (let number = block + 1; number <= head; number++) {
      const mined = await chain.provider.getBlock(number, true);
      for (const transaction of mined?.prefetchedTransactions ?? [])
        raw.push(Transaction.from(transaction as TransactionLike).serialized);
    }
    return raw;
  }
  const as = (wallet: Wallet) => world.turnpike.connect(wallet) as Contract;

  it("moves what was charged from the subscriber to the plan's payee, in one debit", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 10_000n);
    const before = await world.token.getFunction("balanceOf")(world.payTo);
    for (let i = 0; i < 5; i++) await charge(idHash, 100n);
    await meter.flush();
    expect(await debitsOf(idHash)).to.deep.equal([{ idHash, amount: 500n, index: 0 }]);
    expect((await world.token.getFunction("balanceOf")(world.payTo)) - before).to.equal(500n);
    expect(events.some((event) => event.kind === "settled" && event.transaction !== undefined)).to.equal(true);
  });

  it("A13 debits 15 subscriptions in one transaction around one whose approval is gone", async () => {
    await start();
    const payers = await Promise.all(Array.from({ length: 15 }, (_, i) => chain.wallet(`metered ${i}`)));
    const ids: Hex[] = [];
    for (const payer of payers) ids.push(await world.subscribe(payer, 10_000n));
    const revoke = new Contract(await world.token.getAddress(), ["function approve(address,uint256)"], payers[7]);
    await (await revoke.getFunction("approve")(await world.turnpike.getAddress(), 0n)).wait();
    const states = await world.createOperator().states.read(ids);
    await Promise.all(states.map((state) => meter.reserve(state.idHash, 7n, state)));
    const block = await chain.provider.getBlockNumber();
    await meter.flush();
    expect(await chain.provider.getBlockNumber(), "one transaction").to.equal(block + 1);
    expect(sumOf((await world.debited()).filter(({ idHash }) => ids.includes(idHash as Hex)))).to.equal(7n * 14n);
    expect(meter.isBlocked(ids[7] as Hex)).to.equal(true);
    expect(events).to.deep.include({ kind: "blocked", idHash: ids[7], reason: "InsufficientApproval" });

    const mined = await chain.provider.getBlock(block + 1, true);
    const gasLimit = mined?.prefetchedTransactions[0]?.gasLimit ?? 0n;
    const gasUsed = mined?.gasUsed ?? 0n;
    expect(gasLimit < (gasUsed * 16n) / 10n + 900_000n, `limit ${gasLimit}, used ${gasUsed}`).to.equal(true);
    expect(gasLimit <= MAX_TRANSACTION_GAS).to.equal(true);
  });

  it("follows a rekey on chain, with its index", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 10_000n);
    await charge(idHash, 10n);
    await meter.flush();
    await charge(idHash, 20n);
    const moved = await as(subscriber)
      .getFunction("rekey")
      .staticCall(idHash, `0x${"ab".repeat(32)}`, NO_AUTH);
    await (await as(subscriber).getFunction("rekey")(idHash, `0x${"ab".repeat(32)}`, NO_AUTH)).wait();
    await meter.flush();
    expect(await debitsOf(moved)).to.deep.equal([{ idHash: moved, amount: 20n, index: 1 }]);
  });

  it("follows two rekeys made while it was not looking", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 10_000n);
    await charge(idHash, 20n);
    let moved = idHash;
    for (const digits of ["c1", "c2"]) {
      const secretHash = `0x${digits.repeat(32)}`;
      const next = await as(subscriber).getFunction("rekey").staticCall(moved, secretHash, NO_AUTH);
      await (await as(subscriber).getFunction("rekey")(moved, secretHash, NO_AUTH)).wait();
      moved = next;
    }
    await meter.flush();
    expect(await debitsOf(moved)).to.deep.equal([{ idHash: moved, amount: 20n, index: 0 }]);
    expect(meter.unsettled().lost).to.equal(0n);
  });

  it("shows what a cancellation took", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 10_000n);
    await charge(idHash, 33n);
    await (await as(subscriber).getFunction("cancel")(idHash, false, NO_AUTH)).wait();
    await meter.flush();
    expect(meter.unsettled()).to.deep.include({ unsettled: 0n, lost: 33n });
  });

  it("A28 raises the fee of a transaction that is not mined, and debits once", async () => {
    await start({ bumpAfterMs: 30 });
    const idHash = await world.subscribe(subscriber, 10_000n);
    await charge(idHash, 10n);
    await chain.provider.send("evm_setAutomine", [false]);
    const flushed = meter.flush();
    const pending = async () => (await chain.provider.send("eth_pendingTransactions", [])) as { hash: string }[];
    await until(async () => (await pending()).length === 1);
    const first = (await pending())[0]?.hash;
    await until(async () => (await pending())[0]?.hash !== first);
    expect(await pending(), "replaced, not added").to.have.length(1);
    await chain.provider.send("evm_mine", []);
    await flushed;
    expect(sumOf(await debitsOf(idHash))).to.equal(10n);
  });

  it("A28 makes its debit again when another program used the key's nonce", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 10_000n);
    await charge(idHash, 10n);
    await chain.provider.send("evm_setAutomine", [false]);
    const flushed = meter.flush();
    const pending = async () => (await chain.provider.send("eth_pendingTransactions", [])) as { nonce: string }[];
    await until(async () => (await pending()).length === 1);
    const nonce = Number((await pending())[0]?.nonce);
    const fees = { maxFeePerGas: 10n ** 12n, maxPriorityFeePerGas: 10n ** 11n };
    await world.operator.sendTransaction({ to: world.payTo, value: 1n, nonce, ...fees });
    await mineFromNowOn();
    await flushed;
    expect(await debitsOf(idHash)).to.deep.equal([{ idHash, amount: 10n, index: 0 }]);
  });

  it("A28 takes a stranger's debit at its index for no success of its own", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 10_000n);
    await charge(idHash, 10n);
    await chain.provider.send("evm_setAutomine", [false]);
    const flushed = meter.flush();
    await until(async () => ((await chain.provider.send("eth_pendingTransactions", [])) as unknown[]).length === 1);
    // The provider itself debits the same index, and its transaction is mined first.
    const fees = { maxFeePerGas: 10n ** 12n, maxPriorityFeePerGas: 10n ** 11n, gasLimit: 300_000n };
    await world.turnpike.getFunction("debit")(idHash, 4n, 0n, fees);
    await mineFromNowOn();
    await flushed;
    expect((await debitsOf(idHash)).map(({ amount, index }) => [amount, index])).to.deep.equal([
      [4n, 0],
      [10n, 1],
    ]);
  });

  it("B8 sends a debit again, as the same bytes, when a reorganisation took it back", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 10_000n);
    await charge(idHash, 10n);
    const snapshot = await chain.provider.send("evm_snapshot", []);
    await meter.flush();
    const settled = events.find((event) => event.kind === "settled");
    await chain.provider.send("evm_revert", [snapshot]);
    expect(await debitsOf(idHash), "gone").to.deep.equal([]);
    await chain.provider.send("hardhat_mine", ["0x5"]);
    await charge(idHash, 1n);
    await meter.flush();
    await meter.flush();
    expect((await debitsOf(idHash)).map(({ amount, index }) => [amount, index])).to.deep.equal([
      [10n, 0],
      [1n, 1],
    ]);
    expect(events.filter((event) => event.kind === "settled")[1]).to.deep.equal(settled);
    expect(meter.unsettled()).to.deep.include({ charged: 11n, settled: 11n });
  });

  it("A28 B8 ends the retries of a signup that the chain's finalised blocks do not have, and debits it once they do", async () => {
    await start();
    const snapshot = await chain.provider.send("evm_snapshot", []);
    const before = await chain.provider.getBlockNumber();
    const idHash = await world.subscribe(subscriber, 10_000n);
    const signup = await rawTransactionsAfter(before);
    await charge(idHash, 10n);
    await chain.provider.send("evm_revert", [snapshot]);
    await chain.provider.send("hardhat_mine", ["0x5"]);
    await meter.flush();
    expect(events).to.deep.include({ kind: "blocked", idHash, reason: "UnknownSubscription" });
    for (const signed of signup) await chain.provider.send("eth_sendRawTransaction", [signed]);
    await meter.flush();
    expect(sumOf(await debitsOf(idHash))).to.equal(10n);
    expect(events).to.deep.include({ kind: "unblocked", idHash });
  });

  it("debits in the new cycle what the last one left, once the subscription is renewed", async () => {
    await start();
    const idHash = await world.subscribe(subscriber, 100n);
    await charge(idHash, 90n);
    await chain.advance(INTERVAL_SEC + 90_000);
    await meter.flush();
    expect(await debitsOf(idHash), "past due").to.deep.equal([]);
    await (await world.turnpike.getFunction("renew")(idHash)).wait();
    expect(meter.remaining(idHash, await facts(idHash))).to.equal(10n);
    await meter.flush();
    expect(sumOf(await debitsOf(idHash))).to.equal(90n);
  });

  it("sends nothing while fees are above the ceiling", async () => {
    await start({}, world.createOperator({ maxFeePerGas: 1n }));
    const idHash = await world.subscribe(subscriber, 100n);
    await charge(idHash, 5n);
    expect((await meter.flush().catch((error) => error)).code).to.equal("Unavailable");
    expect(await debitsOf(idHash)).to.deep.equal([]);
    expect(meter.unsettled().unsettled).to.equal(5n);
  });

  it("A14 counts with the gas that the contract gives each item", () => {
    const source = readFileSync(path.resolve(__dirname, "../../../../contracts/libraries/Frames.sol"), "utf8");
    const [, gas] = /ITEM_GAS = ([\d_]+);/.exec(source) ?? [];
    expect(DEBIT_ITEM_GAS).to.equal(BigInt((gas ?? "").replaceAll("_", "")));
  });

  it("judges without state overrides on an endpoint that has none", async () => {
    const operator = world.createOperator();
    const idHash = await world.subscribe(subscriber, 100n);
    const rpc = connectRpc({ urls: chain.rpcUrl, chainId: chain.chainId });
    const plain = createOperator({
      rpc: {
        ...rpc,
        send: async (method, params) => {
          if (params.length > 2) throw new TypeError("too many arguments");
          return rpc.send(method, params);
        },
      },
      turnpike: (await world.turnpike.getAddress()) as Hex,
      chainId: chain.chainId,
      signer: world.operator.privateKey as Hex,
    });
    await start({}, plain);
    await charge(idHash, 5n);
    await meter.flush();
    expect(sumOf(await debitsOf(idHash))).to.equal(5n);
    expect(plain.address).to.equal(operator.address);
    rpc.close();
  });
});
