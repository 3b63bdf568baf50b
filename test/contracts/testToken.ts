// The test token, as far as others rely on it being like USDC.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { id, Signature, type Signer } from "ethers";
import { ethers } from "hardhat";
import type { TestToken } from "../../sdk/src/chain/generated";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";

const TRANSFER = "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce";
const CANCEL = "address authorizer,bytes32 nonce";
const VRS = "uint8,bytes32,bytes32";
const SIX = "address,address,uint256,uint256,uint256,bytes32";

async function sign(token: TestToken, signer: Signer, name: string, fields: string, message: Record<string, unknown>) {
  const { chainId } = await ethers.provider.getNetwork();
  const domain = {
    name: await token.name(),
    version: await token.version(),
    chainId,
    verifyingContract: await token.getAddress(),
  };
  const types = fields.split(",").map((field) => {
    const [type = "", fieldName = ""] = field.split(" ");
    return { type, name: fieldName };
  });
  return signer.signTypedData(domain, { [name]: types }, message);
}

describe("TestToken", () => {
  async function authorization(w: c.World, name = "TransferWithAuthorization", to = w.treasury.address) {
    const validBefore = (await time.latest()) + 86_400;
    const message = { from: w.subscriber.address, to, value: 5n, validAfter: 0, validBefore, nonce: id("nonce") };
    const signature = await sign(w.token, w.subscriber, name, TRANSFER, message);
    const { v, r, s } = Signature.from(signature);
    const args = [message.from, to, 5n, 0, validBefore, message.nonce] as const;
    return { args, signature, v, r, s, nonce: message.nonce };
  }

  it("has the name, symbol, version and decimals that it was given", async () => {
    const token = await ethers.deployContract("TestToken", ["USD Coin", "USDC", "2", 18]);
    expect([await token.name(), await token.symbol(), await token.version(), await token.decimals()]).to.deep.equal([
      "USD Coin",
      "USDC",
      "2",
      18n,
    ]);
    expect(await token.DOMAIN_SEPARATOR()).to.match(/^0x[0-9a-f]{64}$/);
  });

  it("moves by either form of an authorization, once, and logs the use before the transfer", async () => {
    const w = await loadFixture(c.world);
    const a = await authorization(w);
    const vrs = w.token.getFunction(`transferWithAuthorization(${SIX},${VRS})`);
    const bytes = w.token.getFunction(`transferWithAuthorization(${SIX},bytes)`);
    expect(await w.token.authorizationState(w.subscriber, a.nonce)).to.equal(false);
    await bytes.staticCall(...a.args, a.signature);
    const receipt = await (await vrs(...a.args, a.v, a.r, a.s)).wait();
    expect(c.present(receipt).logs.map((log) => w.token.interface.parseLog(log)?.name)).to.deep.equal([
      "AuthorizationUsed",
      "Transfer",
    ]);
    expect(await w.token.authorizationState(w.subscriber, a.nonce)).to.equal(true);
    for (const again of [() => vrs(...a.args, a.v, a.r, a.s), () => bytes(...a.args, a.signature)]) {
      await expect(again()).to.be.revertedWith("FiatTokenV2: authorization is used or canceled");
    }
  });

  it("lets the payee alone receive, and the payer cancel", async () => {
    const w = await loadFixture(c.world);
    const a = await authorization(w, "ReceiveWithAuthorization");
    for (const form of [
      { call: w.token.getFunction(`receiveWithAuthorization(${SIX},${VRS})`), tail: [a.v, a.r, a.s] },
      { call: w.token.getFunction(`receiveWithAuthorization(${SIX},bytes)`), tail: [a.signature] },
    ]) {
      const payee = form.call as unknown as (...args: unknown[]) => Promise<unknown>;
      await expect(payee(...a.args, ...form.tail)).to.be.revertedWith("FiatTokenV2: caller must be the payee");
    }
    const received = w.token.connect(w.treasury).getFunction(`receiveWithAuthorization(${SIX},${VRS})`);
    await expect(received(...a.args, a.v, a.r, a.s)).to.changeTokenBalance(w.token, w.treasury, 5n);
    const other = w.token.connect(w.treasury).getFunction(`receiveWithAuthorization(${SIX},bytes)`);
    await expect(other(...a.args, a.signature)).to.be.reverted;

    for (const [nonce, form] of [
      [id("a"), VRS],
      [id("b"), "bytes"],
    ] as const) {
      const message = { authorizer: w.subscriber.address, nonce };
      const signature = await sign(w.token, w.subscriber, "CancelAuthorization", CANCEL, message);
      const { v, r, s } = Signature.from(signature);
      const cancel = w.token.getFunction(`cancelAuthorization(address,bytes32,${form})`);
      const send = () => cancel(w.subscriber.address, nonce, ...(form === VRS ? [v, r, s] : [signature]));
      await expect(send()).to.emit(w.token, "AuthorizationCanceled").withArgs(w.subscriber.address, nonce);
      await expect(send()).to.be.revertedWith("FiatTokenV2: authorization is used or canceled");
    }
    const forged = w.token.getFunction("cancelAuthorization(address,bytes32,bytes)");
    await expect(forged(w.subscriber.address, id("c"), a.signature)).to.be.revertedWith(
      "FiatTokenV2: invalid signature",
    );
  });

  it("takes a permit as bytes, of a key and of a contract wallet, once and in time", async () => {
    const w = await loadFixture(c.world);
    const permit = w.token.getFunction("permit(address,address,uint256,uint256,bytes)");
    const p = await c.signPermit(w, w.subscriber, 9n);
    const send = () => permit(w.subscriber, w.turnpike, p.value, p.deadline, p.signature);
    await send();
    expect(await w.token.allowance(w.subscriber, w.turnpike)).to.equal(9n);
    await expect(send()).to.be.revertedWith("EIP2612: invalid signature");
    const late = await c.signPermit(w, w.subscriber, 9n, { deadline: 1n });
    await expect(permit(w.subscriber, w.turnpike, 9n, 1n, late.signature)).to.be.revertedWith(
      "FiatTokenV2: permit is expired",
    );
    const wallet = await ethers.deployContract("FickleWallet", [w.stranger.address]);
    const byWallet = () => permit(wallet, w.turnpike, 7n, c.FOREVER, "0x0102");
    await expect(byWallet()).to.be.revertedWith("EIP2612: invalid signature");
    await wallet.answer(true);
    await byWallet();
    expect(await w.token.allowance(wallet, w.turnpike)).to.equal(7n);
  });

  it("takes a permit once, in time", async () => {
    const w = await loadFixture(c.world);
    const p = await c.signPermit(w, w.subscriber, 9n);
    const send = () => w.token[c.PERMIT_VRS](w.subscriber, w.turnpike, p.value, p.deadline, p.v, p.r, p.s);
    await send();
    expect(await w.token.allowance(w.subscriber, w.turnpike)).to.equal(9n);
    await expect(send()).to.be.revertedWith("EIP2612: invalid signature");
    const late = await c.signPermit(w, w.subscriber, 9n, { deadline: 1n });
    await expect(
      w.token[c.PERMIT_VRS](w.subscriber, w.turnpike, late.value, late.deadline, late.v, late.r, late.s),
    ).to.be.revertedWith("FiatTokenV2: permit is expired");
  });
});
