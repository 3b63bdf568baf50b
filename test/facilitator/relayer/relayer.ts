import { expect } from "chai";
import { turnpikeInterface } from "turnpike/chain";
import type { Address, Hex } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { intrinsicGas } from "../../../facilitator/src/relayer";
import { bumpedFees, firstFees } from "../../../facilitator/src/relayer/fees";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";
import { GROUPS } from "../chaos/support/faults";
import { startChaosRpc } from "../chaos/support/rpc";

describe("fees", () => {
  const limits = { maxFeePerGasWei: 1_000n, priorityFeeWei: 10n };

  it("leave a margin for rising base fees, within the ceiling", () => {
    expect(firstFees(100n, limits)).to.deep.equal({ maxFeeWei: 210n, priorityFeeWei: 10n });
    expect(firstFees(700n, limits)).to.deep.equal({ maxFeeWei: 1_000n, priorityFeeWei: 10n });
    expect(firstFees(990n, limits)?.maxFeeWei).to.equal(1_000n);
    expect(firstFees(991n, limits)).to.equal(undefined);
  });

  it("are raised by at least a tenth, both of them, or not at all", () => {
    let fees = { maxFeeWei: 210n, priorityFeeWei: 10n };
    for (let bumped = bumpedFees(fees, 100n, limits); bumped; bumped = bumpedFees(fees, 100n, limits)) {
      expect(bumped.maxFeeWei * 10n >= fees.maxFeeWei * 11n).to.equal(true);
      expect(bumped.priorityFeeWei * 10n >= fees.priorityFeeWei * 11n).to.equal(true);
      expect(bumped.maxFeeWei <= limits.maxFeePerGasWei).to.equal(true);
      fees = bumped;
    }
    expect(fees.maxFeeWei > 800n).to.equal(true);
  });
});

