// The creation call that tries a payment of a wallet that is not deployed: nothing remains of it.

import { expect } from "chai";
import { AbiCoder, id, Wallet } from "ethers";
import { ethers } from "hardhat";
import type { WalletLens } from "../../sdk/src/chain/generated";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

type Trial = WalletLens.TrialStruct;

const MAX_GAS = 16_777_216n;

const SALT = id("WalletLens");

const DIGEST = id("what the wallet signs");

const OWNER = new Wallet(id("TEST KEY: owner of an undeployed wallet"));

async function ask(trial: Trial): Promise<{ deployed: boolean; accepted: boolean; moved: boolean }> {
  const { data } = await (await ethers.getContractFactory("WalletLens")).getDeployTransaction(trial);
  const answer = await ethers.provider.call({ data, gasLimit: MAX_GAS });
  const [deployed, accepted, moved] = AbiCoder.defaultAbiCoder().decode(["bool", "bool", "bool"], answer);
  return { deployed, accepted, moved };
}

describe("WalletLens", () => {
  async function fixture() {
    const w = await c.world();
    const transferOf = (amount: bigint) =>
      w.token.interface.encodeFunctionData("transfer", [w.stranger.address, amount]);
    async function trialAt(name: string, changes: Partial<Trial> = {}): Promise<Trial> {
      const factory = await ethers.deployContract(name);
      const args = [OWNER.address, SALT];
      return {
        wallet: await factory.getFunction("addressOf").staticCall(...args),
        factory: await factory.getAddress(),
        factoryData: factory.interface.encodeFunctionData("create", args),
        deployGas: 2_000_000n,
        digest: DIGEST,
        signature: OWNER.signingKey.sign(DIGEST).serialized,
        token: await w.token.getAddress(),
        // The lens itself holds nothing.
        transfer: transferOf(0n),
        ...changes,
      };
    }
    return { ...w, transferOf, trialAt };
  }

  it("deploys the wallet, asks it and tries the transfer, and leaves nothing behind", async () => {
    const w = await loadFixture(fixture);
    const trial = await w.trialAt("WalletFactory");
    expect(await ask(trial)).to.deep.equal({ deployed: true, accepted: true, moved: true });
    expect(await ethers.provider.getCode(trial.wallet)).to.equal("0x");
  });

  it("stops at the first step that fails", async () => {
    const w = await loadFixture(fixture);
    const nothing = { deployed: false, accepted: false, moved: false };
    expect(await ask(await w.trialAt("WalletFactory", { factoryData: "0x" }))).to.deep.equal(nothing);
    expect(await ask(await w.trialAt("WalletFactory", { wallet: w.stranger.address }))).to.deep.equal(nothing);
    const other = OWNER.signingKey.sign(id("another text")).serialized;
    const refused = { deployed: true, accepted: false, moved: false };
    expect(await ask(await w.trialAt("WalletFactory", { signature: other }))).to.deep.equal(refused);
    expect(await ask(await w.trialAt("FickleFactory"))).to.deep.equal(refused);
    const unpaid = { deployed: true, accepted: true, moved: false };
    expect(await ask(await w.trialAt("WalletFactory", { transfer: w.transferOf(1n) }))).to.deep.equal(unpaid);
  });

  it("answers after a factory, a wallet or a token that burns its gas", async () => {
    const w = await loadFixture(fixture);
    const trap = await w.trialAt("TrapFactory");
    const factory = await ethers.getContractAt("TrapFactory", trap.factory as string);
    await factory.arm(1);
    expect(await ask(trap)).to.deep.equal({ deployed: false, accepted: false, moved: false });
    expect(await ask(await w.trialAt("BurnerFactory"))).to.deep.equal({
      deployed: true,
      accepted: false,
      moved: false,
    });
    const token = await ethers.deployContract("GasBurnerToken");
    await token.arm(true);
    const burnt = await w.trialAt("WalletFactory", { token: await token.getAddress() });
    expect(await ask(burnt)).to.include({ deployed: true, accepted: true });
  });
});
