import { expect } from "chai";
import { Interface } from "ethers";
import fc from "fast-check";
import { batchSettlerInterface, uptoProxyInterface } from "turnpike/chain";
import {
  type Address,
  addressOfKey,
  checksum,
  EXACT_PERMIT2_PROXY,
  type Hex,
  recoverSigner,
  signDigest,
  UPTO_PERMIT2_PROXY,
} from "turnpike/protocol";
import { signerOf } from "../../../facilitator/src/chain/signer-of";
import { Secret } from "../../../facilitator/src/config/setting";
import type { PaymentRow } from "../../../facilitator/src/db/tables/payments";
import { planTransaction, planTransactions } from "../../../facilitator/src/payments/batch";
import { type SignedTransfer, settleCalldata, transferCalldata } from "../../../facilitator/src/payments/calldata";
import { digestSigner } from "../../../facilitator/src/relayer/signer";
import { highS } from "../../support/signature-forms";

const hexOf = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((b): Hex => `0x${Buffer.from(b).toString("hex")}`);
const address = hexOf(20).map((value): Address => checksum(value));
const signature = fc.oneof(hexOf(65), fc.integer({ min: 1, max: 200 }).chain(hexOf));
const transfer: fc.Arbitrary<SignedTransfer> = fc.record({
  token: address,
  from: address,
  to: address,
  value: fc.bigInt(0n, 2n ** 256n - 1n),
  validAfter: fc.bigInt(0n, 2n ** 64n),
  validBefore: fc.bigInt(0n, 2n ** 256n - 1n),
  nonce: hexOf(32),
  signature,
});
const key = hexOf(32).filter((value) => BigInt(value) > 0n && BigInt(value) < 2n ** 255n);

const tokenForms = new Interface([
  "function transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)",
  "function transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
]);

describe("payments by hand-made encoding", () => {
  it("lays out a batch as ethers does", () => {
    fc.assert(
      fc.property(fc.array(transfer, { minLength: 1, maxLength: 6 }), fc.nat(), (transfers, gas) => {
        expect(settleCalldata(transfers, gas)).to.equal(
          batchSettlerInterface.encodeFunctionData("settle", [transfers, gas]),
        );
      }),
    );
  });

  it("lays out a single transfer as ethers does, in the form for its signature's length", () => {
    fc.assert(
      fc.property(transfer, (t) => {
        const terms = [t.from, t.to, t.value, t.validAfter, t.validBefore, t.nonce];
        const digits = t.signature.slice(2);
        const isKeys = digits.length === 130;
        const form = `transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,${isKeys ? "uint8,bytes32,bytes32" : "bytes"})`;
        const parts = isKeys
          ? [Number.parseInt(digits.slice(128), 16), `0x${digits.slice(0, 64)}`, `0x${digits.slice(64, 128)}`]
          : [t.signature];
        expect(transferCalldata(t)).to.equal(tokenForms.encodeFunctionData(form, [...terms, ...parts]));
      }),
    );
  });

  it("recovers and signs as the portable curve library does, bit for bit", () => {
    fc.assert(
      fc.property(key, hexOf(32), fc.integer({ min: 0, max: 520 }), (secret, digest, bit) => {
        const signed = signDigest(digest, secret);
        expect(digestSigner(new Secret(secret)).signDigest(digest)).to.equal(signed);
        expect(signerOf(digest, signed)).to.equal(addressOfKey(secret));
        const bytes = Buffer.from(signed.slice(2), "hex");
        bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        const broken: Hex = `0x${bytes.toString("hex")}`;
        expect(signerOf(digest, broken)).to.equal(recoverSigner(digest, broken));
      }),
      { numRuns: 60 },
    );
  });

  it("A5 takes no malleated or malformed signature", () => {
    const secret: Hex = `0x${"11".repeat(32)}`;
    const digest: Hex = `0x${"22".repeat(32)}`;
    const signed = signDigest(digest, secret);
    const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
    const bad = [
      highS(signed),
      signed.slice(0, 130),
      `${signed.slice(0, 130)}00`,
      `${signed}00`,
      `0x${"00".repeat(64)}1b`,
      `0x${"ff".repeat(64)}1b`,
      `${signed.slice(0, 66)}${(order / 2n + 1n).toString(16).toUpperCase()}${signed.slice(130)}`,
    ];
    for (const text of bad) expect(signerOf(digest, text), text).to.equal(undefined);
  });
});