describe("relayer", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;

  before(async () => {
    world = await startWorld();
  });
  after(() => world.stop());

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  let keys = 0;
  async function fresh(more: Record<string, string> = {}): Promise<{ core: Core; key: Hex }> {
    await world.loseDatabase();
    const key = testKey(`lane ${keys++}`) as Hex;
    await fund(world.chain, walletOf(world.chain, key).address as Address);
    return { core: await world.core({ RELAYER_KEYS: key, ...more }), key };
  }
  const mint = (core: Core, idempotencyKey: string, to: Address, amount = 1n) =>
    core.relayer.submit({
      purpose: "test",
      idempotencyKey,
      to: world.contracts.token,
      data: world.token.interface.encodeFunctionData("mint", [to, amount]) as Hex,
      gasLimit: 100_000n,
    });
  const someone = (): Address => walletOf(world.chain, testKey(`someone ${keys++}`) as Hex).address as Address;

  it("sends one transaction per key of idempotency, and returns its receipt", async () => {
    const { core } = await fresh();
    const to = someone();
    const ids = await Promise.all(Array.from({ length: 20 }, () => mint(core, "the same", to)));
    expect(new Set(ids).size).to.equal(1);
    const outcome = await core.relayer.waitFor(ids[0] ?? "", 60_000);
    if (outcome.kind !== "mined") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.success).to.equal(true);
    expect(outcome.logs).to.have.length(1);
    expect(await world.contracts.balanceOf(to)).to.equal(1n);
    expect(await core.relayer.outcome("no such")).to.deep.equal({ kind: "unknown" });
    await core.stop();
  });

  it("B10 S7 sixty transactions at once are mined in the order of their nonces, without a gap", async () => {
    const { core } = await fresh();
    const to = someone();
    const ids = await Promise.all(Array.from({ length: 60 }, (_, index) => mint(core, `one of many ${index}`, to)));
    const outcomes = await Promise.all(ids.map((id) => core.relayer.waitFor(id, 60_000)));
    expect(outcomes.every((outcome) => outcome.kind === "mined" && outcome.success)).to.equal(true);
    expect(await world.contracts.balanceOf(to)).to.equal(60n);
    const rows = await core.store.db.selectFrom("transactions").select("nonce").orderBy("nonce").execute();
    expect(rows.map(({ nonce }) => nonce)).to.deep.equal(Array.from({ length: 60 }, (_, index) => index));
    await core.stop();
  });

  it("reports a reverted transaction as mined without success", async () => {
    const { core } = await fresh();
    const data = world.token.interface.encodeFunctionData("transfer", [someone(), 10n ** 30n]) as Hex;
    const id = await core.relayer.submit({
      purpose: "test",
      idempotencyKey: "reverts",
      to: world.contracts.token,
      data,
      gasLimit: 100_000n,
    });
    const outcome = await core.relayer.waitFor(id, 60_000);
    expect(outcome).to.include({ kind: "mined", success: false });
    await core.stop();
  });

  it("B12 raises the fee of what nobody mines: one more hash of the same nonce and calldata, and one receipt", async () => {
    const node = await startChaosRpc(world.chain.rpcUrl);
    // It shows a low fee while blocks are dearer than the ceiling: each replacement is in vain.
    const respond = (_: unknown, honest: unknown) => ({ ...(honest as object), baseFeePerGas: "0x3b9aca00" });
    node.set({ name: "low fees", strikes: GROUPS.head, act: { kind: "lie", respond } });
    const { core, key } = await fresh({ BUMP_AFTER_MS: "500", RPC_URLS: node.url });
    await rpc("evm_setIntervalMining", [0]);
    const to = someone();
    const id = await mint(core, "bumped", to);
    const hashes = () =>
      core.store.db
        .selectFrom("transaction_hashes")
        .selectAll()
        .where("transaction_id", "=", id)
        .orderBy("signed_at_ms")
        .execute();
    await until(async () => (await hashes()).length === 1, "it is sent");
    const forms = await until(async () => {
      await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x2e90edd000"]);
      await rpc("evm_mine");
      const all = await hashes();
      return all.length >= 3 && all;
    }, "the fee was raised twice");
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x3b9aca00"]);
    for (const [index, form] of forms.slice(1).entries()) {
      expect(BigInt(form.max_fee_wei) * 10n >= BigInt(forms[index]?.max_fee_wei ?? 0) * 11n).to.equal(true);
    }
    await rpc("evm_setIntervalMining", [100]);
    const outcome = await core.relayer.waitFor(id, 60_000);
    expect(outcome.kind).to.equal("mined");
    expect(await world.contracts.balanceOf(to)).to.equal(1n);
    expect(await world.chain.provider.getTransactionCount(walletOf(world.chain, key).address)).to.equal(1);
    await core.stop();
    await node.stop();
  });

  it("counts no receipt that is ahead of its block, and the same one once the node has the block", async () => {
    const node = await startChaosRpc(world.chain.rpcUrl);
    let shown = 0;
    const showing = (_: unknown, honest: unknown) => {
      if (honest !== null) shown++;
      return honest;
    };
    node.set(
      { name: "no block yet", strikes: GROUPS.block, act: { kind: "lie", respond: () => null } },
      { name: "receipts", strikes: GROUPS.receipt, act: { kind: "lie", respond: showing } },
    );
    const { core } = await fresh({ RPC_URLS: node.url });
    const to = someone();
    let kind: string | undefined;
    const waiting = core.relayer.waitFor(await mint(core, "ahead", to), 60_000).then((outcome) => {
      kind = outcome.kind;
    });
    await until(async () => shown >= 3, "its receipt is seen");
    expect(kind).to.equal(undefined);
    node.set();
    await waiting;
    expect([kind, await world.contracts.balanceOf(to)]).to.deep.equal(["mined", 1n]);
    await core.stop();
    await node.stop();
  });

  it("stops the lane when somebody else sends with its key, and says so", async () => {
    const { core, key } = await fresh();
    await core.relayer.waitFor(await mint(core, "before", someone()), 60_000);
    await rpc("evm_setIntervalMining", [0]);
    const wallet = walletOf(world.chain, key);
    const foreign = await wallet.sendTransaction({
      to: wallet.address,
      value: 0n,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 10n ** 10n,
      gasLimit: 30_000n,
      nonce: 1,
    });
    const id = await mint(core, "after", someone());
    await until(async () => core.relayer.health().lanes[0]?.inFlight === 1, "ours is stored");
    await rpc("evm_setIntervalMining", [100]);
    await foreign.wait();
    const outcome = await core.relayer.waitFor(id, 60_000);
    expect(outcome).to.deep.equal({ kind: "displaced" });
    await until(async () => core.relayer.health().lanes[0]?.status === "stopped", "the lane has stopped");
    expect(core.relayer.health()).to.include({ ok: false });
    expect(core.relayer.health().reason).to.match(/not ours/);
    await core.stop();

    const again = await world.core({ RELAYER_KEYS: key });
    expect(again.relayer.health(), "a restart forgets nothing").to.include({ ok: false });
    await again.stop();
    const adopted = await world.core({ RELAYER_KEYS: key, ADOPT_NONCE: "true" });
    expect(adopted.relayer.health()).to.include({ ok: true });
    expect((await adopted.relayer.waitFor(await mint(adopted, "at last", someone()), 60_000)).kind).to.equal("mined");
    await adopted.stop();
  });

  it("B16 refuses to send when the database is an old copy that has not seen the key's transactions", async () => {
    const { core, key } = await fresh();
    await core.relayer.waitFor(await mint(core, "seen", someone()), 60_000);
    await core.store.db.updateTable("lanes").set({ next_nonce: 0 }).execute();
    await core.store.db.deleteFrom("transaction_hashes").execute();
    await core.store.db.deleteFrom("transactions").execute();
    await core.stop();
    const old = await world.core({ RELAYER_KEYS: key });
    expect(old.relayer.health()).to.include({ ok: false });
    await old.stop();
  });

  it("simulates, and names the contract's error with its arguments", async () => {
    const { core } = await fresh();
    const idHash = `0x${"77".repeat(32)}`;
    const data = turnpikeInterface.encodeFunctionData("renew", [idHash]) as Hex;
    const renewed = await core.relayer.simulate({ to: world.contracts.turnpike, data });
    if (renewed.kind !== "reverted") expect.fail("it succeeds");
    expect(renewed.error).to.deep.include({ name: "SubscriptionNotActive", args: { idHash, status: "NONE" } });
    expect(renewed.error.error.code).to.equal("SubscriptionNotActive");
    const transfer = world.token.interface.encodeFunctionData("transferWithAuthorization", [
      someone(),
      someone(),
      1n,
      0n,
      1n,
      idHash,
      `0x${"00".repeat(65)}`,
    ]) as Hex;
    const moved = await core.relayer.simulate({ to: world.contracts.token, data: transfer });
    expect(moved.kind === "reverted" && moved.error.text).to.match(/expired/);
    await core.stop();
  });

  it("refuses to start on another chain, or where a contract is not", async () => {
    await world.loseDatabase();
    const failure = async (more: Record<string, string>) =>
      world.core(more).then(
        () => "started",
        (error: Error) => error.message,
      );
    expect(await failure({ CHAIN_ID: "31338" })).to.match(/RPC_URLS serve another chain than CHAIN_ID 31338/);
    expect(await failure({ BATCH_SETTLER: someone() })).to.match(/BATCH_SETTLER names 0x/);
  });

  it("asks the next node when the first does not answer, and passes over one of another chain", async () => {
    const { core } = await fresh({ RPC_URLS: `http://127.0.0.1:9,${world.chain.rpcUrl}`, RPC_TIMEOUT_MS: "10000" });
    expect((await core.relayer.waitFor(await mint(core, "failover", someone()), 60_000)).kind).to.equal("mined");
    await core.stop();
  });

  it("knows what calldata costs before any code runs, by the dearer rule", () => {
    expect(intrinsicGas("0x")).to.equal(21_000n);
    expect(intrinsicGas("0x00ff")).to.equal(21_050n);
  });
});
