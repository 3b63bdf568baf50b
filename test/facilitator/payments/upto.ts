import { expect } from "chai";
import type { X402RequestWire } from "turnpike/facilitator";
import { type Address, addressOfKey, type Hex, PERMIT2 } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { fund, type Payer, walletOf } from "../../support/facilitator";
import { approvedPayer, type Permit2Fields, placePermit2, signPermit2 } from "../../support/permit2";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const MAX = 250_000n;

describe("Facilitator: upto payments", function () {
  this.timeout(120_000);
  const keys = ["upto lane 1", "upto lane 2", "upto lane 3"].map((name) => testKey(name) as Hex);
  const [, named, retired] = keys.map(addressOfKey) as [Address, Address, Address];
  let world: ServiceWorld;
  let service: Service;

  const settings = { PERMIT2: "true", UPTO_SIGNER: named, RELAYER_KEYS: keys.join(","), RENEWALS: "false" };

  before(async () => {
    world = await startServiceWorld();
    await placePermit2(world.chain);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    service = await world.service(settings);
  });
  after(() => world?.stop());

  const verify = (request: X402RequestWire) => service.client.x402Verify(request);
  const settle = (request: X402RequestWire) => service.client.x402Settle(request);
  const sign = (payer: Payer, fields: Omit<Permit2Fields, "payer"> = {}) =>
    signPermit2(world, { payer, facilitator: named, ...fields });
  /** The same payment, as the server settles it at what the request cost. */
  const charging = (request: X402RequestWire, amount: bigint): X402RequestWire =>
    ({ ...request, paymentRequirements: { ...request.paymentRequirements, amount: `${amount}` } }) as X402RequestWire;
  const movedBy = async ({ address }: Payer) => (await world.transfers()).filter(({ from }) => from === address);
  const senderOf = async (hash: string) => (await world.chain.provider.getTransaction(hash))?.from;

  it("advertises the named key", async () => {
    const { kinds } = await service.client.supported();
    expect(kinds.find(({ scheme }) => scheme === "upto")).to.deep.equal({
      ...{ x402Version: 2, scheme: "upto", network: `eip155:${world.chain.chainId}` },
      extra: { facilitatorAddress: named },
    });
  });

  it("HE9 verifies at the maximum, charges the actual amount once, and sends with the key that the payer signed", async () => {
    const payer = await approvedPayer(world);
    const request = await sign(payer);
    expect(await verify(request)).to.deep.equal({ isValid: true, payer: payer.address });
    const answers = await Promise.all([1, 2].map(() => settle(charging(request, 100_000n))));
    const settled = answers.find(({ success }) => success);
    expect(settled).to.include({ success: true, amount: "100000" });
    expect(answers.filter(({ success }) => success)).to.have.length(1);
    expect(await senderOf(settled?.transaction ?? "")).to.equal(named);
    for (const again of [charging(request, 100_000n), charging(request, 50_000n), charging(request, 0n), request])
      expect(await settle(again)).to.include({ success: false, errorReason: "payment_already_granted" });
    expect(await verify(request)).to.include({ isValid: false, invalidReason: "invalid_transaction_state" });
    expect((await movedBy(payer)).map(({ value }) => value)).to.deep.equal([100_000n]);
  });

  it("HE10 never charges above the maximum, and verifies no other amount than it", async () => {
    const payer = await approvedPayer(world);
    const request = await sign(payer);
    expect(await settle(charging(request, MAX + 1n))).to.include({
      ...{ success: false, errorReason: "invalid_upto_evm_payload_settlement_exceeds_amount" },
    });
    for (const amount of [MAX - 1n, MAX + 1n, 0n])
      expect(await verify(charging(request, amount)), `${amount}`).to.include({ isValid: false });
    const accepted = { ...request.paymentPayload, accepted: { ...request.paymentRequirements, amount: `${MAX * 2n}` } };
    const raised = { ...request, paymentPayload: accepted } as X402RequestWire;
    expect(await settle(charging(raised, MAX * 2n)), "the server accepted more than was signed").to.include({
      errorReason: "permit2_amount_mismatch",
    });
    expect(await settle(request)).to.include({ success: true, amount: `${MAX}` });
    expect(await movedBy(payer)).to.have.length(1);
  });

  it("HE11 a charge of 0 sends nothing, and the payment buys nothing else, also after a restart", async () => {
    const payer = await approvedPayer(world);
    const request = await sign(payer);
    expect(await settle(charging(request, 0n))).to.deep.include({ success: true, amount: "0", transaction: "" });
    const isUsedUp = async (): Promise<void> => {
      expect(await verify(request)).to.include({ isValid: false, invalidReason: "invalid_transaction_state" });
      for (const amount of [0n, 1_000n, MAX])
        expect(await settle(charging(request, amount)), `${amount}`).to.include({
          ...{ success: false, errorReason: "payment_already_granted" },
        });
    };
    await isUsedUp();
    await service.stop();
    service = await world.service(settings);
    await isUsedUp();
    expect(await movedBy(payer)).to.have.length(0);
    const forged = await sign(await approvedPayer(world));
    const { signature } = request.paymentPayload.payload;
    const payload = { ...forged.paymentPayload.payload, signature };
    const unsigned = { ...forged, paymentPayload: { ...forged.paymentPayload, payload } } as X402RequestWire;
    expect(await settle(charging(unsigned, 0n)), "a stranger cannot use up a payment").to.include({
      errorReason: "invalid_permit2_signature",
    });
    expect(await settle(forged)).to.include({ success: true });
  });

  it("HE12 refuses a payment that only somebody else may settle, and settles with a former key while it is there", async () => {
    const payer = await approvedPayer(world);
    const stranger = addressOfKey(testKey("another facilitator") as Hex);
    const foreign = await sign(payer, { facilitator: stranger });
    expect(await verify(foreign)).to.include({ invalidReason: "upto_facilitator_mismatch" });
    expect(await settle(foreign)).to.include({ errorReason: "upto_facilitator_mismatch" });
    const former = await settle(charging(await sign(payer, { facilitator: retired }), 1_000n));
    expect(former).to.include({ success: true });
    expect(await senderOf(former.transaction)).to.equal(retired);
  });

  it("HE12 refuses another payee, an exact payload, and a nonce that was spent after it was verified", async () => {
    const payer = await approvedPayer(world);
    const elsewhere = await sign(payer, { to: named, required: { payTo: world.payee } });
    expect(await settle(elsewhere)).to.include({ errorReason: "invalid_permit2_recipient_mismatch" });
    const exact = await signPermit2(world, { payer });
    const { payload } = exact.paymentPayload;
    const upto = await sign(payer);
    const mixed = { ...upto, paymentPayload: { ...upto.paymentPayload, payload } } as X402RequestWire;
    expect((await settle(mixed)).success).to.equal(false);
    const spent = await sign(payer, { nonce: 3n });
    expect(await verify(spent)).to.include({ isValid: true });
    // invalidateUnorderedNonces(0, 8)
    const data = `0x3ff9dcb1${"0".padStart(64, "0")}${"8".padStart(64, "0")}`;
    await (await walletOf(world.chain, payer.key).sendTransaction({ to: PERMIT2, data })).wait();
    expect(await settle(charging(spent, 1_000n))).to.include({ errorReason: "permit2_invalid_nonce" });
    expect(await movedBy(payer)).to.have.length(0);
  });
});
