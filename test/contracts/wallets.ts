// Subscribers with code: ERC-1271 wallets, sound and hostile, and EIP-7702 accounts.

import { p256 } from "@noble/curves/p256";
import { expect } from "chai";
import { AbiCoder, concat, dataSlice, getBytes, id, type Signer, toBeHex } from "ethers";
import { ethers } from "hardhat";
import type { TestWallet } from "../../sdk/src/chain/generated";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

/** A wallet that `stranger` owns, with funds and an approval. */
async function walletOf(w: c.World, name = "TestWallet"): Promise<TestWallet> {
  const wallet = (await ethers.deployContract(name, [w.stranger.address])) as unknown as TestWallet;
  await w.token.mint(wallet, 10n * c.PRICE);
  const approve = w.token.interface.encodeFunctionData("approve", [await w.turnpike.getAddress(), c.FOREVER]);
  await wallet.execute(w.token, approve);
  return wallet;
}

async function signup(w: c.World, wallet: TestWallet, signer: Signer, secretHash = c.freshSecretHash()) {
  const subscriber = await wallet.getAddress();
  const message = { subscriber, planId: w.planId, secretHash, maxOverage: 0n, deadline: c.FOREVER };
  const signature = await c.sign(w, signer, "Subscribe", message);
  const send = (of = subscriber, bytes = signature) =>
    w.turnpike
      .connect(w.relayer)
      .subscribe(...c.signupArgs(of, { planId: w.planId, secretHash }, { deadline: c.FOREVER, signature: bytes }), {
        gasLimit: 3_000_000n,
      });
  const args = c.signupArgs(subscriber, message, { deadline: c.FOREVER, signature });
  const accepted = () =>
    w.turnpike.subscribe.staticCall(...args, { gasLimit: 3_000_000n }).then(
      () => true,
      () => false,
    );
  return { send, accepted, signature, idHash: await w.turnpike.idHashOf(subscriber, secretHash) };
}

