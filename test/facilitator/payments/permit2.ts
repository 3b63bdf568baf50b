import { expect } from "chai";
import { Contract, Interface } from "ethers";
import { exactProxyInterface } from "turnpike/chain";
import type { X402RequestWire, X402Settlement } from "turnpike/facilitator";
import {
  type Address,
  addressOfKey,
  checksum,
  EXACT_PERMIT2_PROXY,
  type Hex,
  isGrantSigned,
  keccakText,
  PERMIT2,
  paymentIdOf,
  permit2NonceOf,
  permit2PaymentIdOf,
  randomBytes,
  toHex,
  UPTO_PERMIT2_PROXY,
} from "turnpike/protocol";
import type { FacilitatorConfig } from "../../../facilitator/src/config";
import { judgeWindow } from "../../../facilitator/src/payments/judge";
import type { PaymentRequest } from "../../../facilitator/src/payments/payment-request";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { testKey } from "../../support/chain";
import { BLOCK_MS, fund, type Payer, until, walletOf } from "../../support/facilitator";
import { approvedPayer, approvePermit2, type Permit2Fields, signPermit2 } from "../../support/permit2";
import { settleBody } from "../support/payments";
import { refundToWire, signRefund } from "../support/refunds";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

/** what each payment is over, and the maximum of `upto` payments */
const AMOUNT = 250_000n;

