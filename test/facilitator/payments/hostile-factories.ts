/** Undeployed wallets (ERC-6492) whose factory or wallet turns on the Facilitator: each costs a bounded amount of gas. */
import { expect } from "chai";
import { Interface, type TransactionReceipt } from "ethers";
import { checksum, type Hex, keccakText, type SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { AuthorizeOutcome } from "../../../facilitator/src/payments";
import { transferCalldata } from "../../../facilitator/src/payments/calldata";
import { type FacilitatorWorld, fund, type Payer, startWorld, walletOf } from "../../support/facilitator";
import {
  deployFactory,
  type FactoryKind,
  type TestFactory,
  type UndeployedWallet,
  wrapSignature,
} from "../../support/undeployed-wallets";

const DEPLOY_GAS = 600_000;

/** Of one attempt: `GAS_PER_ITEM`, what a wallet may add, and the transaction itself. */
const ITEM_GAS = 600_000;

const LIMIT = 3;

const REENTRANT = new Interface(["function plant(address target, bytes data)"]);

describe("hostile factories of wallets that are not deployed yet", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let owner: Payer;
  const factories = {} as Record<FactoryKind, TestFactory>;

  before(async () => {
    world = await startWorld();
    const deployer = await world.chain.wallet("deployer of hostile factories");
    for (const kind of ["WalletFactory", "LiarFactory", "BombFactory", "ReentrantFactory", "EagerFactory"] as const)
      factories[kind] = await deployFactory(deployer, kind);
    const listed = Object.values(factories).map(({ address }) => address);
    core = await world.core({
      ...{ WALLET_FACTORIES: listed.join(","), WALLET_DEPLOY_GAS: String(DEPLOY_GAS) },
      ...{ MAX_LOSSES_PER_PAYER: String(LIMIT), AUTHORIZE_WAIT_MS: "20000" },
    });
    owner = await world.payer(0n);
  });
  after(() => world.stop());

  it("A7 A8 a factory that returns a hundred kilobytes deploys within its gas, and the payment settles", async () => {
    const wallet = await fundedWallet("BombFactory");
    expect((await core.payments.authorize(await sign(wallet))).kind).to.equal("settled");
    expect(await gasOf("BombFactory")).to.be.below(DEPLOY_GAS + 60_000);
  });

  it("A7 A8 a factory that makes a call of a stranger's moves each payment once", async () => {
    const wallet = await fundedWallet("ReentrantFactory");
    const signed = await sign(wallet);
    const victim = await world.payer();
    const other = await world.signPayment({ payer: victim });
    // Its call moves another payer's payment, which anyone may submit.
    await plant(other);
    const outcome = await core.payments.authorize(signed);
    expect(outcome.kind).to.equal("settled");
    expect(await movedFrom(wallet.address)).to.equal(1);
    expect(await movedFrom(victim.address)).to.equal(1);
    expect((await core.payments.authorize(other)).kind, "the stranger's transfer is found").to.equal("settled");
    expect(await movedFrom(victim.address)).to.equal(1);
  });

  it("A7 A8 a factory that moves the wallet's own payment as it deploys: it moves once, and buys at most once", async () => {
    const wallet = await fundedWallet("EagerFactory");
    const plain = await world.signPayment({ payer: { ...owner, address: wallet.address } });
    await plant(plain, "EagerFactory");
    const native = { ...plain, signature: wrapSignature(plain.signature, wallet.deployment) };
    for (let count = 0; count < 2; count++) {
      const outcome = await core.payments.authorize(native);
      expect(outcome.kind, outcome.kind === "refused" ? outcome.error.message : "").to.equal("settled");
      expect(await movedFrom(wallet.address)).to.equal(1);
    }

    const second = await fundedWallet("EagerFactory");
    const grantId = keccakText("a purchase by the eager factory's wallet");
    const exact = await world.signExact({ payer: { ...owner, address: second.address }, grantId });
    await plant(exact, "EagerFactory");
    const reserved = { ...exact, signature: wrapSignature(exact.signature, second.deployment) };
    const verdict = await core.payments.verifyExact(reserved);
    expect(verdict, verdict.kind === "valid" ? "" : `${verdict.reason} ${verdict.error.message}`).to.include({
      kind: "valid",
      isReserved: true,
    });
    for (let count = 0; count < 2; count++) {
      const settled = await core.payments.settleExact(reserved);
      // Both are true: refused where the deployment's block, which moved it, is read before the payment has a row, and
      // failed where it is read after. Neither moves the money again, nor grants anything.
      expect(settled.kind, "what moved before it was accepted buys nothing").to.be.oneOf(["refused", "failed"]);
      if (settled.kind === "refused") expect(settled.reason).to.equal("invalid_exact_evm_nonce_already_used");
      expect(await movedFrom(second.address)).to.equal(1);
    }
  });

  it("A7 B13 a wallet that accepts in simulations alone is refused after a bounded loss, and counts", async () => {
    const wallet = await fundedWallet("LiarFactory");
    const before = (await spent()).length;
    const error = refusedWith(await core.payments.authorize(await sign(wallet)));
    expect(error).to.include({ code: "RateLimited", reason: "losses" });
    const [deployment, ...attempts] = (await spent()).slice(before);
    expect(Number(deployment?.gasUsed)).to.be.below(DEPLOY_GAS + 60_000);
    expect(attempts).to.have.length(LIMIT);
    for (const { gasUsed } of attempts) expect(Number(gasUsed)).to.be.below(ITEM_GAS);
    expect(await movedFrom(wallet.address)).to.equal(0);
    const again = refusedWith(await core.payments.authorize(await sign(wallet)));
    expect(again, "another payment of it").to.include({ code: "RateLimited", reason: "losses" });
    expect(await spent()).to.have.length(before + 1 + LIMIT);
  });

  it("A7 B13 payments of such a wallet that come at once are not sent again past its limit of losses", async () => {
    const wallet = await fundedWallet("LiarFactory");
    const { factory: to, data } = wallet.deployment;
    await (await world.chain.wallet("deployer of a liar")).sendTransaction({ to, data }).then((sent) => sent.wait());
    const payments: SignedPayment[] = [];
    for (let count = 0; count < 12; count++) payments.push(await sign(wallet, 100n));
    const outcomes = await Promise.all(payments.map((each) => core.payments.authorize(each)));
    for (const outcome of outcomes) expect(refusedWith(outcome).reason).to.equal("losses");
    const rows = await core.store.db
      .selectFrom("payments")
      .select(["state", "attempts"])
      .where("payer", "=", wallet.address)
      .execute();
    expect(rows.map(({ state }) => state)).to.deep.equal(payments.map(() => "parked"));
    const attempts = rows.reduce((sum, row) => sum + row.attempts, 0);
    expect(attempts).to.be.within(payments.length, payments.length + LIMIT);
    expect(await movedFrom(wallet.address)).to.equal(0);
  });

  it("A8 refuses a wrapper in a wrapper, and one around an ordinary account's signature: nothing is deployed", async () => {
    const before = await gasOf("WalletFactory");
    const wallet = await fundedWallet("WalletFactory");
    const signed = await sign(wallet);
    const nested = { ...signed, signature: wrapSignature(signed.signature, wallet.deployment) };
    expect(refusedWith(await core.payments.authorize(nested))).to.include({ code: "InvalidSignature" });
    const payer = await world.payer();
    const plain = await world.signPayment({ payer });
    const wrapped = { ...plain, signature: wrapSignature(plain.signature, wallet.deployment) };
    expect((await core.payments.authorize(wrapped)).kind, "the account's own signature counts").to.equal("settled");
    expect(await gasOf("WalletFactory")).to.equal(before);
    const bare = checksum(`0x${"9e".repeat(20)}`);
    const empty = { ...signed, signature: wrapSignature(signed.signature, { factory: bare, data: "0x" }) };
    expect(refusedWith(await core.payments.authorize(empty)).reason).to.equal("wallet_factory");
  });

  it("A8 B13 a wallet that is deployed already is asked, and its factory's call is ignored", async () => {
    const wallet = await fundedWallet("WalletFactory");
    expect((await core.payments.authorize(await sign(wallet))).kind).to.equal("settled");
    const before = await gasOf("WalletFactory");
    const garbage = { factory: factories.BombFactory.address, data: `0x${"ff".repeat(2_000)}` as Hex };
    const plain = await world.signPayment({ payer: { ...owner, address: wallet.address } });
    const again = { ...plain, signature: wrapSignature(plain.signature, garbage) };
    expect((await core.payments.authorize(again)).kind).to.equal("settled");
    expect(await gasOf("WalletFactory")).to.equal(before);
  });

  async function fundedWallet(kind: FactoryKind): Promise<UndeployedWallet> {
    const wallet = await factories[kind].wallet(owner.address);
    await world.contracts.mint(wallet.address, 1_000_000n);
    return wallet;
  }

  async function sign(wallet: UndeployedWallet, amount = 250_000n): Promise<SignedPayment> {
    const plain = await world.signPayment({ payer: { ...owner, address: wallet.address }, amount });
    return { ...plain, signature: wrapSignature(plain.signature, wallet.deployment) };
  }

  async function plant(
    { token, authorization, signature }: Pick<SignedPayment, "token" | "authorization" | "signature">,
    kind: FactoryKind = "ReentrantFactory",
  ): Promise<void> {
    const stranger = await world.payer(0n);
    await fund(world.chain, stranger.address);
    const data = REENTRANT.encodeFunctionData("plant", [
      token,
      transferCalldata({ token, ...authorization, signature }),
    ]);
    await (await walletOf(world.chain, stranger.key).sendTransaction({ to: factories[kind].address, data })).wait();
  }

  function refusedWith(outcome: AuthorizeOutcome) {
    if (outcome.kind !== "refused") expect.fail(`it is ${outcome.kind}`);
    return outcome.error;
  }

  const movedFrom = async (payer: string) => (await world.transfers()).filter(({ from }) => from === payer).length;

  /** Receipts of all that the relayer has sent. */
  async function spent(): Promise<TransactionReceipt[]> {
    const hashes = await core.store.db
      .selectFrom("transaction_hashes")
      .select("hash")
      .orderBy("signed_at_ms")
      .execute();
    const receipts = await Promise.all(hashes.map(({ hash }) => world.chain.provider.getTransactionReceipt(hash)));
    return receipts.flatMap((receipt) => receipt ?? []);
  }

  /** Gas of all transactions to a factory. */
  async function gasOf(kind: FactoryKind): Promise<number> {
    const to = factories[kind].address;
    return (await spent()).filter((each) => each.to === to).reduce((sum, { gasUsed }) => sum + Number(gasUsed), 0);
  }
});
