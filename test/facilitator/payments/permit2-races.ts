/** Races around Permit2: what a payer, a front-runner or a second gate does between judging and settling. */
import { expect } from "chai";
import { Contract } from "ethers";
import { exactProxyInterface } from "turnpike/chain";
import type { X402RequestWire, X402Settlement } from "turnpike/facilitator";
import {
  addressOfKey,
  EXACT_PERMIT2_PROXY,
  type Hex,
  PERMIT2,
  randomBytes,
  toHex,
  UPTO_PERMIT2_PROXY,
} from "turnpike/protocol";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { testKey } from "../../support/chain";
import { BLOCK_MS, fund, type Payer, until, walletOf } from "../../support/facilitator";
import { approvedPayer, signPermit2 } from "../../support/permit2";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const AMOUNT = 250_000n;

const PERMIT = ["function permit(address,address,uint256,uint256,bytes)", "function approve(address,uint256)"];

describe("Facilitator: races of payments over Permit2", function () {
  this.timeout(120_000);
  const keys = ["race lane 1", "race lane 2"].map((name) => testKey(name) as Hex);
  const named = addressOfKey(keys[1] as Hex);
  let world: ServiceWorld;
  let service: Service;

  before(async () => {
    world = await startServiceWorld();
    await placePermit2(world.chain);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    service = await world.service({
      ...{ PERMIT2: "true", RELAYER_KEYS: keys.join(","), RENEWALS: "false", UPTO_SIGNER: named },
    });
  });
  after(() => world?.stop());

  const verify = (request: X402RequestWire) => service.client.x402Verify(request);
  const settle = (request: X402RequestWire) => service.client.x402Settle(request);
  const sign = (fields: Parameters<typeof signPermit2>[1]) => signPermit2(world, fields);
  const movedBy = async ({ address }: Payer) => (await world.transfers()).filter(({ from }) => from === address);
  const dear = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n, gasLimit: 400_000n };
  const grantOf = () => ({ id: toHex(randomBytes(32)), resource: "https://gate.example/report" });

  /** The extension eip2612GasSponsoring with a permit of the payer's current nonce. */
  async function infoOf(payer: Payer, value = AMOUNT) {
    const { signature, ...permit } = await world.permit(payer, value, undefined, PERMIT2);
    const facts = { asset: world.contracts.token, spender: PERMIT2, amount: permit.value, nonce: "0" };
    return { from: payer.address, ...facts, deadline: permit.deadline, signature, version: "1" };
  }

  async function stranger(): Promise<Payer> {
    const account = await world.payer(0n);
    await fund(world.chain, account.address);
    return account;
  }

  const tokenAs = ({ key }: Payer) => new Contract(world.contracts.token, PERMIT, walletOf(world.chain, key));

  /** The proxy's call that settles a payload, which anyone can make. */
  function callOf({ paymentPayload: { payload } }: X402RequestWire): string {
    if ("authorization" in payload) throw new Error("a payload over Permit2 is expected");
    const { permitted, nonce, deadline, from, witness } = payload.permit2Authorization;
    const terms = [[[permitted.token, permitted.amount], nonce, deadline], from, [witness.to, witness.validAfter]];
    return exactProxyInterface.encodeFunctionData("settle", [...terms, payload.signature]);
  }

  const pooled = async (): Promise<number> =>
    (await world.chain.provider.send("eth_getBlockByNumber", ["pending", false])).transactions.length;

  /** Accepts a payment and has `first` mined before it, in the same block. @returns the answer */
  async function overtaken(request: X402RequestWire, first: () => Promise<unknown>): Promise<X402Settlement> {
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    let answer: Promise<X402Settlement>;
    try {
      answer = settle(request);
      await until(async () => (await pooled()) > 0, "ours is sent");
      await first();
    } finally {
      await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    }
    return answer;
  }

  it("HE7 a permit that a front-runner submits in the same block, before the payment, does no harm", async () => {
    const payer = await world.payer(AMOUNT);
    const info = await infoOf(payer);
    const runner = await stranger();
    const answer = await overtaken(await sign({ payer, info }), () =>
      tokenAs(runner).getFunction("permit")(payer.address, PERMIT2, AMOUNT, info.deadline, info.signature, dear),
    );
    expect(answer).to.include({ success: true });
    expect(await movedBy(payer)).to.have.length(1);
  });

  it("HE7 a permit whose nonce has moved on is refused before anything is sent", async () => {
    const payer = await world.payer(AMOUNT);
    const info = await infoOf(payer);
    // Another permit of the same nonce, over less, is used first.
    const less = await infoOf(payer, 1n);
    const runner = await stranger();
    await (
      await tokenAs(runner).getFunction("permit")(payer.address, PERMIT2, 1n, less.deadline, less.signature)
    ).wait();
    const request = await sign({ payer, info });
    expect(await verify(request)).to.include({ isValid: false, invalidReason: "permit2_simulation_failed" });
    expect(await settle(request)).to.include({ success: false, transaction: "" });
    expect(await movedBy(payer)).to.have.length(0);
  });

  it("HE7 a payer who uses the permit's nonce in the same block loses nothing, and gets nothing", async () => {
    const payer = await world.payer(AMOUNT);
    const info = await infoOf(payer);
    const less = await infoOf(payer, 1n);
    const runner = await stranger();
    const request = await sign({ payer, info });
    const answer = await overtaken(request, () =>
      tokenAs(runner).getFunction("permit")(payer.address, PERMIT2, 1n, less.deadline, less.signature, dear),
    );
    for (const each of [answer, await settle(request)])
      expect(each).to.include({ success: false, errorReason: "permit2_simulation_failed", transaction: "" });
    expect(await movedBy(payer)).to.have.length(0);
  });

  it("HE3 an allowance that another payment uses up after it was verified is refused at settlement", async () => {
    const payer = await approvedPayer(world, 2n * AMOUNT);
    await (await tokenAs(payer).getFunction("approve")(PERMIT2, AMOUNT)).wait();
    const grant = grantOf();
    const reserved = await sign({ payer, resource: grant.resource, grant });
    expect(await verify(reserved)).to.include({ isValid: true, reserved: true });
    const own = await sign({ payer });
    await (
      await walletOf(world.chain, payer.key).sendTransaction({ to: EXACT_PERMIT2_PROXY, data: callOf(own) })
    ).wait();
    expect(await settle(reserved)).to.include({ success: false, errorReason: "permit2_allowance_required" });
    expect(await movedBy(payer)).to.have.length(1);
  });

  it("HE3 an allowance that is taken back in the same block is no payment, and is granted to nobody", async () => {
    const payer = await approvedPayer(world, AMOUNT);
    const grant = grantOf();
    const request = await sign({ payer, resource: grant.resource, grant });
    const answer = await overtaken(request, () => tokenAs(payer).getFunction("approve")(PERMIT2, 0n, dear));
    expect(answer).to.include({ success: false, errorReason: "permit2_allowance_required", transaction: "" });
    expect(await movedBy(payer)).to.have.length(0);
    // Once it is approved again, the same purchase may still have it.
    await (await tokenAs(payer).getFunction("approve")(PERMIT2, AMOUNT)).wait();
    const elsewhere = { ...request, grant: { ...grant, id: grantOf().id } };
    expect(await settle(elsewhere)).to.include({ success: false, errorReason: "payment_already_granted" });
    expect(await settle(request)).to.include({ success: true });
    expect(await movedBy(payer)).to.have.length(1);
  });

  it("HE13 one nonce signed for two gates at once buys at one of them, and moves once", async () => {
    const payer = await approvedPayer(world, 4n * AMOUNT);
    const gates = [grantOf(), { ...grantOf(), resource: "https://other.example/report" }];
    const requests = await Promise.all(
      gates.map((grant) => sign({ payer, nonce: 9_001n, resource: grant.resource, grant })),
    );
    const verdicts = await Promise.all(requests.map(verify));
    expect(verdicts.filter(({ isValid }) => isValid)).to.have.length(1);
    const answers = await Promise.all(requests.map(settle));
    expect(answers.filter(({ success }) => success)).to.have.length(1);
    expect(await movedBy(payer)).to.have.length(1);
    // The same nonce for another amount or payee, after it has moved.
    const other = await sign({ payer, nonce: 9_001n, amount: 2n * AMOUNT, ...{ grant: grantOf() } });
    expect((await settle(other)).success).to.equal(false);
    expect(await movedBy(payer)).to.have.length(1);
  });

  it("HE12 a stranger cannot send an upto payment that it saw in the pool, and the charge settles", async () => {
    const payer = await approvedPayer(world, AMOUNT);
    const request = await sign({ payer, facilitator: named });
    const charged = {
      ...request,
      paymentRequirements: { ...request.paymentRequirements, amount: "1000" },
    } as X402RequestWire;
    const runner = await stranger();
    const wallet = walletOf(world.chain, runner.key);
    let copied = "";
    const answer = await overtaken(charged, async () => {
      const pending = await world.chain.provider.send("eth_getBlockByNumber", ["pending", true]);
      const [ours] = pending.transactions as { input: string }[];
      copied = (await wallet.sendTransaction({ to: UPTO_PERMIT2_PROXY, data: ours?.input ?? "0x", ...dear })).hash;
    });
    expect((await world.chain.provider.getTransactionReceipt(copied))?.status).to.equal(0);
    expect(answer).to.include({ success: true, amount: "1000" });
    expect((await movedBy(payer)).map(({ value }) => value)).to.deep.equal([1_000n]);
  });

  it("B15 a payment whose deadline passes in the pool moves nothing, and is granted to nobody", async () => {
    const payer = await approvedPayer(world, AMOUNT);
    const request = await sign({ payer, validForSec: 60 });
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    let answer: Promise<X402Settlement>;
    try {
      answer = settle(request);
      await until(async () => (await pooled()) > 0, "ours is sent");
      await world.chain.advance(120);
    } finally {
      await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    }
    for (const each of [await answer, await settle(request)])
      expect(each).to.include({ success: false, errorReason: "permit2_deadline_expired", transaction: "" });
    expect(await movedBy(payer)).to.have.length(0);
  });
});
