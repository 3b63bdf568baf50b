/** Accounts that delegate their code (EIP-7702), or take it back, between acceptance and settlement: by real transactions. */
import { expect } from "chai";
import { ContractFactory } from "ethers";
import type { Address, Hex } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { AuthorizeOutcome } from "../../../facilitator/src/payments";
import { readArtifact } from "../../../scripts/deploy/artifact";
import {
  BLOCK_MS,
  type FacilitatorWorld,
  fund,
  type Payer,
  startWorld,
  until,
  walletOf,
} from "../../support/facilitator";

const NOBODY = "0x0000000000000000000000000000000000000000";

/** Anywhere but to the account itself, whose new code takes no bare call. */
const ELSEWHERE = "0x000000000000000000000000000000000000dEaD";

describe("accounts that delegate between acceptance and settlement", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    world = await startWorld();
    core = await world.core({ AUTHORIZE_WAIT_MS: "20000", MAX_LOSSES_PER_PAYEE: "1000" });
  });
  after(() => world.stop());

  const mining = (isOn: boolean) => world.chain.provider.send("evm_setIntervalMining", [isOn ? BLOCK_MS : 0]);
  const movedFrom = async ({ address }: Payer) =>
    (await world.transfers()).filter(({ from }) => from === address).length;

  const codeOf = (outcome: AuthorizeOutcome) => (outcome.kind === "refused" ? outcome.error.code : outcome.kind);
  const attemptsOf = async ({ address }: Payer) => {
    const query = core.store.db.selectFrom("payments").select("attempts").where("payer", "=", address);
    return (await query.executeTakeFirst())?.attempts;
  };

  async function deployWallet(kind: string, owner: Payer): Promise<Address> {
    const deployer = await world.chain.wallet("deployer of delegates");
    const { initCode } = readArtifact("contracts/test/TestWallets.sol", kind);
    const made = await new ContractFactory(["constructor(address)"], initCode, deployer).deploy(owner.address);
    await made.waitForDeployment();
    return (await made.getAddress()) as Address;
  }

  /** The account's own transaction, ahead of ours in its block. */
  async function delegate({ key, address }: Payer, to: Address, isNow = false): Promise<void> {
    await fund(world.chain, address);
    const account = walletOf(world.chain, key);
    const nonce = await world.chain.provider.getTransactionCount(address);
    const authorization = await account.authorize({ address: to, nonce: nonce + 1, chainId: world.chain.chainId });
    const fees = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n };
    const sent = await account.sendTransaction({
      type: 4,
      to: ELSEWHERE,
      nonce,
      gasLimit: 200_000n,
      authorizationList: [authorization],
      ...fees,
    });
    if (isNow) await sent.wait();
  }

  /** Accepts the payer's payment among others, changes the account's code before ours is mined, and mines both. */
  async function settleAcross(payer: Payer, change: () => Promise<void>, signature?: Hex) {
    const signed = { ...(await world.signPayment({ payer })), ...(signature && { signature }) };
    const others = await Promise.all(Array.from({ length: 3 }, () => world.signPayment()));
    await mining(false);
    const answers = [signed, ...others].map((each) => core.payments.authorize(each));
    await until(async () => {
      const sent = await core.store.db.selectFrom("payments").select("state").where("state", "=", "sent").execute();
      return sent.length === 4;
    }, "all are on their way");
    await change();
    await mining(true);
    const [first, ...rest] = (await Promise.all(answers)) as [AuthorizeOutcome, ...AuthorizeOutcome[]];
    expect(rest.map(({ kind }) => kind)).to.deep.equal(["settled", "settled", "settled"]);
    return { signed, outcome: first };
  }

  for (const kind of ["FickleWallet", "BurnerWallet"])
    it(`A7 S5 an account that delegates to a ${kind} moves nothing and harms nobody, and pays once when it takes that back`, async () => {
      const payer = await world.payer();
      const refusing = await deployWallet(kind, payer);
      const { signed, outcome } = await settleAcross(payer, () => delegate(payer, refusing));
      expect(codeOf(outcome)).to.equal("TransferFailed");
      expect([await movedFrom(payer), await attemptsOf(payer)]).to.deep.equal([0, 1]);
      await delegate(payer, NOBODY, true);
      expect((await core.payments.authorize(signed)).kind).to.equal("settled");
      expect(await movedFrom(payer)).to.equal(1);
    });

  it("A7 an account that takes its delegation back settles by its own key", async () => {
    const payer = await world.payer();
    await delegate(payer, await deployWallet("TestWallet", payer), true);
    const { outcome } = await settleAcross(payer, () => delegate(payer, NOBODY));
    expect([outcome.kind, await movedFrom(payer)]).to.deep.equal(["settled", 1]);
  });

  it("A7 B13 an account whose code accepted any signature, and which takes it back, costs one attempt and is refused", async () => {
    const payer = await world.payer();
    // It says yes to whatever it is asked.
    await delegate(payer, await deployWallet("GasProbeWallet", payer), true);
    const { outcome } = await settleAcross(payer, () => delegate(payer, NOBODY), `0x${"11".repeat(65)}`);
    expect(codeOf(outcome)).to.equal("InvalidSignature");
    expect([await movedFrom(payer), await attemptsOf(payer)]).to.deep.equal([0, 1]);
  });
});
