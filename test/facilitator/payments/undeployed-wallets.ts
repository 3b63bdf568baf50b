import { expect } from "chai";
import { Interface } from "ethers";
import type { Address, Hex, SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { AuthorizeOutcome } from "../../../facilitator/src/payments";
import { transferCalldata } from "../../../facilitator/src/payments/calldata";
import { type FacilitatorWorld, type Payer, startWorld, until } from "../../support/facilitator";
import {
  deployFactory,
  type TestFactory,
  type UndeployedWallet,
  wrapSignature,
} from "../../support/undeployed-wallets";

const DEPLOY_GAS = 600_000;

const TRAP = new Interface(["function arm(uint8 trap)"]);

describe("payments of wallets that are not deployed yet", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let factory: TestFactory;
  let trap: TestFactory;
  let burner: TestFactory;
  let fickle: TestFactory;
  let owner: Payer;

  before(async () => {
    world = await startWorld();
    const deployer = await world.chain.wallet("deployer of factories");
    factory = await deployFactory(deployer, "WalletFactory");
    trap = await deployFactory(deployer, "TrapFactory");
    burner = await deployFactory(deployer, "BurnerFactory");
    fickle = await deployFactory(deployer, "FickleFactory");
    const listed = [factory, trap, burner, fickle].map(({ address }) => address).join(",");
    core = await world.core({ WALLET_FACTORIES: listed, WALLET_DEPLOY_GAS: String(DEPLOY_GAS) });
    owner = await world.payer(0n);
  });
  after(() => world.stop());
  afterEach(() => mining(true));

  it("A8 deploys the wallet in a transaction of its own, and settles: one deployment, one transfer", async () => {
    const wallet = await fundedWallet(factory);
    const signed = await sign(wallet);
    const outcomes = await Promise.all(Array.from({ length: 3 }, () => core.payments.authorize(signed)));
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(["settled", "settled", "settled"]);
    expect(await deploymentsTo(factory)).to.have.length(1);
    expect(await transfersOf(wallet)).to.have.length(1);
    expect(await world.chain.provider.getCode(wallet.address)).not.to.equal("0x");

    const later = await core.payments.authorize(await sign(wallet));
    expect(later.kind, "the wrapper stays on the signatures of a wallet that does not look").to.equal("settled");
    expect(await deploymentsTo(factory), "a wallet with code is not deployed again").to.have.length(1);
  });

  it("A8 settles beside ordinary payments, and through the standard channel after a reservation", async () => {
    const wallet = await fundedWallet(factory);
    const exact = await world.signExact({
      payer: { ...owner, address: wallet.address },
      grantId: `0x${"5a".repeat(32)}`,
    });
    const wrapped = { ...exact, signature: wrapSignature(exact.signature, wallet.deployment) };
    expect(await core.payments.verifyExact(wrapped)).to.deep.equal({
      kind: "valid",
      payer: wallet.address,
      isReserved: true,
    });
    expect(await world.chain.provider.getCode(wallet.address), "verifying sends nothing").to.equal("0x");
    const others = Array.from({ length: 3 }, async () => core.payments.authorize(await world.signPayment()));
    const [settled, ...rest] = await Promise.all([core.payments.settleExact(wrapped), ...others]);
    expect([settled, ...rest].map((each) => each?.kind)).to.deep.equal(Array(4).fill("settled"));
    expect(await transfersOf(wallet)).to.have.length(1);
  });

  it("A8 B13 refuses a factory that WALLET_FACTORIES does not name, and names the setting", async () => {
    const stranger = await deployFactory(await world.chain.wallet("stranger's deployer"), "WalletFactory");
    const wallet = await fundedWallet(stranger);
    const signed = await sign(wallet);
    const error = refusedWith(await core.payments.authorize(signed));
    expect(error).to.include({ code: "PaymentNotAllowed", reason: "wallet_factory" });
    expect(error.message).to.contain("WALLET_FACTORIES").and.to.contain(stranger.address);
    expect(await core.payments.verifyExact(await exactOf(wallet))).to.include({
      kind: "invalid",
      reason: "eip6492_factory_not_allowed",
    });
    expect(await deploymentsTo(stranger)).to.have.length(0);
  });

  it("A8 refuses a wallet at another address than its factory's call deploys, and a malformed wrapper", async () => {
    const [mine, other] = [await fundedWallet(factory), await fundedWallet(factory)];
    const claimed = refusedWith(await core.payments.authorize(await sign({ ...mine, deployment: other.deployment })));
    expect(claimed).to.include({ code: "InvalidSignature", reason: "wallet_deployment" });
    const victim = await world.payer();
    const forged = await sign({ ...mine, address: victim.address });
    expect(refusedWith(await core.payments.authorize(forged)).code).to.equal("InvalidSignature");
    const plain = await sign(mine);
    const cut: Hex = `0x${plain.signature.slice(200)}`;
    expect(refusedWith(await core.payments.authorize({ ...plain, signature: cut })).message).to.contain("malformed");
    expect(await transfersOf(victim)).to.have.length(0);
  });

  it("A7 refuses wallets whose trial burns gas or says no, before anything is sent", async () => {
    await trap.arm(true);
    const before = await transactions();
    for (const [each, reason] of [
      [trap, "wallet_deployment"],
      [burner, "signature"],
      [fickle, "signature"],
    ] as const) {
      const error = refusedWith(await core.payments.authorize(await sign(await fundedWallet(each))));
      expect(error).to.include({ code: "InvalidSignature", reason });
    }
    expect(await transactions()).to.have.length(before.length);
    await trap.arm(false);
  });

  it("A7 another key's signature, and a wallet without money, deploy nothing", async () => {
    const before = await transactions();
    const wallet = await fundedWallet(factory);
    const other = await world.signPayment({ payer: { ...(await world.payer(0n)), address: wallet.address } });
    const wrapped = { ...other, signature: wrapSignature(other.signature, wallet.deployment) };
    expect(refusedWith(await core.payments.authorize(wrapped)).reason).to.equal("signature");
    const poor = await factory.wallet(owner.address);
    expect(refusedWith(await core.payments.authorize(await sign(poor))).reason).to.equal("funds");
    expect(await transactions()).to.have.length(before.length);
  });

  for (const [name, kind] of [
    ["burns the gas of its transaction", 1],
    ["deploys nothing in its transaction", 2],
  ] as const) {
    it(`A7 A8 B13 a factory that ${name} costs bounded gas, counts as a loss, and harms no other payment`, async () => {
      const wallet = await fundedWallet(trap);
      const signed = await sign(wallet);
      const lossesBefore = (await losses()).length;
      const sentBefore = (await deploymentsTo(trap)).length;
      await mining(false);
      const others = Array.from({ length: 2 }, async () => core.payments.authorize(await world.signPayment()));
      const answer = core.payments.authorize(signed);
      await until(async () => (await deploymentsTo(trap)).length > sentBefore, "the deployment is on its way");
      await armAhead(kind);
      await mining(true);
      expect(refusedWith(await answer).reason).to.equal("wallet_deployment");
      expect((await Promise.all(others)).map((each) => each.kind)).to.deep.equal(["settled", "settled"]);
      const sent = await deploymentsTo(trap);
      expect(sent, "one deployment").to.have.length(sentBefore + 1);
      const gas = await world.chain.provider.getTransactionReceipt(sent.at(-1)?.hash ?? "");
      expect(Number(gas?.gasUsed)).to.be.below(DEPLOY_GAS + 40_000);
      await until(async () => (await losses()).length > lossesBefore, "the loss is counted");
      await until(async () => (await losses()).length > lossesBefore, "the loss is counted");
      expect((await losses()).slice(lossesBefore)).to.deep.equal([{ payer: wallet.address, pay_to: world.payee }]);
      expect(await transfersOf(wallet)).to.have.length(0);

      await trap.arm(false);
      expect((await core.payments.authorize(signed)).kind, "an honest attempt later").to.equal("settled");
    });
  }

  it("A7 B13 a payer who empties the wallet while it is deployed is refused, and counts as a loss", async () => {
    const wallet = await fundedWallet(factory);
    const signed = await sign(wallet);
    const rival = await world.signPayment({ payer: { ...owner, address: wallet.address }, amount: 1_000_000n });
    const lossesBefore = (await losses()).length;
    const sentBefore = (await deploymentsTo(factory)).length;
    await mining(false);
    const answer = core.payments.authorize(signed);
    await until(async () => (await deploymentsTo(factory)).length > sentBefore, "the deployment is on its way");
    // The same block deploys the wallet and takes its money.
    await sendFirst(wallet.deployment.factory, wallet.deployment.data, 3n);
    await sendFirst(world.contracts.token, transferOf(rival), 2n);
    await mining(true);
    expect(refusedWith(await answer).reason).to.equal("funds");
    await until(async () => (await losses()).length > lossesBefore, "the loss is counted");
    expect((await losses()).slice(lossesBefore)).to.deep.equal([{ payer: wallet.address, pay_to: world.payee }]);
  });

  it("A7 B4 a stranger deploys the wallet first: the payment settles", async () => {
    const wallet = await fundedWallet(factory);
    const signed = await sign(wallet);
    const sentBefore = (await deploymentsTo(factory)).length;
    await mining(false);
    const answer = core.payments.authorize(signed);
    await until(async () => (await deploymentsTo(factory)).length > sentBefore, "the deployment is on its way");
    await sendFirst(wallet.deployment.factory, wallet.deployment.data, 3n);
    await mining(true);
    expect((await answer).kind).to.equal("settled");
    expect(await transfersOf(wallet)).to.have.length(1);
  });

  it("A7 B13 refuses deployments for one payee past its limit of losses, until their payments are accepted", async () => {
    await core.stop();
    const listed = { WALLET_FACTORIES: factory.address, MAX_LOSSES_PER_PAYEE: "1", AUTHORIZE_WAIT_MS: "0" };
    await world.loseDatabase();
    core = await world.core(listed);
    const signed: SignedPayment[] = [];
    for (let i = 0; i < 2; i++) signed.push(await sign(await fundedWallet(factory)));
    const [first, second] = signed as [SignedPayment, SignedPayment];
    await mining(false);
    expect((await core.payments.authorize(first)).kind).to.equal("pending");
    expect(refusedWith(await core.payments.authorize(second))).to.include({ code: "RateLimited", reason: "losses" });
    await mining(true);
    for (const [each, name] of [
      [first, "first"],
      [second, "second"],
    ] as const) {
      await until(async () => (await core.payments.authorize(each)).kind === "settled", `the ${name} is settled`);
    }
  });

  async function fundedWallet(from: TestFactory): Promise<UndeployedWallet> {
    const wallet = await from.wallet(owner.address);
    await world.contracts.mint(wallet.address, 1_000_000n);
    return wallet;
  }

  async function sign(wallet: UndeployedWallet): Promise<SignedPayment> {
    const plain = await world.signPayment({ payer: { ...owner, address: wallet.address } });
    return { ...plain, signature: wrapSignature(plain.signature, wallet.deployment) };
  }

  async function exactOf(wallet: UndeployedWallet) {
    const plain = await world.signExact({ payer: { ...owner, address: wallet.address } });
    return { ...plain, signature: wrapSignature(plain.signature, wallet.deployment) };
  }

  function refusedWith(outcome: AuthorizeOutcome) {
    if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
    return outcome.error;
  }

  const transfersOf = async ({ address }: { readonly address: Address }) =>
    (await world.transfers()).filter(({ from }) => from === address);

  const transactions = () => core.store.db.selectFrom("transactions").selectAll().execute();

  const deploymentsTo = async ({ address }: TestFactory) =>
    (await transactions()).filter(({ to_address, status }) => to_address === address && status !== "queued");

  const losses = () => core.store.db.selectFrom("failed_spends").select(["payer", "pay_to"]).orderBy("at_ms").execute();

  const mining = (isOn: boolean) => world.chain.provider.send("evm_setIntervalMining", [isOn ? 100 : 0]);

  /** Sends a call that the next block runs before the relayer's transactions. */
  async function sendFirst(to: Address, data: string, tip: bigint): Promise<void> {
    const sender = await world.chain.wallet(`rival ${tip}`);
    const fees = { maxFeePerGas: 10n ** 12n, maxPriorityFeePerGas: tip * 10n ** 10n };
    await sender.sendTransaction({ to, data, gasLimit: 500_000n, ...fees });
  }

  const armAhead = (kind: 1 | 2) => sendFirst(trap.address, TRAP.encodeFunctionData("arm", [kind]), 3n);

  const transferOf = ({ authorization, signature, token }: SignedPayment) =>
    transferCalldata({ token, ...authorization, signature });
});