describe("Wallets", () => {
  it("a wallet's owner signs for it", async () => {
    const w = await loadFixture(c.world);
    const wallet = await walletOf(w);
    const s = await signup(w, wallet, w.stranger);
    await expect(s.send()).to.emit(w.turnpike, "Subscribed");
    const auth = await c.authFor(w, "Pause", s.idHash, {}, { signer: w.stranger });
    await expect(w.turnpike.pause(s.idHash, auth)).to.emit(w.turnpike, "Paused");
  });

  it("a wallet that calls is the actor, not the sender of its transaction", async () => {
    const w = await loadFixture(c.world);
    const wallet = await walletOf(w);
    const s = await signup(w, wallet, w.stranger);
    await s.send();
    const cancel = w.turnpike.interface.encodeFunctionData("cancel", [s.idHash, false, c.NO_AUTH]);
    await expect(wallet.connect(w.relayer).execute(w.turnpike, cancel))
      .to.emit(w.turnpike, "Cancelled")
      .withArgs(s.idHash, false, await wallet.getAddress());
  });

  it("a provider with code ends subscriptions in its own name, too", async () => {
    const w = await loadFixture(c.world);
    const provider = await walletOf(w);
    const terms = await c.termsOf(w);
    const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
    const salt = c.freshSalt();
    const from = await provider.getAddress();
    const planId = await w.turnpike.connect(ethers.provider).createPlan.staticCall(terms, salt, "{}", { from });
    await provider.execute(w.turnpike, encode("createPlan", [terms, salt, "{}"]));
    const s = await c.subscribe(w, { planId });
    await expect(provider.connect(w.relayer).execute(w.turnpike, encode("cancel", [s.idHash, true, c.NO_AUTH])))
      .to.emit(w.turnpike, "Cancelled")
      .withArgs(s.idHash, true, from);
  });

  it("a wallet refuses the signature of anyone else", async () => {
    const w = await loadFixture(c.world);
    const wallet = await walletOf(w);
    const s = await signup(w, wallet, w.relayer);
    await expect(s.send())
      .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
      .withArgs(await wallet.getAddress());
  });

  it("A6 a signature for one wallet does not serve for another of the same owner", async () => {
    const w = await loadFixture(c.world);
    const [one, other] = [await walletOf(w), await walletOf(w)];
    const s = await signup(w, one, w.stranger);
    await expect(s.send(await other.getAddress()))
      .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
      .withArgs(await other.getAddress());
  });

  it("an EIP-7702 account signs with its own key, whatever its code says", async () => {
    const w = await loadFixture(c.world);
    const refusing = await ethers.deployContract("FickleWallet", [w.stranger.address]);
    const code = await ethers.provider.getCode(refusing);
    await ethers.provider.send("hardhat_setCode", [w.subscriber.address, code]);
    const secretHash = c.freshSecretHash();
    const message = {
      subscriber: w.subscriber.address,
      planId: w.planId,
      secretHash,
      maxOverage: 0n,
      deadline: c.FOREVER,
    };
    const signature = await c.sign(w, w.subscriber, "Subscribe", message);
    await expect(
      w.turnpike.subscribe(
        ...c.signupArgs(w.subscriber, { planId: w.planId, secretHash }, { deadline: c.FOREVER, signature }),
      ),
    ).to.emit(w.turnpike, "Subscribed");
  });

  it("A7 a wallet that burns its gas is refused, and leaves enough to say so", async () => {
    const w = await loadFixture(c.world);
    const s = await signup(w, await walletOf(w, "BurnerWallet"), w.stranger);
    await expect(s.send()).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature");
  });

  it("A7 a wallet that says yes in many bytes is read no further than its first word, and not at all in a megabyte", async () => {
    const w = await loadFixture(c.world);
    const wallet = await walletOf(w, "BombWallet");
    const bomb = await ethers.getContractAt("BombWallet", await wallet.getAddress());
    // Its memory alone costs 2.2 million, which no wallet is given.
    const refused = await signup(w, wallet, w.stranger);
    await expect(refused.send())
      .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
      .withArgs(await wallet.getAddress());
    // The memory of 400,000 bytes costs 342,000; a copy would cost as much again.
    await bomb.resize(400_000n);
    const s = await signup(w, wallet, w.stranger);
    const receipt = await (await s.send()).wait();
    expect(c.present(receipt).gasUsed).to.be.lessThan(560_000n);
  });

  it("a passkey's wallet signs within its gas, also where no precompiled contract checks P-256", async () => {
    const w = await loadFixture(c.world);
    const key = getBytes(id("passkey"));
    const { x, y } = p256.ProjectivePoint.fromPrivateKey(key).toAffine();
    const wallet = await ethers.deployContract("PasskeyWallet", [toBeHex(x, 32), toBeHex(y, 32)]);
    await w.token.mint(wallet, c.PRICE);
    const approve = w.token.interface.encodeFunctionData("approve", [await w.turnpike.getAddress(), c.FOREVER]);
    await wallet.execute(w.token, approve);
    const [subscriber, secretHash] = [await wallet.getAddress(), c.freshSecretHash()];
    const message = { subscriber, planId: w.planId, secretHash, maxOverage: 0n, deadline: c.FOREVER };
    const digest = await c.digestOf(w, "Subscribe", message);
    const { r, s } = p256.sign(getBytes(digest), key, { lowS: true });
    const bytes = concat([toBeHex(r, 32), toBeHex(s, 32)]);
    const gas = await wallet.isValidSignature.estimateGas(digest, bytes);
    expect(gas).to.be.lessThan(400_000n);
    const args = c.signupArgs(subscriber, message, { deadline: c.FOREVER, signature: bytes });
    await expect(w.turnpike.subscribe(...args)).to.emit(w.turnpike, "Subscribed");
  });

  it("A7 a wallet is given 500,000 gas for its answer, however much the transaction has", async () => {
    const w = await loadFixture(c.world);
    const wallet = await walletOf(w, "GasProbeWallet");
    const probe = await ethers.getContractAt("GasProbeWallet", await wallet.getAddress());
    const s = await signup(w, wallet, w.stranger);
    const accepted = async (need: bigint) => {
      await probe.requireGas(need);
      return s.accepted();
    };
    // The way to the wallet's own measurement costs it less than 1,000, and its storage 2,100.
    expect([await accepted(499_000n), await accepted(500_000n)]).to.deep.equal([true, false]);
    await probe.requireGas(499_000n);
    await expect(s.send()).to.emit(w.turnpike, "Subscribed");
    const auth = await c.authFor(w, "Pause", s.idHash, {}, { signer: w.stranger });
    await expect(w.turnpike.pause(s.idHash, auth)).to.emit(w.turnpike, "Paused");
  });

  it("A7 a wallet that re-enters while it is asked gets nowhere: the question is static", async () => {
    const w = await loadFixture(c.world);
    const reentrant = await ethers.deployContract("ReentrantWallet", [w.stranger.address]);
    await w.token.mint(reentrant, c.PRICE);
    await reentrant.execute(
      w.token,
      w.token.interface.encodeFunctionData("approve", [await w.turnpike.getAddress(), c.FOREVER]),
    );
    const secretHash = c.freshSecretHash();
    const call = w.turnpike.interface.encodeFunctionData(
      "subscribe",
      c.signupArgs(w.subscriber.address, { planId: w.planId, secretHash }),
    );
    await reentrant.plant(w.turnpike, call);
    const s = await signup(w, reentrant as unknown as TestWallet, w.stranger, secretHash);
    await expect(s.send()).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
  });

  it("A7 a wallet that answers differently later is asked again each time, and never for a renewal", async () => {
    const w = await loadFixture(c.world);
    const wallet = await ethers.deployContract("FickleWallet", [w.stranger.address]);
    await w.token.mint(wallet, 10n * c.PRICE);
    await wallet.execute(
      w.token,
      w.token.interface.encodeFunctionData("approve", [await w.turnpike.getAddress(), c.FOREVER]),
    );
    await wallet.answer(true);
    const s = await signup(w, wallet as unknown as TestWallet, w.relayer);
    await s.send();
    await wallet.answer(false);
    const auth = await c.authFor(w, "Pause", s.idHash, {}, { signer: w.relayer });
    await expect(w.turnpike.pause(s.idHash, auth)).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature");
    const due = await c.paidThroughOf(w, s.idHash);
    await expect(c.at(due, () => w.turnpike.renew(s.idHash))).to.emit(w.turnpike, "Renewed");
  });

  describe("signing up in one gasless transaction", () => {
    const PERMIT_BYTES = "permit(address,address,uint256,uint256,bytes)";

    /** A wallet with funds and no approval; `stranger` owns it. */
    async function funded(w: c.World): Promise<TestWallet> {
      const wallet = await ethers.deployContract("TestWallet", [w.stranger.address]);
      await w.token.mint(wallet, 10n * c.PRICE);
      return wallet;
    }

    async function send(w: c.World, subscriber: string, signer: Signer, permit: c.Permit) {
      const secretHash = c.freshSecretHash();
      const message = { subscriber, planId: w.planId, secretHash, maxOverage: 0n, deadline: c.FOREVER };
      const signature = await c.sign(w, signer, "Subscribe", message);
      const args = c.signupArgs(subscriber, message, { permit, deadline: c.FOREVER, signature });
      return w.turnpike.connect(w.relayer).subscribe(...args);
    }

    /** The owner's signature of a permit for the wallet, as long as wallets make them. */
    async function permitOf(w: c.World, wallet: string, value = c.PRICE): Promise<c.Permit> {
      const { chainId } = await ethers.provider.getNetwork();
      const spender = await w.turnpike.getAddress();
      const domain = { name: "Test USD", version: "1", chainId, verifyingContract: await w.token.getAddress() };
      const names = ["owner", "spender", "value", "nonce", "deadline"] as const;
      const types = names.map((name, i) => ({ name, type: i < 2 ? "address" : "uint256" }));
      const message = { owner: wallet, spender, value, nonce: await w.token.nonces(wallet), deadline: c.FOREVER };
      const signature = await w.stranger.signTypedData(domain, { Permit: types }, message);
      return { value, deadline: c.FOREVER, signature };
    }

    it("a smart wallet does, with a permit in either form", async () => {
      const w = await loadFixture(c.world);
      const plain = await funded(w);
      const short = await permitOf(w, await plain.getAddress());
      await expect(send(w, await plain.getAddress(), w.stranger, short)).to.changeTokenBalances(
        w.token,
        [plain, w.treasury],
        [-c.PRICE, c.PRICE],
      );

      // A signature of another length goes through the token's bytes form.
      const fickle = await ethers.deployContract("FickleWallet", [w.stranger.address]);
      await fickle.answer(true);
      await w.token.mint(fickle, c.PRICE);
      const long = { value: c.PRICE, deadline: c.FOREVER, signature: `0x${"ab".repeat(200)}` };
      await expect(send(w, await fickle.getAddress(), w.stranger, long)).to.changeTokenBalances(
        w.token,
        [fickle, w.treasury],
        [-c.PRICE, c.PRICE],
      );
    });

    it("a smart wallet whose signature is longer than a key's does, by all of its bytes", async () => {
      const w = await loadFixture(c.world);
      const [signature, permit] = [`0x${"cd".repeat(130)}`, { value: c.PRICE, deadline: c.FOREVER }];
      // It says yes to more than 65 bytes: CALLDATASIZE, PUSH1 200, LT, times the answer.
      await ethers.provider.send("hardhat_setCode", [w.stranger.address, "0x3660c810631626ba7e60e01b025f5260205ff3"]);
      await w.token.mint(w.stranger, c.PRICE);
      const signup = { planId: w.planId, secretHash: c.freshSecretHash() };
      const by = w.turnpike.connect(w.relayer);
      const short = { ...permit, signature: dataSlice(signature, 0, 65) };
      await expect(by.subscribe(...c.signupArgs(w.stranger, signup, { permit: short, deadline: c.FOREVER, signature })))
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
        .withArgs(w.stranger.address, await w.token.getAddress(), c.PRICE, 0n);
      for (const length of [97, 130]) {
        await w.token.mint(w.stranger, c.PRICE);
        const long = { ...permit, signature: dataSlice(signature, 0, length) };
        const sent = by.subscribe(
          ...c.signupArgs(
            w.stranger,
            { planId: w.planId, secretHash: c.freshSecretHash() },
            { permit: long, deadline: c.FOREVER, signature },
          ),
        );
        await expect(sent).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
      }
    });

    it("an EIP-7702 account does, with its own key or by its code", async () => {
      const w = await loadFixture(c.world);
      const account = w.stranger.address;
      await w.token.mint(account, 10n * c.PRICE);
      const setCode = async (name: string) => {
        const delegate = await ethers.deployContract(name, [account]);
        await ethers.provider.send("hardhat_setCode", [account, await ethers.provider.getCode(delegate)]);
      };
      await setCode("TestWallet");
      const byKey = await permitOf(w, account);
      await expect(send(w, account, w.stranger, byKey)).to.changeTokenBalance(w.token, w.treasury, c.PRICE);

      await setCode("FickleWallet");
      await (await ethers.getContractAt("FickleWallet", account)).connect(w.relayer).answer(true);
      const byCode = { value: c.PRICE, deadline: c.FOREVER, signature: "0x0102" };
      await expect(send(w, account, w.stranger, byCode)).to.changeTokenBalance(w.token, w.treasury, c.PRICE);
    });

    it("A1 A2 fails without a permit that holds, and succeeds when someone else submitted it first", async () => {
      const w = await loadFixture(c.world);
      const fickle = await ethers.deployContract("FickleWallet", [w.stranger.address]);
      const wallet = await fickle.getAddress();
      await w.token.mint(fickle, c.PRICE);
      await fickle.answer(true);
      const permit = { value: c.PRICE, deadline: c.FOREVER, signature: "0x0102" };
      for (const bad of [
        { ...permit, value: c.PRICE - 1n },
        { ...permit, deadline: 1n },
        { ...permit, deadline: 0n },
      ]) {
        await expect(send(w, wallet, w.stranger, bad))
          .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
          .withArgs(wallet, await w.token.getAddress(), c.PRICE, bad.value === c.PRICE ? 0n : bad.value);
      }
      await w.token[PERMIT_BYTES](wallet, w.turnpike, c.PRICE, c.FOREVER, "0x0102");
      await expect(send(w, wallet, w.stranger, { ...permit, deadline: 1n })).to.changeTokenBalance(
        w.token,
        w.treasury,
        c.PRICE,
      );
    });

    it("a token without the bytes form ignores it: what counts is the approval", async () => {
      const w = await loadFixture(c.world);
      const token = await ethers.deployContract("NothingToken");
      const planId = await c.createPlan(w, { token: await token.getAddress() });
      await token.mint(w.subscriber, c.PRICE);
      const permit = { value: c.PRICE, deadline: c.FOREVER, signature: "0x0102" };
      const on = { ...w, planId };
      await expect(send(on, w.subscriber.address, w.subscriber, permit))
        .to.be.revertedWithCustomError(w.turnpike, "InsufficientApproval")
        .withArgs(w.subscriber.address, await token.getAddress(), c.PRICE, 0n);
      await token.connect(w.subscriber).approve(w.turnpike, c.PRICE);
      await expect(send(on, w.subscriber.address, w.subscriber, permit)).to.changeTokenBalance(
        token,
        w.treasury,
        c.PRICE,
      );
    });
  });

  it("A8 an ERC-6492 wrapper moves nobody to call its factory", async () => {
    const w = await loadFixture(c.world);
    const wallet = await walletOf(w);
    const s = await signup(w, wallet, w.stranger);
    // The factory call would be visible: it mints tokens to the relayer.
    const mint = w.token.interface.encodeFunctionData("mint", [w.relayer.address, 1n]);
    const wrapped = concat([
      AbiCoder.defaultAbiCoder().encode(["address", "bytes", "bytes"], [await w.token.getAddress(), mint, s.signature]),
      `0x${"6492".repeat(16)}`,
    ]);
    const undeployed = ethers.getCreateAddress({ from: w.relayer.address, nonce: 10_000 });
    for (const subscriber of [await wallet.getAddress(), undeployed]) {
      await expect(s.send(subscriber, wrapped))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
        .withArgs(subscriber);
    }
    expect(await w.token.balanceOf(w.relayer)).to.equal(0n);
  });
});