describe("planTransaction", () => {
  const limits = { batchItems: 250, batchGas: 15_000_000, batchBytes: 100_000, gasPerItem: 80_000 };
  const settler = `0x${"5e".repeat(20)}` as Address;
  const row = (index: number, overrides: Partial<PaymentRow> = {}): PaymentRow =>
    ({
      payment_id: `0x${index.toString(16).padStart(64, "0")}`,
      token: `0x${"70".repeat(20)}`,
      payer: `0x${"0a".repeat(20)}`,
      pay_to: `0x${"0b".repeat(20)}`,
      amount: "1000",
      nonce: `0x${"0c".repeat(32)}`,
      valid_after: 0,
      valid_before: 2_000_000_000,
      signature: `0x${"ab".repeat(65)}`,
      has_code: false,
      attempts: 0,
      method: "eip3009",
      permitted: null,
      sender: null,
      token_permit: null,
      ...overrides,
    }) as PaymentRow;
  const rows = (count: number, overrides?: Partial<PaymentRow>) =>
    Array.from({ length: count }, (_, index) => row(index, overrides));

  it("sends one payment straight to its token, several through the settler", () => {
    expect(planTransaction(rows(1), settler, limits)?.to).to.equal(row(0).token);
    expect(planTransaction(rows(2), settler, limits)).to.include({ to: settler });
    expect(planTransaction([], settler, limits)).to.equal(undefined);
  });

  it("A40 gives every item its full gas, and keeps within the limits of items, gas and bytes", () => {
    for (const count of [2, 10, 100, 400]) {
      const plan = planTransaction(rows(count), settler, limits);
      const taken = plan?.paymentIds.length ?? 0;
      expect(Number(plan?.gasLimit)).to.be.at.least(taken * limits.gasPerItem + (limits.gasPerItem * 64) / 63 + 10_000);
      expect(Number(plan?.gasLimit)).to.be.at.most(limits.batchGas);
      expect((plan?.data.length ?? 0) / 2).to.be.at.most(limits.batchBytes + 200);
      expect(taken).to.be.at.least(Math.min(count, 100));
    }
    expect(planTransaction(rows(10), settler, { ...limits, batchItems: 3 })?.paymentIds).to.have.length(3);
  });

  it("keeps what failed before, and wallets of code, away from the others", () => {
    const mixed = [row(0), row(1, { attempts: 1 }), row(2, { has_code: true }), row(3)];
    expect(planTransaction(mixed, settler, limits)?.paymentIds).to.deep.equal([row(0).payment_id, row(3).payment_id]);
    expect(planTransaction(mixed.slice(1), settler, limits)?.paymentIds).to.deep.equal([row(1).payment_id]);
    expect(planTransaction(rows(30, { has_code: true }), settler, limits)?.paymentIds).to.have.length(10);
  });

  it("sends each payment over Permit2 alone and at once, an upto payment by the key that the payer signed", () => {
    const sender = checksum(`0x${"0d".repeat(20)}`);
    const mixed = [
      row(0, { method: "permit2" }),
      row(1),
      row(2, { method: "upto", permitted: "5000", sender }),
      row(3),
      row(4, { method: "permit2" }),
    ];
    const { plans, rest } = planTransactions(mixed, settler, limits, 8);
    expect(plans.map(({ to, paymentIds }) => [to, paymentIds])).to.deep.equal([
      [EXACT_PERMIT2_PROXY, [row(0).payment_id]],
      [UPTO_PERMIT2_PROXY, [row(2).payment_id]],
      [EXACT_PERMIT2_PROXY, [row(4).payment_id]],
    ]);
    expect(plans.map((plan) => plan.sender)).to.deep.equal([undefined, sender, undefined]);
    expect(rest.map((one) => one.payment_id)).to.deep.equal([row(1).payment_id, row(3).payment_id]);
    const { args } = uptoProxyInterface.parseTransaction({ data: plans[1]?.data ?? "" }) ?? {};
    expect([args?.permit.permitted.amount, args?.amount, args?.permit.deadline]).to.deep.equal([
      ...[5_000n, 1_000n, 1_999_999_999n],
    ]);
  });

  it("sends a backlog in as many full transactions as there are slots, and leaves less than one for what comes next", () => {
    const small = { ...limits, batchItems: 10 };
    const ids = (from: number, to: number) =>
      rows(to)
        .slice(from)
        .map((one) => one.payment_id);
    const of = (count: number, atMost: number) => {
      const { plans, rest } = planTransactions(rows(count), settler, small, atMost);
      return { sent: plans.map(({ paymentIds }) => paymentIds), left: rest.map((one) => one.payment_id) };
    };
    expect(of(3, 8)).to.deep.equal({ sent: [ids(0, 3)], left: [] });
    expect(of(27, 8)).to.deep.equal({ sent: [ids(0, 10), ids(10, 20)], left: ids(20, 27) });
    expect(of(100, 2)).to.deep.equal({ sent: [ids(0, 10), ids(10, 20)], left: ids(20, 100) });
    expect(of(5, 0)).to.deep.equal({ sent: [], left: ids(0, 5) });
  });
});