describe("Facilitator: payments over Permit2", function () {
  this.timeout(120_000);
  const keys = ["permit2 lane 1", "permit2 lane 2", "permit2 lane 3"].map((name) => testKey(name) as Hex);
  const [, named, retired] = keys.map(addressOfKey) as [Address, Address, Address];
  const settings = { PERMIT2: "true", RELAYER_KEYS: keys.join(","), RENEWALS: "false", MAX_LOSSES_PER_PAYER: "1000" };
  const uptoSettings = { ...settings, UPTO_SIGNER: named };
  let world: ServiceWorld;
  let service: Service;

  before(async () => {
    world = await startServiceWorld();
    await placePermit2(world.chain);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    service = await world.service(settings);
  });
  after(() => world?.stop());

  const verify = (request: X402RequestWire) => service.client.x402Verify(request);
  const settle = (request: X402RequestWire) => service.client.x402Settle(request);
  const sign = (fields: Parameters<typeof signPermit2>[1]) => signPermit2(world, fields);
  const movedBy = async ({ address }: Payer) => (await world.transfers()).filter(({ from }) => from === address);
  const authorizationOf = ({ paymentPayload }: X402RequestWire) => {
    const { payload } = paymentPayload;
    if ("authorization" in payload) throw new Error("a payload over Permit2 is expected");
    return { ...payload.permit2Authorization, signature: payload.signature };
  };
  const statusOf = (found: Awaited<ReturnType<Service["client"]["payment"]>>): string =>
    found.kind === "found" ? found.value.status : found.kind;
  const idOf = (request: X402RequestWire): Hex => {
    const { from, nonce, permitted } = authorizationOf(request);
    const { chainId } = world.chain;
    const key = { chainId, token: permitted.token as Address, payer: from as Address };
    return permit2PaymentIdOf({ ...key, nonce: permit2NonceOf(BigInt(nonce)) });
  };
  /** The proxy's call that settles a payload, which anyone can make. */
  const callOf = (request: X402RequestWire): string => {
    const { permitted, nonce, deadline, from, witness, signature } = authorizationOf(request);
    const permit = [[permitted.token, permitted.amount], nonce, deadline];
    const terms = [permit, from, [witness.to, witness.validAfter], signature];
    return exactProxyInterface.encodeFunctionData("settle", terms);
  };
  const signUpto = (payer: Payer, fields: Omit<Permit2Fields, "payer"> = {}) =>
    sign({ payer, facilitator: named, ...fields });
  /** The same payment, as the server settles it at what the request cost. */
  const charging = (request: X402RequestWire, amount: bigint): X402RequestWire =>
    ({ ...request, paymentRequirements: { ...request.paymentRequirements, amount: `${amount}` } }) as X402RequestWire;
  /** transactions of our keys that are mined, with those of the pool */
  const sentByUs = async (): Promise<number> => {
    const counts = keys.map((key) => world.chain.provider.getTransactionCount(addressOfKey(key), "pending"));
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  };
  const senderOf = async (hash: string) => (await world.chain.provider.getTransaction(hash))?.from;

  describe("exact", () => {
    it("advertises the method and the sponsoring extension, and no scheme that it cannot settle", async () => {
      const supported = await service.client.supported();
      expect(supported.transferMethods).to.deep.equal(["eip3009", "permit2"]);
      expect(supported.extensions).to.deep.equal(["eip2612GasSponsoring"]);
      expect(supported.kinds.map(({ scheme }) => scheme)).to.not.include("upto");
    });

    it("HE1 settles once and grants once, however often and by whom it is asked", async () => {
      const payer = await approvedPayer(world);
      const request = await sign({ payer });
      expect(await verify(request)).to.deep.equal({ isValid: true, payer: payer.address });
      const answers = await Promise.all([1, 2, 3].map(() => settle(request)));
      expect(answers.filter(({ success }) => success)).to.have.length(1);
      expect(await settle(request)).to.include({ success: false, errorReason: "payment_already_granted" });
      expect(await verify(request)).to.include({ isValid: false, invalidReason: "invalid_transaction_state" });
      const moved = await movedBy(payer);
      expect(moved.map(({ value }) => value)).to.deep.equal([AMOUNT]);
      const settled = answers.find(({ success }) => success) as X402Settlement & { success: true };
      expect(settled.transaction).to.equal(moved[0]?.transaction);
      const { kind, ...status } = await service.client.payment(idOf(request));
      expect([kind, status]).to.deep.equal([
        "found",
        { value: { id: idOf(request), status: "settled", transaction: settled.transaction } },
      ]);
    });

    it("HE1 settles several payments of one payer in one block, each by its own transaction", async () => {
      const payer = await approvedPayer(world, 2_000_000n);
      const requests = await Promise.all([1, 2, 3, 4].map(() => sign({ payer })));
      const answers = await Promise.all(requests.map(settle));
      expect(answers.map(({ success }) => success)).to.deep.equal([true, true, true, true]);
      expect(new Set(answers.map(({ transaction }) => transaction)).size).to.equal(4);
      expect(await movedBy(payer)).to.have.length(4);
    });

    it("HE1 signs a gate's grant over the payment's own id", async () => {
      const payer = await approvedPayer(world);
      const grant = { id: toHex(randomBytes(32)), resource: "https://gate.example/report" };
      const request = await sign({ payer, resource: grant.resource, grant });
      const answer = await settle(request);
      if (!answer.success) return expect.fail(JSON.stringify(answer));
      const facts = {
        chainId: world.chain.chainId,
        token: world.contracts.token,
        paymentId: idOf(request),
        resourceHash: keccakText(grant.resource),
        payTo: world.payee,
        amount: AMOUNT,
        grantId: grant.id,
        transaction: answer.transaction as Hex,
        facilitator: addressOfKey(testKey("proof signer") as Hex),
      };
      expect(isGrantSigned(facts, answer.grant?.signature ?? "0x")).to.equal(true);
    });

    it("HE2 refuses another payee, token, amount, spender or window in the reference's words", async () => {
      const payer = await approvedPayer(world);
      const stranger = addressOfKey(testKey("another payee") as Hex);
      const cases = [
        ["invalid_permit2_recipient_mismatch", { to: stranger, required: { payTo: world.payee } }],
        ["permit2_token_mismatch", { token: stranger, required: { asset: world.contracts.token } }],
        ["permit2_amount_mismatch", { required: { amount: AMOUNT + 1n } }],
        ["permit2_amount_mismatch", { required: { amount: AMOUNT - 1n } }],
        ["invalid_permit2_spender", { spender: UPTO_PERMIT2_PROXY }],
        ["invalid_permit2_spender", { spender: stranger }],
        ["permit2_deadline_expired", { validForSec: -100 }],
        ["permit2_deadline_expired", { validForSec: 90_000 }],
        ["permit2_not_yet_valid", { validAfter: BigInt((await world.nowSec()) + 2_000) }],
      ] as const;
      for (const [reason, fields] of cases) {
        const request = await sign({ payer, ...fields });
        expect(await verify(request), reason).to.include({ isValid: false, invalidReason: reason });
        expect(await settle(request), reason).to.include({ success: false, errorReason: reason, transaction: "" });
      }
      expect(await movedBy(payer)).to.have.length(0);
    });

    it("HE2 accepts a deadline from six seconds away on, as the reference does", () => {
      const config = { minWindowSec: 6, maxWindowSec: 86_400 } as FacilitatorConfig;
      // What a deadline becomes: a window that ends one second later, exclusively.
      const reasonAt = (deadline: bigint) => {
        const authorization = { validAfter: 0n, validBefore: deadline + 1n };
        return judgeWindow(config, { authorization } as PaymentRequest, 1_000)?.reason;
      };
      expect([1_005n, 1_006n, 1_007n].map(reasonAt)).to.deep.equal(["expired", undefined, undefined]);
    });

    it("HE2 refuses a changed field, since the payer signed another one", async () => {
      const payer = await approvedPayer(world);
      const request = await sign({ payer });
      const other = await sign({ payer: await approvedPayer(world) });
      const { permit2Authorization: signed } = request.paymentPayload.payload as { permit2Authorization: object };
      for (const change of [
        { nonce: "7" },
        { deadline: `${(await world.nowSec()) + 200}` },
        { from: authorizationOf(other).from },
      ]) {
        const payload = { ...request.paymentPayload.payload, permit2Authorization: { ...signed, ...change } };
        const changed = {
          ...request,
          paymentPayload: { ...request.paymentPayload, payload },
        } as unknown as X402RequestWire;
        expect(await settle(changed)).to.include({ success: false, errorReason: "invalid_permit2_signature" });
      }
      const asEip3009 = { ...request.paymentRequirements, extra: { name: "Test USD", version: "1" } };
      const unnamed = { ...request, paymentRequirements: asEip3009 } as X402RequestWire;
      expect(await verify(unnamed)).to.include({ invalidReason: "unsupported_payload_type" });
    });

    it("HE3 asks for an allowance, and for the balance less what is under way", async () => {
      const bare = await world.payer(AMOUNT);
      expect(await verify(await sign({ payer: bare }))).to.include({ invalidReason: "permit2_allowance_required" });
      await approvePermit2(world, bare, AMOUNT * 10n);
      const requests = await Promise.all([sign({ payer: bare }), sign({ payer: bare })]);
      const answers = await Promise.all(requests.map(settle));
      expect(answers.filter(({ success }) => success)).to.have.length(1);
      expect(answers.find(({ success }) => !success)).to.include({ errorReason: "permit2_insufficient_balance" });
      expect(await movedBy(bare)).to.have.length(1);
    });

    it("HE4 a payment of the token's own nonce and one of Permit2's never replace each other", async () => {
      const payer = await approvedPayer(world);
      const token = await world.signExact({ payer });
      const { nonce } = token.authorization;
      const over = await sign({ payer, nonce: BigInt(nonce) });
      const key = { chainId: world.chain.chainId, token: world.contracts.token, payer: payer.address, nonce };
      expect(permit2PaymentIdOf(key)).to.not.equal(paymentIdOf(key));
      expect(await settle(settleBody(token, 2, world.chain.chainId))).to.include({ success: true });
      expect((await service.client.payment(idOf(over))).kind).to.equal("found");
      expect(await settle(over), "it is another payment").to.include({ success: true });
      expect(await movedBy(payer)).to.have.length(2);
      const swapped = {
        ...token,
        signature: authorizationOf(over).signature as Hex,
        authorization: { ...token.authorization, nonce: toHex(randomBytes(32)) },
      };
      expect(await settle(settleBody(swapped, 2, world.chain.chainId))).to.include({
        errorReason: "invalid_exact_evm_signature",
      });
    });

    it("HE5 a nonce that was used or invalidated before is refused, and what was paid with it is not granted", async () => {
      const payer = await approvedPayer(world);
      const paid = await sign({ payer });
      const own = walletOf(world.chain, payer.key);
      await (await own.sendTransaction({ to: EXACT_PERMIT2_PROXY, data: callOf(paid) })).wait();
      expect(await verify(paid)).to.include({ isValid: false, invalidReason: "permit2_invalid_nonce" });
      expect(await settle(paid)).to.include({ success: false, errorReason: "permit2_invalid_nonce" });
      const burnt = await sign({ payer, nonce: 515n });
      const permit2 = new Contract(
        PERMIT2,
        ["function invalidateUnorderedNonces(uint256 word, uint256 mask)"],
        walletOf(world.chain, payer.key),
      );
      await (await permit2.getFunction("invalidateUnorderedNonces")(2, 1n << 3n)).wait();
      expect(await verify(burnt)).to.include({ invalidReason: "permit2_invalid_nonce" });
      expect(await verify(await sign({ payer, nonce: 516n })), "the bit beside it").to.include({ isValid: true });
      const views = new Interface(["function nonceBitmap(address owner, uint256 word) view returns (uint256)"]);
      const bitmap = views.encodeFunctionData("nonceBitmap", [payer.address, 2]);
      expect(BigInt(await world.chain.provider.call({ to: PERMIT2, data: bitmap }))).to.equal(1n << 3n);
    });

    it("HE6 a stranger who submits an accepted payment first changes nothing: it is granted once", async () => {
      const payer = await approvedPayer(world);
      const request = await sign({ payer });
      const copycat = await world.payer(0n);
      await fund(world.chain, copycat.address);
      let first = "";
      const answer = await overtaken(request, async () => {
        const wallet = walletOf(world.chain, copycat.key);
        first = (await wallet.sendTransaction({ to: EXACT_PERMIT2_PROXY, data: callOf(request), ...dear })).hash;
      });
      expect(await answer).to.include({ success: true, transaction: first });
      expect(await movedBy(payer)).to.have.length(1);
      expect(await settle(request)).to.include({ errorReason: "payment_already_granted" });
    });

    const pooled = async (): Promise<number> => {
      const pending = await world.chain.provider.send("eth_getBlockByNumber", ["pending", false]);
      return pending.transactions.length;
    };

    it("HE7 a payer without gas and without an allowance pays with a permit, also when a stranger used it first", async () => {
      const infoOf = async (payer: Payer, deadline?: bigint) => {
        const { signature, ...permit } = await world.permit(payer, AMOUNT, deadline, PERMIT2);
        const facts = { asset: world.contracts.token, spender: PERMIT2, amount: permit.value, nonce: "0" };
        return { from: payer.address, ...facts, deadline: permit.deadline, signature, version: "1" };
      };
      const bare = await world.payer(AMOUNT);
      const info = await infoOf(bare);
      const request = await sign({ payer: bare, info });
      expect(await verify(request)).to.include({ isValid: true });
      expect(await settle(request)).to.include({ success: true });
      expect(await movedBy(bare)).to.have.length(1);

      const raced = await world.payer(AMOUNT);
      const its = await infoOf(raced);
      const stranger = await world.payer(0n);
      await fund(world.chain, stranger.address);
      const token = new Contract(
        world.contracts.token,
        ["function permit(address,address,uint256,uint256,bytes)"],
        walletOf(world.chain, stranger.key),
      );
      await (await token.getFunction("permit")(raced.address, PERMIT2, AMOUNT, its.deadline, its.signature)).wait();
      expect(await settle(await sign({ payer: raced, info: its }))).to.include({ success: true });

      const fresh = await world.payer(AMOUNT);
      const good = await infoOf(fresh);
      const refusals = [
        ["eip2612_from_mismatch", { ...good, from: stranger.address }],
        ["eip2612_asset_mismatch", { ...good, asset: stranger.address }],
        ["eip2612_spender_not_permit2", { ...good, spender: stranger.address }],
        ["permit2_2612_amount_mismatch", { ...good, amount: "1" }],
        ["invalid_eip2612_extension_format", { ...good, deadline: "soon" }],
        ["eip2612_deadline_expired", await infoOf(fresh, BigInt(await world.nowSec()) + 2n)],
        ["permit2_simulation_failed", { ...good, signature: its.signature }],
      ] as const;
      for (const [reason, bad] of refusals)
        expect(await verify(await sign({ payer: fresh, info: bad })), reason).to.include({ invalidReason: reason });
      const advertised = { description: "what a server says", version: "1" };
      expect(await verify(await sign({ payer: fresh, info: advertised }))).to.include({
        invalidReason: "permit2_allowance_required",
      });
    });

    /** Accepts a payment and has `first` mined before it, in the same block. @returns the answer, not awaited */
    async function overtaken(
      request: X402RequestWire,
      first: () => Promise<unknown>,
    ): Promise<Promise<X402Settlement>> {
      await world.chain.provider.send("evm_setIntervalMining", [0]);
      try {
        const answer = settle(request);
        await until(async () => (await pooled()) > 0, "ours is sent");
        await first();
        return answer;
      } finally {
        await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
      }
    }

    const dear = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n, gasLimit: 400_000n };

    it("HE8 a nonce that is spent otherwise meanwhile proves nothing: pending, and failed an hour after the deadline", async () => {
      const payer = await approvedPayer(world);
      const wallet = walletOf(world.chain, payer.key);
      const sentBefore = await sentByUs();
      const burnt = await sign({ payer, nonce: 1_027n, validForSec: 200, maxTimeoutSeconds: 1 });
      const answer = await overtaken(burnt, async () => {
        const permit2 = new Contract(
          PERMIT2,
          ["function invalidateUnorderedNonces(uint256 word, uint256 mask)"],
          wallet,
        );
        await permit2.getFunction("invalidateUnorderedNonces")(4, 1n << 3n, dear);
      });
      expect(await answer).to.include({ success: false, errorReason: "settlement_pending" });

      // The same calldata through a contract of the stranger's own: the money moves, and no call shows for what.
      const forwarded = await sign({ payer, validForSec: 200, maxTimeoutSeconds: 1 });
      const forwarder = checksum(`0x${"f0".repeat(20)}`);
      const code = `0x366000600037600060003660006000 73${EXACT_PERMIT2_PROXY.slice(2)} 5af15000`.replaceAll(" ", "");
      await world.chain.provider.send("hardhat_setCode", [forwarder, code]);
      const other = await overtaken(forwarded, async () => {
        await wallet.sendTransaction({ to: forwarder, data: callOf(forwarded), ...dear });
      });
      expect(await other).to.include({ success: false, errorReason: "settlement_pending" });
      await until(async () => (await movedBy(payer)).length > 0, "the stranger's transaction is mined");
      expect(await movedBy(payer)).to.have.length(1);
      for (const request of [burnt, forwarded])
        expect(await settle(request)).to.include({ success: false, errorReason: "settlement_pending" });
      expect(await sentByUs(), "one transaction each, however often they are asked for").to.equal(sentBefore + 2);

      // The log of the transfer may be missing at a node, and appear within an hour.
      await world.chain.advance(400);
      const later = await approvedPayer(world);
      // Each in a block of its own: the first one's is final then.
      for (let count = 0; count < 3; count++)
        expect(await settle(await sign({ payer: later }))).to.include({ success: true });
      for (const request of [burnt, forwarded])
        expect(statusOf(await service.client.payment(idOf(request)))).to.equal("pending");

      await world.chain.advance(3_600);
      for (const request of [burnt, forwarded]) {
        await until(async () => statusOf(await service.client.payment(idOf(request))) === "failed", "it failed");
        expect(await settle(request)).to.include({ success: false });
      }
    });
  });

  describe("upto", () => {
    before(async () => {
      await service.stop();
      service = await world.service(uptoSettings);
    });

    it("advertises the named key", async () => {
      const { kinds } = await service.client.supported();
      expect(kinds.find(({ scheme }) => scheme === "upto")).to.deep.equal({
        x402Version: 2,
        scheme: "upto",
        network: `eip155:${world.chain.chainId}`,
        extra: { facilitatorAddress: named },
      });
    });

    it("HE2 refuses another network in the words of each scheme", async () => {
      const payer = await world.payer(0n);
      const elsewhere = (request: X402RequestWire) =>
        JSON.parse(JSON.stringify(request).replaceAll(`eip155:${world.chain.chainId}`, "eip155:1")) as X402RequestWire;
      const exact = elsewhere(await sign({ payer }));
      expect(await verify(exact)).to.include({ invalidReason: "invalid_exact_evm_network_mismatch" });
      const upto = elsewhere(await signUpto(payer));
      expect(await verify(upto)).to.include({ invalidReason: "invalid_upto_evm_network_mismatch" });
    });

    it("HE9 verifies at the maximum, charges the actual amount once, and sends with the key that the payer signed", async () => {
      const payer = await approvedPayer(world);
      const request = await signUpto(payer);
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

    it("HE9 of many at once, each is sent by a key that may settle it, and nothing is sent in vain", async () => {
      const sentBy = () =>
        Promise.all(keys.map((key) => world.chain.provider.getTransactionCount(addressOfKey(key), "latest")));
      const payers = await Promise.all(Array.from({ length: 9 }, () => approvedPayer(world)));
      const kinds = [named, retired, undefined] as const;
      const requests = await Promise.all(
        payers.map((payer, place) => {
          const facilitator = kinds[place % 3];
          return facilitator ? sign({ payer, facilitator }) : sign({ payer });
        }),
      );
      const before = await sentBy();
      const answers = await Promise.all(requests.map(settle));
      for (const [place, { success, transaction }] of answers.entries()) {
        expect(success).to.equal(true);
        const key = kinds[place % 3];
        if (key) expect(await senderOf(transaction)).to.equal(key);
      }
      const sent = (await sentBy()).reduce((sum, count, place) => sum + count - (before[place] ?? 0), 0);
      expect(sent).to.equal(requests.length);
    });

    it("HE10 never charges above the maximum, and verifies no other amount than it", async () => {
      const payer = await approvedPayer(world);
      const request = await signUpto(payer);
      expect(await settle(charging(request, AMOUNT + 1n))).to.include({
        success: false,
        errorReason: "invalid_upto_evm_payload_settlement_exceeds_amount",
      });
      for (const amount of [AMOUNT - 1n, AMOUNT + 1n, 0n])
        expect(await verify(charging(request, amount)), `${amount}`).to.include({ isValid: false });
      const accepted = {
        ...request.paymentPayload,
        accepted: { ...request.paymentRequirements, amount: `${AMOUNT * 2n}` },
      };
      const raised = { ...request, paymentPayload: accepted } as X402RequestWire;
      expect(await settle(charging(raised, AMOUNT * 2n)), "the server accepted more than was signed").to.include({
        errorReason: "permit2_amount_mismatch",
      });
      expect(await settle(request)).to.include({ success: true, amount: `${AMOUNT}` });
      expect(await movedBy(payer)).to.have.length(1);
    });

    it("HE11 a charge of 0 sends nothing, and the payment buys nothing else, also after a restart", async () => {
      const payer = await approvedPayer(world);
      const request = await signUpto(payer);
      expect(await settle(charging(request, 0n))).to.deep.include({ success: true, amount: "0", transaction: "" });
      const isUsedUp = async (): Promise<void> => {
        expect(await verify(request)).to.include({ isValid: false, invalidReason: "invalid_transaction_state" });
        for (const amount of [0n, 1_000n, AMOUNT])
          expect(await settle(charging(request, amount)), `${amount}`).to.include({
            success: false,
            errorReason: "payment_already_granted",
          });
      };
      await isUsedUp();
      await service.stop();
      service = await world.service(uptoSettings);
      await isUsedUp();
      expect(await movedBy(payer)).to.have.length(0);
      const forged = await signUpto(await approvedPayer(world));
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
      const foreign = await signUpto(payer, { facilitator: stranger });
      expect(await verify(foreign)).to.include({ invalidReason: "upto_facilitator_mismatch" });
      expect(await settle(foreign)).to.include({ errorReason: "upto_facilitator_mismatch" });
      const former = await settle(charging(await signUpto(payer, { facilitator: retired }), 1_000n));
      expect(former).to.include({ success: true });
      expect(await senderOf(former.transaction)).to.equal(retired);
    });

    it("HE12 refuses another payee, an exact payload, and a nonce that was spent after it was verified", async () => {
      const payer = await approvedPayer(world);
      const elsewhere = await signUpto(payer, { to: named, required: { payTo: world.payee } });
      expect(await settle(elsewhere)).to.include({ errorReason: "invalid_permit2_recipient_mismatch" });
      const exact = await sign({ payer });
      const { payload } = exact.paymentPayload;
      const upto = await signUpto(payer);
      const mixed = { ...upto, paymentPayload: { ...upto.paymentPayload, payload } } as X402RequestWire;
      expect((await settle(mixed)).success).to.equal(false);
      const spent = await signUpto(payer, { nonce: 3n });
      expect(await verify(spent)).to.include({ isValid: true });
      // invalidateUnorderedNonces(0, 8)
      const data = `0x3ff9dcb1${"0".padStart(64, "0")}${"8".padStart(64, "0")}`;
      await (await walletOf(world.chain, payer.key).sendTransaction({ to: PERMIT2, data })).wait();
      expect(await settle(charging(spent, 1_000n))).to.include({ errorReason: "permit2_invalid_nonce" });
      expect(await movedBy(payer)).to.have.length(0);
    });
  });

  describe("reserved by gates, and refunded", () => {
    const grantOf = () => ({ id: toHex(randomBytes(32)), resource: "https://gate.example/report" });
    const RESERVED = { isValid: true, reserved: true };
    const SHORT = { isValid: false, invalidReason: "permit2_insufficient_balance" };
    const TAKEN = "payment_already_granted";
    /** Verifies a payment by the token's own nonce. @returns why it is refused */
    const whyShort = async (payer: Payer, amount: bigint): Promise<string | undefined> => {
      const verdict = await verify(settleBody(await world.signExact({ payer, amount }), 2, world.chain.chainId));
      return verdict.isValid ? undefined : verdict.invalidReason;
    };

    it("HE13 what a gate reserved moves once and buys nothing else; payments of both kinds see the balance less it", async () => {
      const payer = await approvedPayer(world, AMOUNT);
      const grant = grantOf();
      const request = await sign({ payer, resource: grant.resource, grant });
      for (const _ of [1, 2]) expect(await verify(request)).to.deep.include({ ...RESERVED, payer: payer.address });
      expect(await whyShort(payer, 100_000n)).to.equal("invalid_exact_evm_insufficient_balance");
      expect(await verify(await sign({ payer }))).to.include(SHORT);
      const elsewhere = { ...request, grant: { ...grant, id: grantOf().id } };
      expect(await verify(elsewhere)).to.include({ isValid: false, invalidReason: TAKEN });
      expect(await settle(elsewhere)).to.include({ success: false, errorReason: TAKEN });
      const { grant: _, ...stock } = request;
      expect(await settle(stock as X402RequestWire)).to.include({ success: false, errorReason: TAKEN });
      const answers = await Promise.all([1, 2].map(() => settle(request)));
      for (const answer of answers) expect(answer).to.include({ success: true });
      expect(await verify(request), "the gate asks again").to.include(RESERVED);
      expect((await movedBy(payer)).map(({ value }) => value)).to.deep.equal([AMOUNT]);
    });

    it("HE13 a payment by the token's own nonce that is reserved takes from the balance of one over Permit2", async () => {
      const payer = await approvedPayer(world, AMOUNT);
      const grant = grantOf();
      const own = await world.signExact({ payer, amount: 100_000n, resource: grant.resource });
      expect(await verify(settleBody(own, 2, world.chain.chainId, { grant }))).to.include(RESERVED);
      const over = await sign({ payer });
      expect(await verify(over)).to.include(SHORT);
      expect(await settle(over)).to.include({ success: false, errorReason: "permit2_insufficient_balance" });
      expect(await service.client.releasePayment(world.idOf(own), grant.id)).to.equal(true);
      expect(await settle(over)).to.include({ success: true });
      expect(await movedBy(payer)).to.have.length(1);
    });

    it("HE13 upto is reserved at its maximum and settled at less, or at nothing, which frees the rest", async () => {
      const payer = await approvedPayer(world, AMOUNT);
      const grant = grantOf();
      const request = await signUpto(payer, { resource: grant.resource, grant });
      expect(await verify(request)).to.include(RESERVED);
      expect(await whyShort(payer, 100_000n)).to.equal("invalid_exact_evm_insufficient_balance");
      const elsewhere = { ...charging(request, 100_000n), grant: { ...grant, id: grantOf().id } };
      expect(await settle(elsewhere)).to.include({ success: false, errorReason: TAKEN });
      for (const _ of [1, 2])
        expect(await settle(charging(request, 100_000n))).to.include({ success: true, amount: "100000" });
      expect(await settle(charging(request, 50_000n))).to.include({ success: false, errorReason: TAKEN });
      expect(await verify(request), "the gate asks again").to.include(RESERVED);
      expect(await whyShort(payer, 150_000n), "the rest").to.equal(undefined);
      expect(await whyShort(payer, 150_001n)).to.equal("invalid_exact_evm_insufficient_balance");

      const next = grantOf();
      const unused = await signUpto(payer, { amount: 150_000n, resource: next.resource, grant: next });
      expect(await verify(unused)).to.include(RESERVED);
      const free = { ...charging(unused, 0n), grant: { ...next, id: grantOf().id } };
      expect(await settle(free), "a stranger frees nothing").to.include({ success: false, errorReason: TAKEN });
      expect(await settle(charging(unused, 0n))).to.include({ success: true, transaction: "", amount: "0" });
      expect(await verify(unused), "the gate asks again").to.include(RESERVED);
      expect(await verify({ ...unused, grant: { ...next, id: grantOf().id } })).to.include({ invalidReason: TAKEN });
      expect(await whyShort(payer, 150_000n), "all of it").to.equal(undefined);
      expect((await movedBy(payer)).map(({ value }) => value)).to.deep.equal([100_000n]);
    });

    it("HE13 a reserved upto payment is not settled at more, also where the payer signs its nonce again", async () => {
      const payer = await approvedPayer(world, 2n * AMOUNT);
      const grant = grantOf();
      const request = await signUpto(payer, { nonce: 77n, resource: grant.resource, grant });
      expect(await verify(request)).to.include(RESERVED);
      const raised = await signUpto(payer, { nonce: 77n, amount: 2n * AMOUNT, resource: grant.resource, grant });
      expect(await settle(raised)).to.include({ success: false, errorReason: TAKEN });
      expect(await settle(charging(raised, AMOUNT)), "no more than is reserved").to.include({ success: true });
      expect((await movedBy(payer)).map(({ value }) => value)).to.deep.equal([AMOUNT]);
    });

    it("HE14 a payment over Permit2 is refunded by its own id, and one charged at 0 is not", async () => {
      const account = { key: testKey("payee") as Hex, address: world.payee };
      await world.contracts.mint(account.address, AMOUNT);
      const payer = await approvedPayer(world);
      const paid = await signUpto(payer);
      expect(await settle(charging(paid, 100_000n))).to.include({ success: true });
      const refundOf = (request: X402RequestWire, amount: bigint) =>
        signRefund(world, {
          account,
          to: payer.address,
          amount,
          target: { type: "payment", paymentId: idOf(request) },
        });
      const ask = async (refund: Awaited<ReturnType<typeof signRefund>>) => {
        const outcome = await service.client.refund(refundToWire(refund));
        return outcome.kind === "refused" ? outcome.error.code : outcome.kind;
      };
      expect(await ask(await refundOf(paid, 100_001n)), "more than was charged").to.equal("RefundExceedsPayment");
      const refund = await refundOf(paid, 100_000n);
      for (const _ of [1, 2]) expect(await ask(refund)).to.equal("settled");
      expect(await world.transfers(payer.address), "minted, and refunded").to.have.length(2);
      const { nonce } = refund.authorization;
      await approvePermit2(world, account, AMOUNT);
      const same = await sign({ payer: account, to: payer.address, nonce: BigInt(nonce) });
      expect(await settle(same), "another payment, with a nonce of Permit2").to.include({ success: true });

      const unused = await signUpto(payer);
      expect(await settle(charging(unused, 0n))).to.include({ success: true });
      expect(await ask(await refundOf(unused, 100_000n))).to.equal("PaymentNotAllowed");
    });
  });
});
